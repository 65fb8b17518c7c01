"""Figures of merit of one model on one set of rows.

Shapes: N rows, C classes. Every figure is exact for the float32 probabilities that are stored; sums are in float64.

Each of several classes against the rest: AUCs of many parts of the rows from one look at the scores.

A sort of every part for every class would be most of the work of an evaluation. All rows' scores are put into up to
`LEVELS` levels of about equal mass, and each part counts its hits and misses in them. Pairs within a level count a
half, so the AUC is off by at most half of their share: a part where that may be more than `TOLERANCE` is sorted after
all, and so is one of few rows.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from vgp.evaluation.ranked import LN_2, Ranked, Scored, hits_of, nats, pieces, scores_of, take
from vgp.evaluation.record import CalibrationBin, Roc, Scores

#: Maximum number of points of a ROC curve: artifact metadata is limited.
ROC_POINTS = 200
#: Points before thinning or averaging a curve: neighbours are a 16,384th of the rows apart.
CURVE_POINTS = 1 << 14
GRID = np.linspace(0, 1, ROC_POINTS)
#: Bins of equal width over [0, 1] in which rows are counted by confidence.
CONFIDENCE_BINS = 20


def scores(rows: Scored, ranked: Ranked, bins: Sequence[CalibrationBin], auc: float | None) -> Scores:
    """Returns the scores of `rows` from their ranked confidences and bins; the AUC is passed in."""
    if rows.loss is None or rows.squares is None:
        loss, brier, accuracy = _measure_two_classes(ranked)
    else:
        accuracy = sum(b.observed * b.rows for b in bins) / len(rows)
        loss, brier = float(rows.loss.mean()), float(rows.squares.mean(dtype=np.float64))
    return Scores(
        loss=loss,
        auc=auc,
        accuracy=accuracy,
        calibration_error=calibration_error(bins),
        brier=brier,
        calibration_gap=sum((b.predicted - b.observed) * b.rows for b in bins) / len(rows),
    )


def _measure_two_classes(ranked: Ranked) -> tuple[float, float, float]:
    """Returns mean loss, Brier score and accuracy of two classes."""
    sums = np.zeros(3)
    for piece in pieces(len(ranked)):
        score, hit = scores_of(ranked.rows[piece]), hits_of(ranked.rows[piece])
        sums += [nats(score, hit).sum(), np.square(score - hit).sum(), np.sum((score > 0.5) == hit)]
    loss, brier, accuracy = sums / len(ranked)
    return float(loss), float(brier), float(accuracy)


def likelihood(losses: np.ndarray, weight: np.ndarray) -> Scores:
    """Returns scores from losses in nats and weights of rows, float64 (N,)."""
    loss = float(losses.sum() / weight.sum())
    return Scores(loss=loss, bits=loss / LN_2)


def calibration_bins(ranked: Ranked) -> tuple[CalibrationBin, ...]:
    starts = ranked.bins()
    sums = np.zeros((len(starts), 2))
    for number, (start, stop) in enumerate(pairwise([*starts, len(ranked)])):
        for piece in pieces(stop - start):
            rows = ranked.rows[start:stop][piece]
            sums[number] += scores_of(rows).sum(), hits_of(rows).sum()
    means = zip(np.diff(starts, append=len(ranked)), *sums.T, strict=True)
    return tuple(CalibrationBin(rows=int(n), predicted=float(p / n), observed=float(o / n)) for n, p, o in means)


def calibration_error(bins: Sequence[CalibrationBin]) -> float:
    """Returns the expected calibration error: the mean absolute difference of predicted and observed rate over rows."""
    rows = sum(b.rows for b in bins)
    return sum(b.rows * abs(b.predicted - b.observed) for b in bins) / rows


def confidence_counts(ranked: Ranked) -> tuple[int, ...]:
    edges = np.linspace(0, 1, CONFIDENCE_BINS + 1)
    edges[-1] = 1.001  # the last bin is closed; what is above comes from rounding
    return tuple(np.diff(ranked.below(edges)).tolist())


def confusion(label: np.ndarray, predicted: np.ndarray, classes: int) -> list[list[int]]:
    """Returns counts of actual by predicted class, C x C."""
    counts: list[list[int]] = (
        np.bincount(label.astype(np.int64) * classes + predicted, minlength=classes**2).reshape(classes, -1).tolist()
    )
    return counts


def roc(ranked: Ranked) -> Roc:
    """Returns the ROC curve of two classes, thinned to exact points."""
    return _thin(*_curve(ranked))


def average_roc(curves: Sequence[np.ndarray]) -> Roc:
    """Returns the mean of one-vs-rest curves from `curve_on_grid`.

    Vertical averaging (Fawcett 2006, https://doi.org/10.1016/j.patrec.2005.10.010, section 8.1): the area under it
    is the macro AUC, and its thresholds are the classes' mean thresholds.
    """
    hits, thresholds = np.mean(curves, axis=0)
    return _thin(np.r_[0.0, GRID], np.r_[0.0, hits], np.r_[1.0, thresholds])


def curve_on_grid(ranked: Ranked) -> np.ndarray:
    """Returns true positive rates and thresholds at the false positive rates of `GRID`, (2, points)."""
    false, true, threshold = _curve(ranked)
    return np.array([np.interp(GRID, false, true), np.interp(GRID, false, threshold)])


def _curve(ranked: Ranked) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns false and true positive rates and thresholds, highest threshold first, at exact points."""
    starts = ranked.levels(CURVE_POINTS)
    threshold = scores_of(ranked.rows[starts])[::-1]
    false, true = (np.append(0, side[::-1].cumsum()) / side.sum() for side in ranked.counts(starts))
    return false, true, np.clip(np.append(1.0, threshold), 0.0, 1.0)


def _thin(false: np.ndarray, true: np.ndarray, threshold: np.ndarray) -> Roc:
    """Keeps the points closest to equal steps along the curve."""
    length = false + true
    keep = np.unique(np.searchsorted(length, np.linspace(0, length[-1], ROC_POINTS)))
    return Roc(
        false_positive_rate=tuple(false[keep].tolist()),
        true_positive_rate=tuple(true[keep].tolist()),
        threshold=tuple(threshold[keep].tolist()),
    )


#: Maximum number of score levels: a level and the bit for the hit fit together in 16 bits.
LEVELS = 1 << 15
#: Bits of a packed row that its level ignores; 8,192 levels remain between a score and its double.
BUCKET_BITS = 11
TOLERANCE = 5e-5
#: Number of rows in a batch: more than `LEVELS`, so that merging the counts of batches takes little of the time.
COUNTED_ROWS = 1 << 20


def one_vs_rest_aucs(rows: np.ndarray, ranked: Ranked, parts: Sequence[np.ndarray]) -> list[float | None]:
    """Returns the one-vs-rest AUC of each part; None without hits or misses.

    Args:
        rows: All rows, packed; `ranked` holds them sorted.
        parts: Ascending row numbers of each part, int (n,).
    """
    cells, exact = _cells(rows, ranked)
    return [_compute_auc(rows, cells, part, exact) for part in parts]


def _cells(rows: np.ndarray, ranked: Ranked) -> tuple[np.ndarray, bool]:
    """Returns `level << 1 | hit` of each row, uint16 (N,), and whether each level holds one score only."""
    counts = np.zeros((int(ranked.rows[-1]) >> BUCKET_BITS) + 1, np.int64)
    for piece in pieces(len(rows), COUNTED_ROWS):
        counts += np.bincount(rows[piece] >> np.uint32(BUCKET_BITS), minlength=len(counts))
    level = ((np.cumsum(counts) - counts) * LEVELS // len(rows)).astype(np.uint16) << np.uint16(1)
    cells = np.empty(len(rows), np.uint16)
    for piece in pieces(len(rows)):
        cells[piece] = level[rows[piece] >> np.uint32(BUCKET_BITS)] | (rows[piece] & np.uint32(1))
    return cells, len(np.unique(level[counts > 0])) == ranked.distinct


def _compute_auc(rows: np.ndarray, cells: np.ndarray, part: np.ndarray, exact: bool) -> float | None:
    if len(part) < LEVELS:
        return Ranked.of(take(rows, part)).auc()
    counts = np.zeros(2 * LEVELS, np.int64)
    for piece in pieces(len(part), COUNTED_ROWS):
        counts += np.bincount(cells[part[piece]], minlength=2 * LEVELS)
    misses, hits = counts[::2], counts[1::2]
    pairs = int(misses.sum()) * int(hits.sum())
    if not pairs:
        return None
    tied = int(misses @ hits)
    if not exact and tied / 2 > TOLERANCE * pairs:
        return Ranked.of(take(rows, part)).auc()
    return (int(hits @ misses.cumsum()) - tied / 2) / pairs
