"""What was measured of a regression: the field `regression` of `metrics.json`.

Residuals are label minus predicted mean. All figures but shares and R2 are in the label's unit, squared errors in its
square. Squared errors are of the predicted mean, absolute errors of the predicted median where 0.5 is one of the
quantiles, else of the mean: each point is held against the error that it minimises (Gneiting 2011,
https://doi.org/10.1198/jasa.2011.r10138).

Shapes: N rows, Q quantiles; `label` float64 (N,), `predicted` float64 (1 + Q, N): the mean, then the quantiles.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from vgp.protocol.manifest import Frozen

#: What the decision may test, in words.
LOSSES = {"pinball": "mean pinball loss", "squared": "mean squared error", "absolute": "mean absolute error"}
Loss = Literal["pinball", "squared", "absolute"]
Bounds = tuple[float, float] | None


class CentralInterval(Frozen):
    """The interval between two quantiles that lie symmetrically, such as 0.1 and 0.9: 80% of labels belong in it."""

    low: float
    high: float
    #: Share of labels that belong in it: high - low.
    expected: float


class RegressionScores(Frozen):
    """One model on one set of rows."""

    rmse: float
    mae: float
    median_absolute_error: float
    #: Share of the label's variance that the mean explains; None where the labels are all the same.
    r2: float | None
    #: Mean of predicted mean minus label: above 0 predicts too much.
    bias: float
    #: Pinball loss of each quantile, and its mean over them.
    pinball: tuple[float, ...]
    mean_pinball: float
    #: 1 - mean pinball loss over that of the rows' own quantiles, as R2 is of squares; None where that is 0.
    d2: float | None
    #: Of each central interval: share of labels within, both ends included, and its mean width.
    coverage: tuple[float, ...]
    width: tuple[float, ...]


class QuantileCalibration(Frozen):
    """How often labels fall below one predicted quantile."""

    #: The share that should.
    quantile: float
    #: The share that does. Labels that equal the quantile count as below or above, whichever is nearer to what should.
    observed: float
    #: Share of labels that equal the quantile.
    tied: float


class ResidualBin(Frozen):
    """Rows of similar predicted mean."""

    rows: int
    #: Mean predicted mean.
    predicted: float
    #: Mean, standard deviation and quartiles of the residuals.
    mean: float
    spread: float
    lower_quartile: float
    upper_quartile: float


class RegressionModel(Frozen):
    """One model on all rows of the split."""

    scores: RegressionScores
    #: 95% intervals from resampled groups of rows; None where nothing tells.
    rmse_interval: Bounds
    mae_interval: Bounds
    r2_interval: Bounds
    pinball_interval: Bounds
    #: One for each quantile.
    calibration: tuple[QuantileCalibration, ...]
    #: Rows between each two of `RegressionFigures.residual_edges`, and those below the first and above the last.
    residual_counts: tuple[int, ...]
    residuals_below: int
    residuals_above: int
    #: By rising prediction, bins of equal rows; fewer where predictions are the same.
    by_prediction: tuple[ResidualBin, ...]


class RegressionSlice(Frozen):
    """All models on the rows where one column has one value."""

    column: str
    value: str
    rows: int
    #: Mean label.
    label: float
    models: dict[str, RegressionScores]


class RegressionFigures(Frozen):
    """Every figure of a regression, for each model on the same rows."""

    #: Name of the label, as the task has it, and its unit for people; "" = not said.
    target: str
    unit: str
    quantiles: tuple[float, ...]
    #: Outermost first.
    intervals: tuple[CentralInterval, ...]
    #: What the decision tests.
    decided_by: Loss
    #: Whether absolute errors are of the predicted median or mean.
    absolute_of: Literal["median", "mean"]
    #: Of the labels of all rows.
    label_mean: float
    label_std: float
    label_minimum: float
    label_maximum: float
    #: Rising, at equal distances, the same for all models.
    residual_edges: tuple[float, ...]
    #: By `challenger`, `champion`, `baseline`, `boosting`, as far as scored.
    models: dict[str, RegressionModel]
    slices: tuple[RegressionSlice, ...]

    def scalars(self, model: str) -> dict[str, float]:
        """A model's figures by name, flat: `coverage_80` is the share of labels in the interval of 80%."""
        scores = self.models[model].scores
        named = {name: getattr(scores, name) for name in ("rmse", "mae", "median_absolute_error", "r2", "bias", "d2")}
        covered = {f"coverage_{100 * c.expected:.4g}": s for c, s in zip(self.intervals, scores.coverage, strict=True)}
        values = {**named, "pinball": scores.mean_pinball, **covered}
        return {name: value for name, value in values.items() if value is not None}


