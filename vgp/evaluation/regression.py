"""The figures of a regression: the field `regression` of `metrics.json`.

Residuals are label minus predicted mean. All figures but shares and R2 are in the label's unit, squared errors in its
square. Squared errors are of the predicted mean, absolute errors of the predicted median where 0.5 is one of the
quantiles, else of the mean: each prediction is scored by the error that it minimises (Gneiting 2011,
https://doi.org/10.1198/jasa.2011.r10138).

Shapes: N rows, Q quantiles; `label` float64 (N,), `predicted` float64 (1 + Q, N): the mean, then the quantiles.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from vgp.protocol.manifest import Frozen

#: Names of the losses that the decision may test.
LOSSES = {"pinball": "mean pinball loss", "squared": "mean squared error", "absolute": "mean absolute error"}
Loss = Literal["pinball", "squared", "absolute"]
Bounds = tuple[float, float] | None


class CentralInterval(Frozen):
    """An interval between two symmetric quantiles, such as 0.1 and 0.9, which should hold 80% of the labels."""

    low: float
    high: float
    #: Expected share of labels in the interval: high - low.
    expected: float


class RegressionScores(Frozen):
    """The scores of one model on one set of rows."""

    rmse: float
    mae: float
    median_absolute_error: float
    #: Share of the label's variance that the predicted mean explains; None if all labels are equal.
    r2: float | None
    #: Mean of predicted mean minus label; positive means too high.
    bias: float
    #: Pinball loss of each quantile, and their mean.
    pinball: tuple[float, ...]
    mean_pinball: float
    #: 1 - mean pinball loss / that of the rows' own quantiles, the analogue of R2; None if the divisor is 0.
    d2: float | None
    #: Share of labels in each central interval (ends included), and its mean width.
    coverage: tuple[float, ...]
    width: tuple[float, ...]


class QuantileCalibration(Frozen):
    """The observed share of labels below one predicted quantile."""

    #: The quantile, which is the expected share.
    quantile: float
    #: Observed share. Labels equal to the quantile count as below or above, whichever is closer to the target.
    observed: float
    #: Share of labels that equal the quantile.
    tied: float


class ResidualBin(Frozen):
    """The residuals of rows with similar predicted means."""

    rows: int
    #: Average predicted mean.
    predicted: float
    #: Mean, standard deviation and quartiles of the residuals.
    mean: float
    spread: float
    lower_quartile: float
    upper_quartile: float


class RegressionModel(Frozen):
    """The figures of one model on all rows of the split."""

    scores: RegressionScores
    #: 95% intervals from resampled groups of rows; None with too few groups.
    rmse_interval: Bounds
    mae_interval: Bounds
    r2_interval: Bounds
    pinball_interval: Bounds
    #: One for each quantile.
    calibration: tuple[QuantileCalibration, ...]
    #: Row counts between `RegressionFigures.residual_edges`, and below the first and above the last edge.
    residual_counts: tuple[int, ...]
    residuals_below: int
    residuals_above: int
    #: Bins of equal row counts by ascending prediction; fewer if predictions are equal.
    by_prediction: tuple[ResidualBin, ...]


class RegressionSlice(Frozen):
    """The scores of all models on one slice."""

    column: str
    value: str
    rows: int
    #: Mean label.
    label: float
    models: dict[str, RegressionScores]


class RegressionFigures(Frozen):
    """All figures of a regression, for each model on the same rows."""

    #: Name of the label in the task, and its unit for people; "" = unknown.
    target: str
    unit: str
    quantiles: tuple[float, ...]
    #: Outermost first.
    intervals: tuple[CentralInterval, ...]
    #: The loss that the decision tests.
    decided_by: Loss
    #: The prediction that absolute errors use, median or mean.
    absolute_of: Literal["median", "mean"]
    #: Mean, standard deviation, minimum and maximum of the labels of all rows.
    label_mean: float
    label_std: float
    label_minimum: float
    label_maximum: float
    #: Ascending, equidistant edges, the same for all models.
    residual_edges: tuple[float, ...]
    #: Figures by model: `challenger`, `champion`, `baseline` and `boosting`, if scored.
    models: dict[str, RegressionModel]
    slices: tuple[RegressionSlice, ...]

    def scalars(self, model: str) -> dict[str, float]:
        """Returns a model's figures by name; `coverage_80` is the share of labels in the 80% interval."""
        scores = self.models[model].scores
        named = {name: getattr(scores, name) for name in ("rmse", "mae", "median_absolute_error", "r2", "bias", "d2")}
        covered = {f"coverage_{100 * c.expected:.4g}": s for c, s in zip(self.intervals, scores.coverage, strict=True)}
        values = {**named, "pinball": scores.mean_pinball, **covered}
        return {name: value for name, value in values.items() if value is not None}


#: Bars of the histogram of residuals, and the share of residuals outside of it on each side.
RESIDUAL_BARS, OUTSIDE = 40, 0.005
#: Number of bins by prediction.
PREDICTION_BINS = 20


def absolute_of(quantiles: Sequence[float]) -> int:
    """Returns the row of `predicted` for absolute errors: the median if predicted, else the mean."""
    return 1 + list(quantiles).index(0.5) if 0.5 in quantiles else 0


