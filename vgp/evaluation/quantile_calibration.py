"""How far the share of labels below predicted quantiles is off, beyond chance: the calibration of a regression.

Shapes: N rows, G blocks, R replicates, Q quantiles, B bins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vgp.evaluation.comparison import Blocks
from vgp.evaluation.ranked import CALIBRATION_BINS


@dataclass(frozen=True)
class Cells:
    """Rows of each block in each bin of similar predictions of one quantile."""

    quantile: float
    #: Whose label is below the predicted quantile, or at it, and all, float64 (G, B).
    below: np.ndarray
    tied: np.ndarray
    rows: np.ndarray


def cells(label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float], blocks: Blocks) -> list[Cells]:
    """Counts for each quantile, in up to `CALIBRATION_BINS` bins of equal mass, equal predictions in the same bin.

    Args:
        label: float64 (N,).
        predicted: Mean, then quantiles, float64 (1 + Q, N).
    """
    return [_cells(label, values, quantile, blocks) for quantile, values in zip(quantiles, predicted[1:], strict=True)]


def _cells(label: np.ndarray, predicted: np.ndarray, quantile: float, blocks: Blocks) -> Cells:
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]))
    bins = len(edges) + 1
    cell = blocks.codes.astype(np.int64) * bins + np.searchsorted(edges, predicted, side="right")
    below, tied, rows = (
        np.bincount(cell, weights, blocks.count * bins).reshape(blocks.count, bins).astype(np.float64)
        for weights in (label < predicted, label == predicted, None)
    )
    return Cells(quantile, below, tied, rows)


def replicates(weights_RG: np.ndarray, cells: Sequence[Cells]) -> np.ndarray:
    """Mean square, over rows and quantiles, of how far the share of labels below is off in the row's bin; (R,).

    Labels that equal the quantile count as below or above, whichever is nearer to what should be: of a label that is 0
    in most rows, 0 is right for many quantiles.
    """
    squares = [_squares(weights_RG, each) for each in cells]
    return np.asarray(np.mean(squares, axis=0))


def _squares(weights_RG: np.ndarray, cells: Cells) -> np.ndarray:
    # einsum, not a product: BLAS adds up in another order with other numbers of threads.
    below_RB, tied_RB, rows_RB = (
        np.einsum("rg,gb->rb", weights_RG, counts) for counts in (cells.below, cells.tied, cells.rows)
    )
    least_RB = below_RB - cells.quantile * rows_RB
    excess_RB = np.maximum(least_RB, 0) + np.minimum(least_RB + tied_RB, 0)
    return np.asarray((excess_RB**2 / np.maximum(rows_RB, 1)).sum(axis=1) / rows_RB.sum(axis=1))
