"""Computes a regression's figures of each model on all rows and on each slice, one model in memory at a time."""

import numpy as np

from vgp.evaluation import comparison, regression
from vgp.evaluation.comparison import Blocks, Bounds, Each, Part, bounds, mean_interval, part_blocks
from vgp.evaluation.predictions import Predictions
from vgp.evaluation.ranked import take
from vgp.evaluation.record import ModelMetrics, Scores, SliceMetrics
from vgp.evaluation.regression import RegressionFigures, RegressionModel, RegressionScores, RegressionSlice


def figures(data: Predictions, whole: Part, slices: list[Part], each: Each) -> RegressionFigures:
    """Returns the figures of all rows (`whole`) and of each slice."""
    header, label = data.header, data.label
    edges = regression.residual_edges(label - data.read_regression("challenger")[0])
    models: dict[str, RegressionModel] = {}
    by_slice: dict[str, list[RegressionScores]] = {}
    for model in header.models:
        predicted = data.read_regression(model)
        models[model] = _measure_model(data, whole, predicted, edges)
        by_slice[model] = list(each(lambda part, values=predicted: _measure_scores(data, part, values), slices))
    return RegressionFigures(
        target=header.target,
        unit=header.unit,
        quantiles=header.quantiles,
        intervals=regression.central(header.quantiles),
        decided_by=header.decided_by,
        absolute_of="median" if regression.absolute_of(header.quantiles) else "mean",
        label_mean=float(label.mean()),
        label_std=float(label.std()),
        label_minimum=float(label.min()),
        label_maximum=float(label.max()),
        residual_edges=tuple(edges.tolist()),
        models=models,
        slices=tuple(
            RegressionSlice(
                column=part.column,
                value=part.value,
                rows=len(take(label, part.rows)),
                label=float(take(label, part.rows).mean()),
                models={model: scores[i] for model, scores in by_slice.items()},
            )
            for i, part in enumerate(slices)
        ),
    )


def _measure_scores(data: Predictions, part: Part, predicted: np.ndarray) -> RegressionScores:
    rows = np.stack([take(values, part.rows) for values in predicted])
    return regression.regression_scores(take(data.label, part.rows), rows, data.header.quantiles)


def _measure_model(data: Predictions, whole: Part, predicted: np.ndarray, edges: np.ndarray) -> RegressionModel:
    quantiles, label = data.header.quantiles, data.label
    scores = regression.regression_scores(label, predicted, quantiles)
    counts, below, above = regression.residual_counts(label - predicted[0], edges)
    among = part_blocks(data, whole, len(data))
    weights_RG = comparison.resample(among.count, whole.replicates)
    squared_R = _compute_replicates(weights_RG, regression.losses("squared", label, predicted, quantiles), among)
    absolute_R = _compute_replicates(weights_RG, regression.losses("absolute", label, predicted, quantiles), among)
    pinball_R = _compute_replicates(weights_RG, regression.losses("pinball", label, predicted, quantiles), among)
    return RegressionModel(
        scores=scores,
        rmse_interval=bounds(scores.rmse, np.sqrt(squared_R), among.count),
        mae_interval=bounds(scores.mae, absolute_R, among.count),
        r2_interval=_compute_r2_interval(label, squared_R, weights_RG, among, scores.r2),
        pinball_interval=bounds(scores.mean_pinball, pinball_R, among.count),
        calibration=regression.calibration(label, predicted, quantiles),
        residual_counts=counts,
        residuals_below=below,
        residuals_above=above,
        by_prediction=regression.by_prediction(label, predicted[0]),
    )


def _compute_replicates(weights_RG: np.ndarray, values: np.ndarray, among: Blocks) -> np.ndarray:
    return comparison.mean_replicates(weights_RG, values, among)


def _compute_r2_interval(
    label: np.ndarray, squared_R: np.ndarray, weights_RG: np.ndarray, among: Blocks, r2: float | None
) -> Bounds:
    if r2 is None:
        return None
    apart = label - label.mean()
    variance_R = _compute_replicates(weights_RG, apart**2, among) - _compute_replicates(weights_RG, apart, among) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return bounds(r2, 1 - squared_R / np.where(variance_R > 0, variance_R, np.nan), among.count)


# ---- the loss that the decision tests


def model_metrics(figures: RegressionFigures) -> dict[str, ModelMetrics]:
    return {
        model: ModelMetrics(scores=Scores(loss=loss(figures, measured.scores)))
        for model, measured in figures.models.items()
    }


def slice_metrics(data: Predictions, figures: RegressionFigures, slices: list[Part]) -> tuple[SliceMetrics, ...]:
    ours = data.losses("challenger")
    return tuple(
        SliceMetrics(
            column=measured.column,
            value=measured.value,
            rows=measured.rows,
            base_rate=measured.label,
            models={model: Scores(loss=loss(figures, scores)) for model, scores in measured.models.items()},
            interval=mean_interval(data, part, float(take(ours, part.rows).mean()), take(ours, part.rows)),
        )
        for measured, part in zip(figures.slices, slices, strict=True)
    )


def loss(figures: RegressionFigures, scores: RegressionScores) -> float:
    """Returns the scores of the decision's loss on some rows."""
    return {"pinball": scores.mean_pinball, "squared": scores.rmse**2, "absolute": scores.mae}[figures.decided_by]
