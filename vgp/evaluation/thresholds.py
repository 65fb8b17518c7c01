"""Thresholds of two classes: what each flags, and the one to work at.

The operating point is chosen by the task's rule on validation rows, and judged on the test rows: chosen on the rows
that it is judged on, it would look better than it is.

Precision against recall of two classes: the curve, and the mean precision over it.

Definitions as scikit-learn's `precision_recall_curve` and `average_precision_score`: rows of one score are flagged
together, and nothing is interpolated.
"""

import numpy as np

from vgp.evaluation.ranked import Ranked, hits_of, packed, pieces, scores_of
from vgp.protocol.manifest import Frozen
from vgp.protocol.outcome import Rule

#: Recalls, and then precisions, whose thresholds are listed.
RECALLS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.5, 0.25)
PRECISIONS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
#: A precision that is reached for fewer of the positives than this is no use.
LEAST_RECALL = 0.01
#: Rows from which the operating point is chosen.
MOST_ROWS = 100_000


class OperatingPoint(Frozen):
    """A threshold with the rule that it follows from, and where it was chosen."""

    rule: str
    #: None where no threshold does what the rule asks for, or there were no rows to choose it on.
    threshold: float | None
    #: Where it was chosen, and on how many rows; "" and 0 for a threshold that was given.
    split: str = ""
    rows: int = 0


class AtThreshold(Frozen):
    """What flagging every row from `threshold` on does, on the rows that were scored."""

    #: Why it is listed: `recall 90%`, `precision 80%`, `operating point`.
    name: str
    threshold: float
    #: Part of the flagged rows that are positive; None where none is flagged.
    precision: float | None
    #: Part of the positives, and of the negatives, that are flagged; None where there are none.
    recall: float | None
    false_positive_rate: float | None
    flagged: float
    f1: float
    #: Of 1,000 rows: positives flagged, negatives flagged, positives missed.
    hits_per_1000: float
    false_alarms_per_1000: float
    missed_per_1000: float


class Thresholds(Frozen):
    """The new model's thresholds, falling."""

    table: tuple[AtThreshold, ...]
    #: None for predictions of which nothing is known but themselves.
    chosen: OperatingPoint | None = None
    operating: AtThreshold | None = None


def choose(rule: Rule, split: str, label: np.ndarray, second: np.ndarray) -> OperatingPoint:
    """The threshold by the rule.

    Args:
        split: Whose rows these are.
        label: Classes of its rows, 0 or 1 (N,).
        second: Probability of the second class, float (N,).
    """
    if not rule.needs_rows:
        return OperatingPoint(rule=rule.words, threshold=rule.value)
    if not len(label):
        return OperatingPoint(rule=rule.words, threshold=None)
    ranked = Ranked.of(packed(second, label))
    threshold, hits, misses = flagged_counts(ranked, len(ranked))
    best = _best(rule, hits, misses)
    chosen = None if best is None else float(threshold[best])
    return OperatingPoint(rule=rule.words, threshold=chosen, split=split, rows=len(label))


def _best(rule: Rule, hits: np.ndarray, misses: np.ndarray) -> int | None:
    """Which level it is; of equals the highest threshold. None: no level does what is asked for."""
    flagged, positives = hits + misses, hits[-1]
    if rule.name == "f1":
        return int(np.argmax(2 * hits / (flagged + positives)))
    if rule.name == "cost":
        return int(np.argmin(rule.value * (positives - hits) + misses))
    if rule.name == "recall":
        return int(np.argmax(hits >= rule.value * positives)) if positives else None
    good = hits >= rule.value * flagged if rule.name == "precision" else flagged <= rule.value * flagged[-1]
    return int(np.flatnonzero(good)[np.argmax(hits[good])]) if good.any() else None


def measure(ranked: Ranked, chosen: OperatingPoint | None) -> Thresholds:
    """The table of rows that are ranked by the probability of the second class, and what the chosen threshold does."""
    threshold, hits, misses = flagged_counts(ranked, LEVELS)
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
    if chosen is None or chosen.threshold is None:
        return Thresholds(table=table, chosen=chosen)
    return Thresholds(table=table, chosen=chosen, operating=_at(ranked, "operating point", chosen.threshold))


def _at(ranked: Ranked, name: str, threshold: float) -> AtThreshold:
    first = int(ranked.below(np.array([threshold]))[0])
    above, positives = int(np.sum(ranked.rows[first:] & np.uint32(1))), int(np.sum(ranked.rows & np.uint32(1)))
    return _row(name, threshold, above, len(ranked) - first - above, positives, len(ranked) - positives)


def _row(name: str, threshold: float, hits: int, misses: int, positives: int, negatives: int) -> AtThreshold:
    """A row from whole numbers: flagged positives and negatives, and all of them."""
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


#: Points kept of a curve.
POINTS = 200
#: Levels of score that they are taken from: neighbours are a 16,384th of the rows apart.
LEVELS = 1 << 14


class PrecisionRecall(Frozen):
    """A curve of at most 200 points, each of which lies on it; recall rises."""

    recall: tuple[float, ...]
    precision: tuple[float, ...]
    #: Rows are flagged from this score on; falling, in [0, 1].
    threshold: tuple[float, ...]


def average_precision(ranked: Ranked) -> float | None:
    """The sum over all scores of the gain in recall times the precision there; None without a hit.

    Each hit counts the precision where all rows of its score are flagged.
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
    """Points at about equal steps of recall; None without a hit."""
    threshold, hits, misses = flagged_counts(ranked, LEVELS)
    if not hits[-1]:
        return None
    recall, precision = hits / hits[-1], hits / (hits + misses)
    keep = np.unique(np.searchsorted(recall, np.linspace(recall[0], 1, POINTS)))
    return PrecisionRecall(
        recall=tuple(recall[keep].tolist()),
        precision=tuple(precision[keep].tolist()),
        threshold=tuple(threshold[keep].tolist()),
    )


def flagged_counts(ranked: Ranked, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thresholds, falling, and how many hits and misses have that score or a higher one, int64 (levels,).

    Args:
        most: Levels; there is one for each score where there are no more scores.
    """
    starts = ranked.levels(most)
    misses, hits = ranked.counts(starts)
    threshold = np.clip(scores_of(ranked.rows[starts])[::-1], 0.0, 1.0)
    return threshold, hits[::-1].cumsum(), misses[::-1].cumsum()
