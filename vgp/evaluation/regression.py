"""What was measured of a regression: the field `regression` of `metrics.json`.

Residuals are label minus predicted mean. All figures but shares and R2 are in the label's unit, squared errors in its
square. Squared errors are of the predicted mean, absolute errors of the predicted median where 0.5 is one of the
quantiles, else of the mean: each point is held against the error that it minimises (Gneiting 2011,
https://doi.org/10.1198/jasa.2011.r10138).
"""

from typing import Literal

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