#: Bars of the histogram of residuals, and the share of residuals that lie outside of it on each side.
RESIDUAL_BARS, OUTSIDE = 40, 0.005
#: Bins by prediction.
PREDICTION_BINS = 20


def absolute_of(quantiles: Sequence[float]) -> int:
    """Which row of `predicted` absolute errors are of: the median's if there is one, else the mean's."""
    return 1 + list(quantiles).index(0.5) if 0.5 in quantiles else 0


def central(quantiles: Sequence[float]) -> tuple[CentralInterval, ...]:
    """The intervals between quantiles that lie symmetrically, outermost first."""
    pairs = zip(quantiles, reversed(quantiles), strict=True)
    some = ((low, high) for low, high in pairs if low < 0.5)
    by_value = [(low, next((h for h in quantiles if abs(1 - low - h) < 1e-9), None)) for low, _ in some]
    return tuple(CentralInterval(low=a, high=b, expected=round(b - a, 9)) for a, b in by_value if b is not None)


def pinball(label: np.ndarray, predicted: np.ndarray, quantile: float) -> np.ndarray:
    """Pinball loss of each row, float64 (N,): Koenker & Bassett 1978, https://doi.org/10.2307/1913643"""
    error = label - predicted
    return np.asarray(np.maximum(quantile * error, (quantile - 1) * error))


def losses(kind: Loss, label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
    """The loss of each row that a decision may test, float64 (N,)."""
    if kind == "squared":
        return np.asarray(np.square(label - predicted[0]))
    if kind == "absolute":
        return np.asarray(np.abs(label - predicted[absolute_of(quantiles)]))
    total = np.zeros(len(label))
    for quantile, values in zip(quantiles, predicted[1:], strict=True):
        total += pinball(label, values, quantile)
    return total / len(quantiles)


def regression_scores(label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float]) -> RegressionScores:
    """The scores of one model on some rows, one at least."""
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
    """The numbers of the quantiles that bound each central interval."""
    places = list(quantiles)
    return [(places.index(interval.low), places.index(interval.high)) for interval in central(quantiles)]


def calibration(
    label: np.ndarray, predicted: np.ndarray, quantiles: Sequence[float]
) -> tuple[QuantileCalibration, ...]:
    """How often labels fall below each quantile."""
    result = []
    for quantile, values in zip(quantiles, predicted[1:], strict=True):
        below, tied = float((label < values).mean()), float((label == values).mean())
        observed = float(np.clip(quantile, below, below + tied))
        result.append(QuantileCalibration(quantile=quantile, observed=observed, tied=tied))
    return tuple(result)


def residual_edges(residuals: np.ndarray) -> np.ndarray:
    """Ends of the bars of a histogram of residuals, float64 (RESIDUAL_BARS + 1,)."""
    low, high = np.quantile(residuals, [OUTSIDE, 1 - OUTSIDE])
    if not low < high:
        low, high = residuals.min(), residuals.max()
    if not low < high:
        low, high = low - (abs(low) or 1.0), high + (abs(high) or 1.0)
    return np.linspace(low, high, RESIDUAL_BARS + 1)


def residual_counts(residuals: np.ndarray, edges: np.ndarray) -> tuple[tuple[int, ...], int, int]:
    """Rows of each bar, the last of which is closed, and those below and above all bars."""
    counts = np.histogram(residuals, edges)[0]
    return tuple(counts.tolist()), int((residuals < edges[0]).sum()), int((residuals > edges[-1]).sum())


def by_prediction(label: np.ndarray, mean: np.ndarray) -> tuple[ResidualBin, ...]:
    """Residuals of rows of similar prediction: bins of equal rows, equal predictions in the same bin."""
    order = np.argsort(mean, kind="stable")
    rising = mean[order]
    starts = np.unique(np.searchsorted(rising, rising[len(rising) * np.arange(PREDICTION_BINS) // PREDICTION_BINS]))
    return tuple(_bin(label[rows], mean[rows]) for rows in np.split(order, starts[1:]))


def _bin(label: np.ndarray, mean: np.ndarray) -> ResidualBin:
    residuals = label - mean
    lower, upper = np.quantile(residuals, [0.25, 0.75])
    return ResidualBin(
        rows=len(label), predicted=float(mean.mean()), mean=float(residuals.mean()), spread=float(residuals.std()),
        lower_quartile=float(lower), upper_quartile=float(upper),
    )  # fmt: skip
