"""The plots of a regression: where its residuals are, how they spread, and whether its quantiles hold."""

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from vgp.decision.report.plots import LOOKS, WIDTH_IN
from vgp.decision.report.svg import INK, LINE, render
from vgp.evaluation.regression import RegressionFigures


def plots(regression: RegressionFigures) -> dict[str, Markup]:
    """By the name under which the page has each."""
    return {
        "residual_histogram": histogram(regression),
        "residual_spread": spread(regression),
        "quantile_calibration": calibration(regression),
    }


def histogram(regression: RegressionFigures) -> Markup:
    """How many rows have which residual: bars of the new model, outlines of the others."""
    figure = Figure((WIDTH_IN, 3.2), layout="constrained")
    axes = figure.subplots()
    edges = np.asarray(regression.residual_edges)
    for model, measured in regression.models.items():
        colour, dashes, label = LOOKS[model]
        counts = measured.residual_counts
        if model == "challenger":
            axes.bar(edges[:-1], counts, np.diff(edges) * 0.9, align="edge", color=colour, alpha=0.55, label=label)
        else:
            axes.stairs(counts, edges, color=colour, linestyle=dashes, linewidth=1.2, label=label)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set(xlabel=_with_unit("residual: label minus prediction", regression), ylabel="rows")
    axes.legend(loc="upper right")
    ours = regression.models["challenger"]
    outside = ours.residuals_below + ours.residuals_above
    return render(
        figure,
        "residuals",
        f"Histogram of residuals. The new model's bias is {ours.scores.bias:z.4g}; {outside:,} rows are outside.",
    )


def spread(regression: RegressionFigures) -> Markup:
    """Residuals over predictions: mean and middle half of rows of similar prediction."""
    figure = Figure((WIDTH_IN, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.axhline(0, color=INK, linewidth=0.8)
    for model, measured in regression.models.items():
        colour, dashes, label = LOOKS[model]
        bins = measured.by_prediction
        predicted = [b.predicted for b in bins]
        if model == "challenger":
            ends = [b.lower_quartile for b in bins], [b.upper_quartile for b in bins]
            axes.fill_between(predicted, *ends, color=colour, alpha=0.25, linewidth=0, label="middle half")
        axes.plot(predicted, [b.mean for b in bins], dashes, marker="o", markersize=3, color=colour, label=label)
    axes.set(xlabel=_with_unit("predicted mean", regression), ylabel="residual")
    axes.legend(loc="best")
    return render(figure, "spread", "Mean and quartiles of the residuals over the predicted mean.")


def calibration(regression: RegressionFigures) -> Markup:
    """How often labels fall below each predicted quantile, against how often they should."""
    figure = Figure((WIDTH_IN, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1)
    for model, measured in regression.models.items():
        colour, dashes, label = LOOKS[model]
        points = [(c.quantile, c.observed) for c in measured.calibration]
        size = 5 if model == "challenger" else 3
        axes.plot(*zip(*points, strict=True), dashes, marker="o", markersize=size, color=colour, label=label)
    axes.set(xlabel="quantile", ylabel="share of labels below", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(loc="upper left")
    ours = ", ".join(f"{c.quantile:g} {c.observed:.3f}" for c in regression.models["challenger"].calibration)
    return render(figure, "quantiles", f"Shares of labels below the predicted quantiles of the new model: {ours}.")


def _with_unit(text: str, regression: RegressionFigures) -> str:
    return f"{text} ({regression.unit})" if regression.unit else text
