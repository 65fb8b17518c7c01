"""Figures of merit of one model on one set of rows.

Shapes: N rows, C classes. Every figure is exact for the float32 probabilities that are stored; sums are in float64.
"""

from collections.abc import Sequence

import numpy as np

from training.evaluation.probabilities import LN_2, Scored, binary_losses
from training.evaluation.ranked import Ranked, hits_of, scores_of
from training.evaluation.record import CalibrationBin, Roc, Scores

#: Points kept of a ROC curve: artifact metadata is limited.
ROC_POINTS = 200
GRID = np.linspace(0, 1, ROC_POINTS)
#: Bins of equal width over [0, 1] in which rows are counted by confidence.
CONFIDENCE_BINS = 20


def scores(rows: Scored, ranked: Ranked, auc: float | None) -> Scores:
    """The scores of `rows`, whose `confident`, in order, is `ranked`; their AUC is computed apart."""
    score, hit = scores_of(ranked.rows), hits_of(ranked.rows)
    losses = binary_losses(ranked.rows) if rows.loss is None else rows.loss
    squares = (score - hit) ** 2 if rows.squares is None else rows.squares
    right = (score > 0.5) == hit if rows.predicted is None else hit
    return Scores(
        loss=float(losses.mean()),
        auc=auc,
        accuracy=float(right.mean()),
        calibration_error=calibration_error(calibration_bins(ranked)),
        brier=float(squares.mean(dtype=np.float64)),
        calibration_gap=float(score.mean() - hit.mean()),
    )


def likelihood(losses: np.ndarray, weight: np.ndarray) -> Scores:
    """Scores from losses in nats and weights of rows, float64 (N,)."""
    loss = float(losses.sum() / weight.sum())
    return Scores(loss=loss, bits=loss / LN_2)


def calibration_bins(ranked: Ranked) -> list[CalibrationBin]:
    score, hit = scores_of(ranked.rows), hits_of(ranked.rows)
    starts = np.unique(np.append(0, np.searchsorted(score, ranked.bin_edges())))
    starts = starts[starts < len(score)]
    rows = np.diff(starts, append=len(score))
    sums = np.add.reduceat(score, starts), np.add.reduceat(hit, starts, dtype=np.float64)
    means = zip(rows, *sums, strict=True)
    return [CalibrationBin(rows=int(n), predicted=float(p / n), observed=float(o / n)) for n, p, o in means]


def calibration_error(bins: list[CalibrationBin]) -> float:
    """Mean absolute difference of predicted and observed rate, weighted by rows."""
    rows = sum(b.rows for b in bins)
    return sum(b.rows * abs(b.predicted - b.observed) for b in bins) / rows


def confidence_counts(ranked: Ranked) -> tuple[int, ...]:
    edges = np.linspace(0, 1, CONFIDENCE_BINS + 1)
    edges[-1] = np.nextafter(1, 2)  # the last bin is closed
    return tuple(np.diff(np.searchsorted(scores_of(ranked.rows), edges)).tolist())


def confusion(label: np.ndarray, predicted: np.ndarray, classes: int) -> list[list[int]]:
    """Counts, actual class by predicted class, C x C."""
    counts: list[list[int]] = (
        np.bincount(label.astype(np.int64) * classes + predicted, minlength=classes**2).reshape(classes, -1).tolist()
    )
    return counts


def roc(ranked: Ranked) -> Roc:
    """The ROC curve of two classes, thinned to points of it."""
    return _thin(*_curve(ranked))


def averaged_roc(curves: Sequence[np.ndarray]) -> Roc:
    """The mean of one-vs-rest curves, each of `curve_on_grid`.

    Vertical averaging (Fawcett 2006, https://doi.org/10.1016/j.patrec.2005.10.010, section 8.1): the area under it
    is the macro AUC, and its thresholds are the classes' mean thresholds.
    """
    hits, thresholds = np.mean(curves, axis=0)
    return _thin(np.r_[0.0, GRID], np.r_[0.0, hits], np.r_[1.0, thresholds])


def curve_on_grid(ranked: Ranked) -> np.ndarray:
    """True positive rates and thresholds at the false positive rates of `GRID`, (2, points)."""
    false, true, threshold = _curve(ranked)
    return np.array([np.interp(GRID, false, true), np.interp(GRID, false, threshold)])


def _curve(ranked: Ranked) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """False and true positive rates and thresholds, the highest threshold first."""
    misses, hits = ranked.counts()
    threshold = scores_of(ranked.rows[misses + hits - 1])[::-1]
    false, true = (1 - np.append(0, side)[::-1] / side[-1] for side in (misses, hits))
    return false, true, np.clip(np.append(1.0, threshold), 0.0, 1.0)


def _thin(false: np.ndarray, true: np.ndarray, threshold: np.ndarray) -> Roc:
    """Keeps the points nearest to equal steps along the curve."""
    length = false + true
    keep = np.unique(np.searchsorted(length, np.linspace(0, length[-1], ROC_POINTS)))
    return Roc(
        false_positive_rate=tuple(false[keep].tolist()),
        true_positive_rate=tuple(true[keep].tolist()),
        threshold=tuple(threshold[keep].tolist()),
    )