def central(quantiles: Sequence[float]) -> tuple[CentralInterval, ...]:
    """Returns the intervals between symmetric quantiles, outermost first."""
    pairs = zip(quantiles, reversed(quantiles), strict=True)
    some = ((low, high) for low, high in pairs if low < 0.5)
    by_value = [(low, next((h for h in quantiles if abs(1 - low - h) < 1e-9), None)) for low, _ in some]
    return tuple(CentralInterval(low=a, high=b, expected=round(b - a, 9)) for a, b in by_value if b is not None)


def pinball(label: np.ndarray, predicted: np.ndarray, quantile: float) -> np.ndarray:
    """Returns the pinball loss of each row, float64 (N,): Koenker & Bassett 1978, https://doi.org/10.2307/1913643"""
    error = label - predicted
    return np.asarray(np.maximum(quantile * error, (quantile - 1) * error))


def losses(kind: Loss, label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
    """Returns the loss of each row, float64 (N,)."""
    if kind == "squared":
        return np.asarray(np.square(label - predicted[0]))
    if kind == "absolute":
        return np.asarray(np.abs(label - predicted[absolute_of(quantiles)]))
    total = np.zeros(len(label))
    for quantile, values in zip(quantiles, predicted[1:], strict=True):
        total += pinball(label, values, quantile)
    return total / len(quantiles)


def regression_scores(label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float]) -> RegressionScores:
    """Computes the scores of one model on at least one row."""
    error, apart = predicted[0] - label, np.abs(label - predicted[absolute_of(quantiles)])
    squared, variance = float(np.square(error).mean()), float(label.var()) if label.min() < label.max() else 0.0
    of_quantiles = tuple(float(pinball(label, p, q).mean()) for q, p in zip(quantiles, predicted[1:], strict=True))
    own = [float(pinball(label, at, q).mean()) for q, at in zip(quantiles, np.quantile(label, quantiles), strict=True)]
    ends = [(predicted[1 + low], predicted[1 + high]) for low, high in _ends(quantiles)]
    return RegressionScores(
        rmse=squared**0.5,
        mae=float(apart.mean()),
        median_absolute_error=float(np.median(apart)),
        r2=1 - squared / variance if variance > 0 else None,
        bias=float(error.mean()),
        pinball=of_quantiles,
        mean_pinball=float(np.mean(of_quantiles)),
        d2=1 - sum(of_quantiles) / sum(own) if sum(own) > 0 else None,
        coverage=tuple(float(((low <= label) & (label <= high)).mean()) for low, high in ends),
        width=tuple(float((high - low).mean()) for low, high in ends),
    )


def _ends(quantiles: Sequence[float]) -> list[tuple[int, int]]:
    """Returns the indices of the quantiles that bound each central interval."""
    places = list(quantiles)
    return [(places.index(interval.low), places.index(interval.high)) for interval in central(quantiles)]


def calibration(
    label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float]
) -> tuple[QuantileCalibration, ...]:
    """Returns the observed share of labels below each quantile."""
    result = []
    for quantile, values in zip(quantiles, predicted[1:], strict=True):
        below, tied = float((label < values).mean()), float((label == values).mean())
        observed = float(np.clip(quantile, below, below + tied))
        result.append(QuantileCalibration(quantile=quantile, observed=observed, tied=tied))
    return tuple(result)


def residual_edges(residuals: np.ndarray) -> np.ndarray:
    """Returns the edges of the histogram of residuals, float64 (RESIDUAL_BARS + 1,)."""
    low, high = np.quantile(residuals, [OUTSIDE, 1 - OUTSIDE])
    if not low < high:
        low, high = residuals.min(), residuals.max()
    if not low < high:
        low, high = low - (abs(low) or 1.0), high + (abs(high) or 1.0)
    return np.linspace(low, high, RESIDUAL_BARS + 1)


def residual_counts(residuals: np.ndarray, edges: np.ndarray) -> tuple[tuple[int, ...], int, int]:
    """Returns the row counts of each bar (the last is closed), and below and above all bars."""
    counts = np.histogram(residuals, edges)[0]
    return tuple(counts.tolist()), int((residuals < edges[0]).sum()), int((residuals > edges[-1]).sum())


def by_prediction(label: np.ndarray, mean: np.ndarray) -> tuple[ResidualBin, ...]:
    """Returns residuals in bins of equal row counts by prediction; equal predictions share a bin."""
    order = np.argsort(mean, kind="stable")
    rising = mean[order]
    starts = np.unique(np.searchsorted(rising, rising[len(rising) * np.arange(PREDICTION_BINS) // PREDICTION_BINS]))
    return tuple(_build_bin(label[rows], mean[rows]) for rows in np.split(order, starts[1:]))


def _build_bin(label: np.ndarray, mean: np.ndarray) -> ResidualBin:
    residuals = label - mean
    lower, upper = np.quantile(residuals, [0.25, 0.75])
    return ResidualBin(
        rows=len(label), predicted=float(mean.mean()), mean=float(residuals.mean()), spread=float(residuals.std()),
        lower_quartile=float(lower), upper_quartile=float(upper),
    )  # fmt: skip
