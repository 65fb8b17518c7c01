"""Precision against recall of two classes: the curve, and the mean precision over it.

Definitions as scikit-learn's `precision_recall_curve` and `average_precision_score`: rows of one score are flagged
together, and nothing is interpolated.
"""

import numpy as np

from vgp.evaluation.ranked import Ranked, hits_of, pieces, scores_of
from vgp.protocol.manifest import Frozen

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


def curve(ranked: Ranked) -> PrecisionRecall | None:
    """Points at about equal steps of recall; None without a hit."""
    threshold, hits, misses = flagged(ranked, LEVELS)
    if not hits[-1]:
        return None
    recall, precision = hits / hits[-1], hits / (hits + misses)
    keep = np.unique(np.searchsorted(recall, np.linspace(recall[0], 1, POINTS)))
    return PrecisionRecall(
        recall=tuple(recall[keep].tolist()),
        precision=tuple(precision[keep].tolist()),
        threshold=tuple(threshold[keep].tolist()),
    )


def flagged(ranked: Ranked, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thresholds, falling, and how many hits and misses have that score or a higher one, int64 (levels,).

    Args:
        most: Levels; there is one for each score where there are no more scores.
    """
    starts = ranked.levels(most)
    misses, hits = ranked.counts(starts)
    threshold = np.clip(scores_of(ranked.rows[starts])[::-1], 0.0, 1.0)
    return threshold, hits[::-1].cumsum(), misses[::-1].cumsum()
