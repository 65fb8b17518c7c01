"""Thresholds of two classes with their rates, and the operating point.

The operating point is chosen by the task's rule on validation rows and evaluated on test rows, so that its figures are
not optimistic.

Precision against recall of two classes: the curve, and the mean precision over it.

Definitions as scikit-learn's `precision_recall_curve` and `average_precision_score`: rows of one score are flagged
together, and nothing is interpolated.
"""

import numpy as np

from vgp.evaluation.ranked import Ranked, hits_of, pack, pieces, scores_of
from vgp.protocol.manifest import Frozen
from vgp.protocol.outcome import Rule

#: Recalls and precisions whose thresholds are listed.
RECALLS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.5, 0.25)
PRECISIONS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
#: Least recall at which a precision is listed.
LEAST_RECALL = 0.01
#: Rows from which the operating point is chosen.
MOST_ROWS = 100_000


class OperatingPoint(Frozen):
    """A threshold with its rule and the rows on which it was chosen."""

    rule: str
    #: None if no threshold fulfils the rule, or there are no rows to choose it on.
    threshold: float | None
    #: Split and number of rows on which it was chosen; "" and 0 for a fixed threshold.
    split: str = ""
    rows: int = 0


class AtThreshold(Frozen):
    """The rates of flagging every scored row with a score of at least `threshold`."""

    #: Name of the row: `recall 90%`, `precision 80%`, `operating point`.
    name: str
    threshold: float
    #: Share of flagged rows that are positive; None if none is flagged.
    precision: float | None
    #: Shares of positives and of negatives that are flagged; None if there are none.
    recall: float | None
    false_positive_rate: float | None
    flagged: float
    f1: float
    #: Per 1,000 rows: positives flagged, negatives flagged, positives missed.
    hits_per_1000: float
    false_alarms_per_1000: float
    missed_per_1000: float


class Thresholds(Frozen):
    """The new model's thresholds, descending."""

    table: tuple[AtThreshold, ...]
    #: None if only the predictions are known.
    chosen: OperatingPoint | None = None
    operating: AtThreshold | None = None


def choose(rule: Rule, split: str, label: np.ndarray, second: np.ndarray) -> OperatingPoint:
    """Chooses the threshold by the rule.

    Args:
        split: Name of the rows' split.
        label: Classes of its rows, 0 or 1 (N,).
        second: Probability of the second class, float (N,).
    """
    if not rule.needs_rows:
        return OperatingPoint(rule=rule.words, threshold=rule.value)
    if not len(label):
        return OperatingPoint(rule=rule.words, threshold=None)
    ranked = Ranked.of(pack(second, label))
    threshold, hits, misses = count_flagged(ranked, len(ranked))
    best = _best(rule, hits, misses)
    chosen = None if best is None else float(threshold[best])
    return OperatingPoint(rule=rule.words, threshold=chosen, split=split, rows=len(label))


def _best(rule: Rule, hits: np.ndarray, misses: np.ndarray) -> int | None:
    """Returns the index of the best level, the highest threshold of equals; None if no level fulfils the rule."""
    flagged, positives = hits + misses, hits[-1]
    if rule.name == "f1":
        return int(np.argmax(2 * hits / (flagged + positives)))
    if rule.name == "cost":
        return int(np.argmin(rule.value * (positives - hits) + misses))
    if rule.name == "recall":
        return int(np.argmax(hits >= rule.value * positives)) if positives else None
    good = hits >= rule.value * flagged if rule.name == "precision" else flagged <= rule.value * flagged[-1]
    return int(np.flatnonzero(good)[np.argmax(hits[good])]) if good.any() else None


def measure(ranked: Ranked, point: OperatingPoint | None) -> Thresholds:
    """Returns the table of thresholds on ranked rows, and the rates of the chosen threshold."""
    threshold, hits, misses = count_flagged(ranked, LEVELS)
    precision = hits / (hits + misses)
    listed: dict[int, list[str]] = {}
    for recall in RECALLS if hits[-1] else ():
        listed.setdefault(int(np.argmax(hits >= recall * hits[-1])), []).append(f"recall {recall:.0%}")
    for least in PRECISIONS:
        reached = np.flatnonzero(precision >= least)
        if len(reached) and hits[reached[-1]] >= LEAST_RECALL * hits[-1] and reached[-1] + 1 < len(hits):
            listed.setdefault(int(reached[-1]), []).append(f"precision {least:.0%}")
    table = tuple(
        _row(", ".join(listed[i]), threshold[i], hits[i], misses[i], hits[-1], misses[-1]) for i in sorted(listed)
    )
    if point is None or point.threshold is None:
        return Thresholds(table=table, chosen=point)
    return Thresholds(table=table, chosen=point, operating=_measure_at(ranked, "operating point", point.threshold))


