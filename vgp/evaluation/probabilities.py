"""Probabilities of classes, row by row: what figures of merit are made of.

Shapes: N rows, C classes; `probabilities` float (N, C), `label` int (N,).
"""

from dataclasses import dataclass

import numpy as np

from vgp.evaluation.ranked import chosen, hits_of, packed, pieces, scores_of

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
