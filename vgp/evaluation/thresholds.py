"""Thresholds of two classes: what each flags, and the one to work at.

The operating point is chosen by the task's rule on validation rows, and judged on the test rows: chosen on the rows
that it is judged on, it would look better than it is.
"""

import numpy as np

from vgp.data.operating import Rule
from vgp.evaluation import precision_recall
from vgp.evaluation.ranked import Ranked, packed
from vgp.protocol.manifest import Frozen

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
    threshold, hits, misses = precision_recall.flagged(ranked, len(ranked))
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
    threshold, hits, misses = precision_recall.flagged(ranked, precision_recall.LEVELS)
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
