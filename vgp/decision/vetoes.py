"""Vetoes against promoting a better model: worse calibration, a significantly worse slice, a better constant.

The first two need significance at the confidence of one decision: a false veto costs one night and none of the year's
error, and without a test small test sets could never pass. The constant needs no test: a model that is worse than a
constant prediction is never promoted automatically.

Shapes: N rows, G blocks, R replicates, Q quantiles, B bins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vgp.decision import levels
from vgp.decision.decision import CalibrationCheck, ConstantCheck, Reference, SliceCheck
from vgp.decision.levels import Compared, groupings
from vgp.evaluation import clusters, comparison, metrics, regression
from vgp.evaluation.comparison import Blocks
from vgp.evaluation.predictions import Predictions
from vgp.evaluation.ranked import CALIBRATION_BINS, SMALLEST_PROBABILITY, Ranked, take
from vgp.evaluation.regression import Loss
from vgp.protocol import outcome

#: One percentage point, about the sampling error of a bin of 2,000 rows (sqrt(.3 * .7 / 2000) = .010).
CALIBRATION_TOLERANCE = 0.01
FEWEST_SLICE_ROWS = 100
#: With fewer rows outside a slice's most frequent class, its mean loss depends on a handful of rows, and no test holds.
FEWEST_RARE_ROWS = 10


def calibration(data: Predictions, reference: Reference, confidence: float) -> CalibrationCheck:
    """Tests whether the challenger's calibration is worse than the reference's, beyond tolerance and chance."""
    rows = comparison.blocks(data.group, len(data))
    weights_RG = comparison.resample(rows.count)
    squares, replicates = [], []
    for model in ("challenger", reference):
        plain, plain_R = _miscalibration(data, model, weights_RG, rows)
        square, square_R = comparison.without_noise(plain, plain_R)
        squares.append(square)
        replicates.append(square_R)
    ours, theirs = (max(0.0, square) ** 0.5 for square in squares)
    growth = comparison.interval(squares[0] - squares[1], replicates[0] - replicates[1], rows.count, confidence)
    worse = ours - theirs > CALIBRATION_TOLERANCE and growth.low > 0
    errors = [_reported_error(data, model) for model in ("challenger", reference)]
    return CalibrationCheck(
        challenger=ours, reference=theirs, challenger_error=errors[0], reference_error=errors[1],
        squares_lower_bound=growth.low, worse=worse,
    )  # fmt: skip


def _reported_error(data: Predictions, model: str) -> float | None:
    """Returns the calibration error that `metrics.json` holds for the model; None for quantiles."""
    if data.header.quantiles:
        return None
    return metrics.calibration_error(metrics.calibration_bins(Ranked.of(data.read_scores(model).confident)))


def _miscalibration(data: Predictions, model: str, weights_RG: np.ndarray, rows: Blocks) -> tuple[float, np.ndarray]:
    """Returns a model's mean squared calibration error, sampling noise included, and that of each replicate (R,)."""
    everything = np.ones((1, rows.count))
    if data.header.quantiles:
        cells = quantile_cells(data.label, data.read_regression(model), data.header.quantiles, rows)
        plain, plain_R = (quantile_replicates(weights, cells) for weights in (everything, weights_RG))
        return float(plain[0]), plain_R
    packed = data.read_scores(model).confident
    edges = Ranked.of(packed).bin_edges()
    plain, plain_R = (
        comparison.calibration_replicates(weights, packed, rows, edges) for weights in (everything, weights_RG)
    )
    return float(plain[0]), plain_R


def constants(data: Predictions) -> tuple[ConstantCheck, ...]:
    """Compares the challenger with constant predictions from the train labels; () if the labels are unknown.

    For a regression it also compares the squared error of the predicted mean, because a loss of quantiles ignores the
    mean. The constant is the mean or the median of the train labels, whichever is better: outliers spoil the mean.
    """
    header = data.header
    if not header.constant:
        return ()
    if header.classes:
        chances = np.clip(header.constant, SMALLEST_PROBABILITY, 1.0)
        theirs = -float(np.log(chances)[data.label].mean())
        ours = float(data.losses("challenger").mean())
        return (ConstantCheck(what="the class frequencies", metric="loss", unit="", challenger=ours, constant=theirs),)
    predicted = data.read_regression("challenger")
    return tuple(_constant(data, kind, predicted) for kind in dict.fromkeys((header.decided_by, "squared")))


