"""Rows in the order of their scores, each with whether it was a hit: one sort, and every figure that needs one.

A row is one number, `score << 1 | hit`. The bits of a float32 that is not below 0 rise with its value, so sorting the
numbers sorts the scores, without rounding, and puts the misses before the hits of the same score.

Probabilities of classes, row by row: what figures of merit are made of.

Shapes: N rows, C classes; `probabilities` float (N, C), `label` int (N,).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

#: Bins of the calibration error and of its plot; 15 as in Guo et al. 2017, https://arxiv.org/abs/1706.04599
CALIBRATION_BINS = 15
PIECE_ROWS = 1 << 16


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


def score_bits(rows: np.ndarray) -> np.ndarray:
    """What orders the scores of rows that are packed, uint32 (N,)."""
    return np.asarray(rows >> np.uint32(1))


def pieces(rows: int, size: int = PIECE_ROWS) -> Iterator[slice]:
    """Rows in pieces that the processor's cache holds: what is computed of each needs no new memory."""
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def chosen(values: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
    """`values[rows]`, without the list of 8-byte numbers that numpy would make of all rows."""
    if isinstance(rows, slice):
        return values[rows]
    taken = np.empty(len(rows), values.dtype)
    for piece in pieces(len(rows)):
        np.take(values, rows[piece], out=taken[piece], mode="clip")
    return taken


@dataclass(frozen=True)
class Ranked:
    """Packed rows, rising; beside them each row's block, uint8 (N,), if there are any."""

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
        """The chance that a hit outranks a miss, ties a half, in whole numbers; None without hits or misses.

        The Wilcoxon form: the places of the hits say how many misses are before each. Of a score with misses and hits
        the misses come first, so half of their pairs are taken off again.
        """
        hits = places = 0
        ties = [np.zeros(0, np.int64)]
        for piece in pieces(len(self)):
            rows = self.rows[piece.start : piece.stop + 1]
            hit = np.flatnonzero(rows[: piece.stop - piece.start] & np.uint32(1))
            hits, places = hits + len(hit), places + int(hit.sum()) + piece.start * len(hit)
            ties.append(piece.start + np.flatnonzero(rows[1:] ^ rows[:-1] == np.uint32(1)))
        pairs = hits * (len(self) - hits)
        miss = np.concatenate(ties)  # the last of its score, which the next row hits
        misses = miss + 1 - np.searchsorted(self.rows, self.rows[miss])
        tied = misses * (np.searchsorted(self.rows, self.rows[miss + 1], side="right") - miss - 1)
        return (places - hits * (hits - 1) // 2 - int(tied.sum()) / 2) / pairs if pairs else None

    def below(self, scores: np.ndarray) -> np.ndarray:
        """How many rows have less than each of these scores, float64, none below 0."""
        least = scores.astype(np.float32)
        least = np.where(least < scores, np.nextafter(least, np.float32(np.inf)), least)
        return np.searchsorted(self.rows, packed(least, np.zeros(len(least))))

    @cached_property
    def distinct(self) -> int:
        """How many different scores there are."""
        return 1 + sum(int(np.count_nonzero(self._changes(piece))) for piece in pieces(len(self)))

    def levels(self, most: int) -> np.ndarray:
        """Where each of at most so many levels begins, int: a level for each score, or levels of about equal mass."""
        if self.distinct > most:
            scores = self.rows[np.arange(most) * len(self) // most] & ~np.uint32(1)
            return np.unique(np.searchsorted(self.rows, scores))
        changes = [piece.start + 1 + np.flatnonzero(self._changes(piece)) for piece in pieces(len(self))]
        return np.concatenate([[0], *changes])

    def _changes(self, piece: slice) -> np.ndarray:
        """Whether each row's score is another than the next row's, bool (rows of the piece or one fewer,)."""
        score = score_bits(self.rows[piece.start : piece.stop + 1])
        return np.asarray(score[1:] != score[:-1])

    def counts(self, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Misses and hits of levels that begin there, int64."""
        hits = np.add.reduceat(hits_of(self.rows), starts, dtype=np.int64)
        return np.diff(starts, append=len(self)) - hits, hits

    def bins(self) -> np.ndarray:
        """Where each bin of the calibration begins, int: those that are empty are left out."""
        starts = np.unique(np.append(0, self.below(self.bin_edges())))
        return starts[starts < len(self)]

    def bin_edges(self, bins: int = CALIBRATION_BINS) -> np.ndarray:
        """Least scores of the bins above the first, float64: bins of equal mass, equal scores in the same bin.

        Equal mass rather than equal width, because the estimate is less biased: Nguyen & O'Connor 2015,
        https://aclanthology.org/D15-1182
        """
        places = np.linspace(0, 1, bins + 1)[1:-1] * (len(self) - 1)
        below = places.astype(np.int64)
        low, high = (scores_of(self.rows[np.minimum(i, len(self) - 1)]) for i in (below, below + 1))
        return np.unique(low + (high - low) * (places - below))


LN_2 = float(np.log(2))
#: Probabilities are stored as float32: below its resolution a logarithm measures rounding, not the model.
SMALLEST_PROBABILITY = float(np.finfo(np.float32).eps)
#: Probabilities computed in bfloat16 sum to 1 only about so far.
SUM_TOLERANCE = 0.02


@dataclass(frozen=True)
class Scored:
    """One model's predictions, row by row, in as little memory as they take.

    `confident` has what calibration compares, packed (see `ranked`). Two classes: probability of the second, and
    whether it was the second; the loss and all else follow from them. More: probability of the predicted class, and
    whether it was right (top-label calibration, Guo et al. 2017); the other arrays are None for two classes.
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
        """Above two classes, to be filled."""
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
            None if part is None else chosen(part, rows) for part in (self.loss, self.squares, self.predicted)
        )
        return Scored(chosen(self.confident, rows), loss, squares, predicted)

    def losses(self) -> np.ndarray:
        """Log loss of each row in nats, float64 (N,)."""
        if self.loss is not None:
            return self.loss
        losses = np.empty(len(self))
        for piece in pieces(len(self)):
            losses[piece] = nats(scores_of(self.confident[piece]), hits_of(self.confident[piece]))
        return losses

    def classes(self) -> np.ndarray:
        """The predicted class of each row, int (N,)."""
        return (scores_of(self.confident) > 0.5).astype(np.int8) if self.predicted is None else self.predicted


def scored(label: np.ndarray, probabilities: np.ndarray) -> Scored:
    """Of float32 probabilities, whose rows sum to 1 about: above two classes they are made to."""
    if probabilities.shape[1] == 2:
        return Scored(packed(probabilities[:, 1], label))
    predicted, each = probabilities.argmax(axis=1), np.arange(len(label))
    table = normalised(probabilities)
    of_label = table[each, label]
    squares = np.einsum("nc,nc->n", table, table) - 2 * of_label + 1
    return Scored(
        confident=packed(table[each, predicted], predicted == label),
        loss=_nats(of_label),
        squares=squares.astype(np.float32),
        predicted=predicted,
    )


def normalised(probabilities: np.ndarray) -> np.ndarray:
    """Float64 (N, C), each row of sum 1."""
    table = probabilities.astype(np.float64)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def nats(second: np.ndarray, hit: np.ndarray) -> np.ndarray:
    """Log loss of each row in nats, float64 (N,), from the probability of the second class, and whether it was."""
    return _nats(np.where(hit, second, 1 - second))


def _nats(probability: np.ndarray) -> np.ndarray:
    return np.asarray(-np.log(np.clip(probability, SMALLEST_PROBABILITY, 1.0)))
