"""Scored rows in little memory: sorted by score for AUC, calibration and thresholds, and with their losses.

A row is packed into one integer, `score << 1 | hit`. The bits of a non-negative float32 rise with its value, so sorting
the integers sorts the scores exactly, with the misses before the hits of an equal score.

Shapes: N rows, C classes; `probabilities` float (N, C), `label` int (N,).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

#: Bins of the calibration error and of its plot; 15 as in Guo et al. 2017, https://arxiv.org/abs/1706.04599
CALIBRATION_BINS = 15
PIECE_ROWS = 1 << 16


def pack(score: np.ndarray, hit: np.ndarray) -> np.ndarray:
    """Packs rows into integers, uint32 (N,), from non-negative scores, float32 (N,), and hits, 0 or 1 (N,)."""
    bits = (score.astype(np.float32, copy=False) + np.float32(0)).view(np.uint32)  # adding 0 makes -0 a 0
    return np.asarray(bits << np.uint32(1) | hit.astype(np.uint32))


def scores_of(rows: np.ndarray) -> np.ndarray:
    """Returns the scores of packed rows, float64 (N,)."""
    return np.asarray((rows >> np.uint32(1)).view(np.float32).astype(np.float64))


def hits_of(rows: np.ndarray) -> np.ndarray:
    """Returns whether each packed row is a hit, bool (N,)."""
    return np.asarray((rows & np.uint32(1)).view(np.int32).astype(bool))


def score_bits(rows: np.ndarray) -> np.ndarray:
    """Returns integers in the order of the scores of packed rows, uint32 (N,)."""
    return np.asarray(rows >> np.uint32(1))


def pieces(rows: int, size: int = PIECE_ROWS) -> Iterator[slice]:
    """Splits row numbers into slices that fit the processor's cache."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def take(values: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
    """Returns `values[rows]` without converting all row numbers to 8-byte integers, as numpy does."""
    if isinstance(rows, slice):
        return values[rows]
    selected = np.empty(len(rows), values.dtype)
    for piece in pieces(len(rows)):
        np.take(values, rows[piece], out=selected[piece], mode="clip")
    return selected


