"""Rows in the order of their scores, each with whether it was a hit: one sort, and every figure that needs one.

A row is one number, `score << 1 | hit`. The bits of a float32 that is not below 0 rise with its value, so sorting the
numbers sorts the scores, without rounding, and puts the misses before the hits of the same score.
"""

from dataclasses import dataclass

import numpy as np

#: Bins of the calibration error and of its plot; 15 as in Guo et al. 2017, https://arxiv.org/abs/1706.04599
CALIBRATION_BINS = 15


def packed(score: np.ndarray, hit: np.ndarray) -> np.ndarray:
    """Rows as numbers, uint32 (N,), from scores float32 (N,), none below 0, and hits, 0 or 1 (N,)."""
    bits = (score.astype(np.float32, copy=False) + np.float32(0)).view(np.uint32)  # adding 0 makes -0 a 0
    return np.asarray(bits << np.uint32(1) | hit.astype(np.uint32))


def scores_of(rows: np.ndarray) -> np.ndarray:
    """Scores of rows that are packed, float64 (N,)."""
    return np.asarray((rows >> np.uint32(1)).view(np.float32).astype(np.float64))


def hits_of(rows: np.ndarray) -> np.ndarray:
    """Whether rows that are packed are hits, bool (N,)."""
    return np.asarray((rows & np.uint32(1)).view(np.int32).astype(bool))


@dataclass(frozen=True)
class Ranked:
    """Packed rows, rising."""

    rows: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> "Ranked":
        return cls(np.sort(rows))

    def __len__(self) -> int:
        return len(self.rows)

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Misses and hits at or below each distinct score, rising, int64 (distinct scores,)."""
        score = self.rows >> np.uint32(1)
        last = np.append(np.flatnonzero(score[1:] != score[:-1]), len(score) - 1)
        hits = np.cumsum(self.rows & np.uint32(1), dtype=np.int64)[last]
        return last + 1 - hits, hits

    def auc(self) -> float | None:
        """The chance that a hit outranks a miss, ties a half, in whole numbers; None without hits or misses."""
        misses, hits = self.counts()
        pairs = int(misses[-1]) * int(hits[-1])
        halves = int((np.diff(hits, prepend=0) * (2 * misses - np.diff(misses, prepend=0))).sum())
        return halves / 2 / pairs if pairs else None

    def levels(self, most: int) -> np.ndarray:
        """The least score of each of at most so many levels, float64: of all distinct scores, or of equal mass."""
        score = self.rows >> np.uint32(1)
        first = np.append(0, np.flatnonzero(score[1:] != score[:-1]) + 1)
        if len(first) > most:
            first = np.arange(most) * len(score) // most
        return np.unique(scores_of(self.rows[first]))

    def bin_edges(self, bins: int = CALIBRATION_BINS) -> np.ndarray:
        """Least scores of the bins above the first, float64: bins of equal mass, equal scores in the same bin.

        Equal mass rather than equal width, because the estimate is less biased: Nguyen & O'Connor 2015,
        https://aclanthology.org/D15-1182
        """
        places = np.linspace(0, 1, bins + 1)[1:-1] * (len(self) - 1)
        below = places.astype(np.int64)
        low, high = (scores_of(self.rows[np.minimum(i, len(self) - 1)]) for i in (below, below + 1))
        return np.unique(low + (high - low) * (places - below))