def _measure_at(ranked: Ranked, name: str, threshold: float) -> AtThreshold:
    first = int(ranked.below(np.array([threshold]))[0])
    above, positives = int(np.sum(ranked.rows[first:] & np.uint32(1))), int(np.sum(ranked.rows & np.uint32(1)))
    return _row(name, threshold, above, len(ranked) - first - above, positives, len(ranked) - positives)


def _row(name: str, threshold: float, hits: int, misses: int, positives: int, negatives: int) -> AtThreshold:
    """Returns a row from the numbers of flagged and of all positives and negatives."""
    hits, misses, flagged, rows = int(hits), int(misses), int(hits + misses), int(positives + negatives)
    return AtThreshold(
        name=name,
        threshold=float(threshold),
        precision=hits / flagged if flagged else None,
        recall=hits / int(positives) if positives else None,
        false_positive_rate=misses / int(negatives) if negatives else None,
        flagged=flagged / rows,
        f1=2 * hits / (flagged + int(positives)) if flagged + positives else 0.0,
        hits_per_1000=1000 * hits / rows,
        false_alarms_per_1000=1000 * misses / rows,
        missed_per_1000=1000 * (int(positives) - hits) / rows,
    )


#: Maximum number of points of a curve.
POINTS = 200
#: Score levels that the points are taken from: neighbours are a 16,384th of the rows apart.
LEVELS = 1 << 14


class PrecisionRecall(Frozen):
    """A curve of at most 200 exact points, by ascending recall."""

    recall: tuple[float, ...]
    precision: tuple[float, ...]
    #: Scores from which rows are flagged; descending, in [0, 1].
    threshold: tuple[float, ...]


def average_precision(ranked: Ranked) -> float | None:
    """Returns the average precision: the sum over all scores of gain in recall times precision; None without a hit.

    Rows of equal score are flagged together.
    """
    total, flagged_hits, result = int(np.sum(hits_of(ranked.rows))), 0, 0.0
    if not total:
        return None
    starts = ranked.levels(len(ranked))
    for piece in reversed(list(pieces(len(starts)))):
        first, stop = starts[piece.start], starts[piece.stop] if piece.stop < len(starts) else len(ranked)
        hits = np.add.reduceat(hits_of(ranked.rows[first:stop]), starts[piece] - first, dtype=np.int64)
        up_to = hits[::-1].cumsum()[::-1] + flagged_hits
        result += float(np.sum(hits * (up_to / (len(ranked) - starts[piece]))))
        flagged_hits = int(up_to[0])
    return result / total


def precision_recall_curve(ranked: Ranked) -> PrecisionRecall | None:
    """Returns points at about equal steps of recall; None without a hit."""
    threshold, hits, misses = count_flagged(ranked, LEVELS)
    if not hits[-1]:
        return None
    recall, precision = hits / hits[-1], hits / (hits + misses)
    keep = np.unique(np.searchsorted(recall, np.linspace(recall[0], 1, POINTS)))
    return PrecisionRecall(
        recall=tuple(recall[keep].tolist()),
        precision=tuple(precision[keep].tolist()),
        threshold=tuple(threshold[keep].tolist()),
    )


def count_flagged(ranked: Ranked, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns descending thresholds, and the numbers of hits and misses with at least that score, int64 (levels,).

    Args:
        most: Most levels; with fewer distinct scores there is one level for each.
    """
    starts = ranked.levels(most)
    misses, hits = ranked.counts(starts)
    threshold = np.clip(scores_of(ranked.rows[starts])[::-1], 0.0, 1.0)
    return threshold, hits[::-1].cumsum(), misses[::-1].cumsum()