@dataclass(frozen=True)
class Ranked:
    """Packed rows in ascending order, with each row's block, uint8 (N,), if there are blocks."""

    rows: np.ndarray
    blocks: np.ndarray | None = None

    @classmethod
    def of(cls, rows: np.ndarray, blocks: np.ndarray | None = None) -> "Ranked":
        if blocks is None:
            return cls(np.sort(rows))
        both = rows.astype(np.uint64) << np.uint64(8)
        both |= blocks.astype(np.uint8)
        both.sort()
        return cls((both >> np.uint64(8)).astype(np.uint32), both.astype(np.uint8))

    def __len__(self) -> int:
        return len(self.rows)

    def auc(self) -> float | None:
        """Returns the probability that a hit outranks a miss, with ties as one half; None without hits or misses.

        The Wilcoxon form in integers: the position of a hit gives the number of misses below it. At an equal score the
        misses come first, so half of the tied pairs is subtracted.
        """
        hits = places = 0
        ties = [np.zeros(0, np.int64)]
        for piece in pieces(len(self)):
            rows = self.rows[piece.start : piece.stop + 1]
            hit = np.flatnonzero(rows[: piece.stop - piece.start] & np.uint32(1))
            hits, places = hits + len(hit), places + int(hit.sum()) + piece.start * len(hit)
            ties.append(piece.start + np.flatnonzero(rows[1:] ^ rows[:-1] == np.uint32(1)))
        pairs = hits * (len(self) - hits)
        miss = np.concatenate(ties)  # the last miss of each score that also has hits
        misses = miss + 1 - np.searchsorted(self.rows, self.rows[miss])
        tied = misses * (np.searchsorted(self.rows, self.rows[miss + 1], side="right") - miss - 1)
        return (places - hits * (hits - 1) // 2 - int(tied.sum()) / 2) / pairs if pairs else None

    def below(self, scores: np.ndarray) -> np.ndarray:
        """Returns the number of rows below each of the non-negative scores, float64."""
        least = scores.astype(np.float32)
        least = np.where(least < scores, np.nextafter(least, np.float32(np.inf)), least)
        return np.searchsorted(self.rows, pack(least, np.zeros(len(least))))

    @cached_property
    def distinct(self) -> int:
        """Returns the number of distinct scores."""
        return 1 + sum(int(np.count_nonzero(self._changes(piece))) for piece in pieces(len(self)))

    def levels(self, most: int) -> np.ndarray:
        """Returns the starts of at most `most` levels, int: one for each score, or levels of about equal size."""
        if self.distinct > most:
            scores = self.rows[np.arange(most) * len(self) // most] & ~np.uint32(1)
            return np.unique(np.searchsorted(self.rows, scores))
        changes = [piece.start + 1 + np.flatnonzero(self._changes(piece)) for piece in pieces(len(self))]
        return np.concatenate([[0], *changes])

    def _changes(self, piece: slice) -> np.ndarray:
        """Returns whether each row's score differs from the next row's, bool (rows of the piece or one fewer,)."""
        score = score_bits(self.rows[piece.start : piece.stop + 1])
        return np.asarray(score[1:] != score[:-1])

    def counts(self, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of misses and of hits in the levels with these starts, int64."""
        hits = np.add.reduceat(hits_of(self.rows), starts, dtype=np.int64)
        return np.diff(starts, append=len(self)) - hits, hits

    def bins(self) -> np.ndarray:
        """Returns the starts of the non-empty calibration bins, int."""
        starts = np.unique(np.append(0, self.below(self.bin_edges())))
        return starts[starts < len(self)]

    def bin_edges(self, bins: int = CALIBRATION_BINS) -> np.ndarray:
        """Returns the lowest scores of all bins but the first, float64; bins have equal mass, and equal scores one bin.

        Equal mass rather than equal width, because the estimate is less biased: Nguyen & O'Connor 2015,
        https://aclanthology.org/D15-1182
        """
        places = np.linspace(0, 1, bins + 1)[1:-1] * (len(self) - 1)
        below = places.astype(np.int64)
        low, high = (scores_of(self.rows[np.minimum(i, len(self) - 1)]) for i in (below, below + 1))
        return np.unique(low + (high - low) * (places - below))


LN_2 = float(np.log(2))
#: Smallest probability in a logarithm: below the resolution of float32 it would measure rounding.
SMALLEST_PROBABILITY = float(np.finfo(np.float32).eps)
#: Tolerance for sums of probabilities, which bfloat16 rounds.
SUM_TOLERANCE = 0.02


@dataclass(frozen=True)
class Scored:
    """One model's predictions of each row, in little memory.

    `confident` has packed scores and hits. For two classes: the probability of the second, and whether the label is the
    second; all metrics follow from them, and the other arrays are None. For more classes: the probability of the
    predicted class, and whether the prediction is correct (top-label calibration, Guo et al. 2017).
    """

    confident: np.ndarray
    #: Log loss in nats, float64 (N,).
    loss: np.ndarray | None = None
    #: Brier score, float32 (N,).
    squares: np.ndarray | None = None
    #: Predicted class, the likeliest, (N,).
    predicted: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.confident)

    @classmethod
    def empty(cls, rows: int, classes: int) -> "Scored":
        """Returns arrays for more than two classes, to be filled."""
        predicted = np.empty(rows, np.min_scalar_type(classes))
        return cls(np.empty(rows, np.uint32), np.empty(rows), np.empty(rows, np.float32), predicted)

    def fill(self, rows: slice, part: "Scored") -> None:
        for whole, values in (
            (self.confident, part.confident),
            (self.loss, part.loss),
            (self.squares, part.squares),
            (self.predicted, part.predicted),
        ):
            assert whole is not None and values is not None
            whole[rows] = values

    def __getitem__(self, rows: np.ndarray | slice) -> "Scored":
        loss, squares, predicted = (
            None if part is None else take(part, rows) for part in (self.loss, self.squares, self.predicted)
        )
        return Scored(take(self.confident, rows), loss, squares, predicted)

    def losses(self) -> np.ndarray:
        """Returns the log loss of each row in nats, float64 (N,)."""
        if self.loss is not None:
            return self.loss
        losses = np.empty(len(self))
        for piece in pieces(len(self)):
            losses[piece] = nats(scores_of(self.confident[piece]), hits_of(self.confident[piece]))
        return losses

    def classes(self) -> np.ndarray:
        """Returns the predicted class of each row, int (N,)."""
        return (scores_of(self.confident) > 0.5).astype(np.int8) if self.predicted is None else self.predicted


def score_rows(label: np.ndarray, probabilities: np.ndarray) -> Scored:
    """Scores float32 probabilities; rows of more than two classes are normalised to a sum of 1."""
    if probabilities.shape[1] == 2:
        return Scored(pack(probabilities[:, 1], label))
    predicted, rows = probabilities.argmax(axis=1), np.arange(len(label))
    table = normalise(probabilities)
    of_label = table[rows, label]
    squares = np.einsum("nc,nc->n", table, table) - 2 * of_label + 1
    return Scored(
        confident=pack(table[rows, predicted], predicted == label),
        loss=_compute_log_loss(of_label),
        squares=squares.astype(np.float32),
        predicted=predicted,
    )


def normalise(probabilities: np.ndarray) -> np.ndarray:
    """Divides each row by its sum; returns float64 (N, C)."""
    table = probabilities.astype(np.float64)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def nats(second: np.ndarray, hit: np.ndarray) -> np.ndarray:
    """Returns the log loss of each row in nats, float64 (N,), from the probability of the second class and whether the
    label is the second class."""
    return _compute_log_loss(np.where(hit, second, 1 - second))


def _compute_log_loss(probability: np.ndarray) -> np.ndarray:
    return np.asarray(-np.log(np.clip(probability, SMALLEST_PROBABILITY, 1.0)))