def _constant(data: Predictions, kind: Loss, predicted: np.ndarray) -> ConstantCheck:
    """Compares the challenger with the best constant for this loss."""
    header, (mean, median, *quantiles) = data.header, data.header.constant
    losses = {
        "the quantiles" if kind == "pinball" else what: float(
            regression.losses(kind, data.label, np.array([[point], *([q] for q in quantiles)]), header.quantiles).mean()
        )
        for what, point in (("the mean", mean), ("the median", median))
    }
    what = min(losses, key=lambda name: losses[name])
    return ConstantCheck(
        what=what, metric=kind, unit=outcome.loss_unit(header.unit, header.target, kind),
        challenger=float(regression.losses(kind, data.label, predicted, header.quantiles).mean()),
        constant=losses[what],
    )  # fmt: skip


def slices(data: Predictions, compared: Compared, confidence: float) -> tuple[SliceCheck, ...]:
    """Tests whether the challenger is worse on a slice, adjusted for all slices (Holm)."""
    codes = groupings(data)
    drafts = [
        _slice(
            column, value, take(compared.increase, rows), [take(each, rows) for each in codes],
            None if data.weight is None else take(data.weight, rows), abs(compared.theirs), _can_test(data, rows),
        )
        for column, names in data.slices.items()
        for value, rows in names.rows()
    ]  # fmt: skip
    adjusted = iter(comparison.holm([draft.p_value for draft in drafts if draft.p_value is not None]))
    return tuple(_adjust_check(draft, adjusted, confidence) for draft in drafts)


def _can_test(data: Predictions, rows: np.ndarray) -> bool:
    """Whether a slice has enough rows, and enough outside its most frequent class."""
    if len(rows) < FEWEST_SLICE_ROWS:
        return False
    return not data.header.classes or len(rows) - np.bincount(take(data.label, rows)).max() >= FEWEST_RARE_ROWS


def _slice(
    column: str, value: str, increase: np.ndarray, codes: list[np.ndarray], weight: np.ndarray | None, scale: float,
    can_test: bool,
) -> SliceCheck:  # fmt: skip
    worse = clusters.contrast(increase, codes, weight, scale=scale)
    enough = can_test and min(worse.clusters) >= levels.FEWEST_CLUSTERS
    return SliceCheck(
        column=column,
        value=value,
        rows=len(increase),
        loss_increase=worse.estimate,
        p_value=levels.above(worse) if enough else None,
        worse=False,
    )


def _adjust_check(draft: SliceCheck, adjusted: Iterator[float], confidence: float) -> SliceCheck:
    if draft.p_value is None:
        return draft
    p_value = next(adjusted)
    return draft.model_copy(update={"p_value": p_value, "worse": p_value < 1 - confidence})


@dataclass(frozen=True)
class Cells:
    """Row counts of one quantile by block and bin of similar predictions."""

    quantile: float
    #: Rows with the label below the predicted quantile, equal to it, and all rows, float64 (G, B).
    below: np.ndarray
    tied: np.ndarray
    rows: np.ndarray


def quantile_cells(label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float], blocks: Blocks) -> list[Cells]:
    """Counts rows for each quantile in up to `CALIBRATION_BINS` bins of equal mass; equal predictions share a bin.

    Args:
        label: float64 (N,).
        predicted: Mean, then quantiles, float64 (1 + Q, N).
    """
    return [
        _count_cells(label, values, quantile, blocks) for quantile, values in zip(quantiles, predicted[1:], strict=True)
    ]


def _count_cells(label: np.ndarray, predicted: np.ndarray, quantile: float, blocks: Blocks) -> Cells:
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]))
    bins = len(edges) + 1
    cell = blocks.codes.astype(np.int64) * bins + np.searchsorted(edges, predicted, side="right")
    below, tied, rows = (
        np.bincount(cell, weights, blocks.count * bins).reshape(blocks.count, bins).astype(np.float64)
        for weights in (label < predicted, label == predicted, None)
    )
    return Cells(quantile, below, tied, rows)


def quantile_replicates(weights_RG: np.ndarray, cells: Sequence[Cells]) -> np.ndarray:
    """Returns the mean squared error, over rows and quantiles, of the share of labels below the quantile; (R,).

    Labels equal to the quantile count as below or above, whichever is closer to the target: if most labels are 0, then
    0 is right for many quantiles.
    """
    squares = [_sum_squares(weights_RG, each) for each in cells]
    return np.asarray(np.mean(squares, axis=0))


def _sum_squares(weights_RG: np.ndarray, cells: Cells) -> np.ndarray:
    # einsum instead of a matrix product: BLAS sums in an order that depends on the number of threads.
    below_RB, tied_RB, rows_RB = (
        np.einsum("rg,gb->rb", weights_RG, counts) for counts in (cells.below, cells.tied, cells.rows)
    )
    least_RB = below_RB - cells.quantile * rows_RB
    excess_RB = np.maximum(least_RB, 0) + np.minimum(least_RB + tied_RB, 0)
    return np.asarray((excess_RB**2 / np.maximum(rows_RB, 1)).sum(axis=1) / rows_RB.sum(axis=1))
