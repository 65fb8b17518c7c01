"""The report's plots as inline SVG, drawn from figures of the evaluation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from vgp.data.bundle import Point
from vgp.decision.report.svg import BAD, BASELINE, BOOSTING, CHALLENGER, CHAMPION, INK, LINE, MUTED, render
from vgp.evaluation.record import Evaluation, SliceMetrics
from vgp.evaluation.regression import LOSSES, RegressionFigures

#: Narrow, so that text is readable on a phone.
WIDTH_IN = 4.4
#: Letters of a slice's name in the plot; the table has the whole name.
NAME_LETTERS = 24
#: Colour-blind safe (Okabe & Ito 2008, https://jfly.uni-koeln.de/color/), and with different dashes.
LOOKS = {
    "challenger": (CHALLENGER, "-", "new model"),
    "champion": (CHAMPION, "--", "champion"),
    "baseline": (BASELINE, ":", "baseline"),
    "boosting": (BOOSTING, "-.", "gradient boosting"),
}


def learning_curve(history: Sequence[Point]) -> Markup:
    """Plots train and validation loss over the steps, and the learning rate."""
    figure = Figure((WIDTH_IN, 3.6), layout="constrained")
    loss, rate = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    steps = [p.step for p in history]
    loss.plot(steps, [p.loss for p in history], color=CHALLENGER, label="train")
    checked = [p for p in history if p.validation_loss is not None]
    if checked:
        losses = [p.validation_loss for p in checked]
        loss.plot([p.step for p in checked], losses, "o--", color=CHAMPION, markersize=4, label="validation")
    loss.set_ylabel("loss")
    loss.legend()
    rate.plot(steps, [p.learning_rate for p in history], color=MUTED, linewidth=1.2)
    rate.set(xlabel="step", ylabel="learning\nrate", ylim=(0, None))
    rate.yaxis.set_major_locator(MaxNLocator(2))
    rate.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    _count(rate.xaxis)
    last = f", validation loss {checked[-1].validation_loss:.4f}" if checked else ""
    return render(
        figure,
        "learning",
        f"Learning curve, {steps[-1]:,} steps: train loss {history[0].loss:.4f} to {history[-1].loss:.4f}{last}.",
    )


def _mark_thousands(axes: Axes) -> None:
    """Marks both axes with thousands separators, and few enough ticks not to collide."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def _count(axis: Axis, ticks: int = 5) -> None:
    """Marks an axis of counts: whole numbers with thousands separators, few enough not to collide."""
    axis.set_major_locator(MaxNLocator(ticks, integer=True))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def roc(evaluation: Evaluation) -> Markup:
    """Plots the ROC curves of all models that have one."""
    figure = Figure((WIDTH_IN, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1)
    shown = []
    for model, measured in evaluation.models.items():
        if measured.roc is None:
            continue
        colour, dashes, label = LOOKS[model]
        shown.append(f"{label} {measured.scores.auc:.3f}")
        axes.plot(
            measured.roc.false_positive_rate,
            measured.roc.true_positive_rate,
            dashes,
            color=colour,
            label=f"{label}, AUC {measured.scores.auc:.3f}",
            zorder=3 if model == "challenger" else 2,
        )
    axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1.005), aspect="equal")
    axes.legend(loc="lower right")
    return render(figure, "roc", f"ROC curves. Area under the curve: {', '.join(shown)}.")


def precision_recall(evaluation: Evaluation) -> Markup:
    """Plots precision over recall of all models, with the share of positives and the operating point."""
    figure = Figure((WIDTH_IN, 4.2), layout="constrained")
    axes = figure.subplots()
    positives = evaluation.label_counts[1] / evaluation.rows
    axes.axhline(positives, color=LINE, linewidth=1)
    shown = []
    for model, measured in evaluation.models.items():
        curve, average = measured.precision_recall, measured.scores.average_precision
        if curve is None or average is None:
            continue
        colour, dashes, label = LOOKS[model]
        shown.append(f"{label} {average:.3f}")
        order, text = 3 if model == "challenger" else 2, f"{label}, average {average:.3f}"
        axes.plot(curve.recall, curve.precision, dashes, color=colour, label=text, zorder=order)
    point = evaluation.thresholds.operating if evaluation.thresholds else None
    if point and point.recall is not None and point.precision is not None:
        axes.plot(point.recall, point.precision, "o", color=INK, markersize=6, zorder=4, label="operating point")
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.005), aspect="equal")
    # Of rare positives the curves lie low, and the corner above them is free.
    low = (evaluation.models["challenger"].scores.average_precision or 0) < 0.5
    axes.legend(loc="upper right" if low else "lower left")
    return render(figure, "precision", f"Precision over recall. Average precision: {', '.join(shown)}.")


def calibration(evaluation: Evaluation) -> Markup:
    """Plots observed over predicted rates, and a histogram of the predictions."""
    figure = Figure((WIDTH_IN, 4.2), layout="constrained")
    axes, histogram = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1)
    for model, measured in evaluation.models.items():
        colour, dashes, label = LOOKS[model]
        points = [(b.predicted, b.observed) for b in measured.calibration]
        size = 4 if model == "challenger" else 2.5
        axes.plot(
            *zip(*points, strict=True), dashes, marker="o", markersize=size, color=colour, linewidth=1.2, label=label
        )
    binary = len(evaluation.classes) == 2
    axes.set(ylabel="observed rate" if binary else "share that was right", xlim=(0, 1), ylim=(0, 1))
    axes.legend(loc="upper left")
    counts = np.asarray(evaluation.models["challenger"].confidence_counts)
    edges = np.linspace(0, 1, len(counts) + 1)
    histogram.bar(edges[:-1], counts, np.diff(edges) * 0.9, align="edge", color=CHALLENGER, alpha=0.55, linewidth=0)
    histogram.set(xlabel=f"predicted rate of {evaluation.classes[1]}" if binary else "confidence", ylabel="rows")
    _count(histogram.yaxis, 2)
    error = evaluation.models["challenger"].scores.calibration_error
    assert error is not None
    return render(figure, "calibration", f"Calibration plot: the new model's rates calibration error is {error:.2%}.")


def slices(evaluation: Evaluation, rows: Sequence[SliceMetrics], worse: set[tuple[str, str]]) -> Markup:
    """Plots one line for each slice: the new model with its 95% interval, and marks of other models; flags `worse`."""
    metric = evaluation.slice_metric
    columns = list(dict.fromkeys(row.column for row in rows))
    lines: list[str | SliceMetrics] = []
    for column in columns:
        lines += [column, *(row for row in rows if row.column == column)]
    figure = Figure((WIDTH_IN, 0.8 + 0.26 * len(lines)), layout="constrained")
    axes = figure.subplots()
    for y, item in enumerate(lines):
        if isinstance(item, SliceMetrics):
            _slice(axes, y, item, metric)
    overall = getattr(evaluation.models["challenger"].scores, metric)
    if overall is not None:
        axes.axvline(overall, color=CHALLENGER, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    axes.set(
        xlim=_limits(rows, metric),
        ylim=(len(lines) - 0.4, -0.7),
        xlabel=f"{slice_metric_name(evaluation)} on the slice's rows",
    )
    axes.set_yticks(range(len(lines)), [_shorten(item if isinstance(item, str) else item.value) for item in lines])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    for text, item in zip(axes.get_yticklabels(), lines, strict=True):
        if isinstance(item, str):
            text.set(color=INK, fontweight="bold")
        elif (item.column, item.value) in worse:
            text.set(color=BAD, fontweight="bold")
    _slice_legend(figure, axes, evaluation)
    names = ", ".join(columns)
    return render(
        figure,
        "slices",
        f"{slice_metric_name(evaluation)}: 95% intervals of {len(rows)} slices by {names}; the table has the figures.",
    )


def slice_metric_name(evaluation: Evaluation) -> str:
    names = {"auc": "AUC", "bits": f"bits per {evaluation.unit}"}
    if evaluation.regression:
        return LOSSES[evaluation.regression.decided_by]
    return names.get(evaluation.slice_metric, evaluation.slice_metric)


def _slice(axes: Axes, y: int, row: SliceMetrics, metric: str) -> None:
    if row.interval:
        axes.plot(row.interval, (y, y), color=CHALLENGER, linewidth=1.4, solid_capstyle="butt", zorder=2)
    for model, scores in row.models.items():
        value = getattr(scores, metric)
        if value is not None:
            axes.plot(value, y, zorder=4 if model == "challenger" else 3, **MARKS[model])


MARKS: dict[str, dict[str, Any]] = {
    "challenger": {"marker": "o", "markersize": 5, "color": CHALLENGER, "linestyle": "none"},
    "champion": {"marker": "D", "markersize": 4, "color": CHAMPION, "linestyle": "none", "markerfacecolor": "none"},
    "baseline": {"marker": "|", "markersize": 8, "color": BASELINE, "linestyle": "none", "markeredgewidth": 1.8},
    "boosting": {"marker": "x", "markersize": 5, "color": BOOSTING, "linestyle": "none", "markeredgewidth": 1.4},
}


def _shorten(name: str) -> str:
    return name if len(name) <= NAME_LETTERS else f"{name[: NAME_LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


def _slice_legend(figure: Figure, axes: Axes, evaluation: Evaluation) -> None:
    """Draws the legend over the whole figure, because long names leave the axes too narrow for it."""
    for model in evaluation.models:
        axes.plot([], [], label=LOOKS[model][2], **MARKS[model])
    figure.legend(loc="outside upper right", ncols=2, borderaxespad=0.1, handletextpad=0.2)


def _limits(rows: Sequence[SliceMetrics], metric: str) -> tuple[float, float]:
    """Returns limits that show all points and the intervals of larger slices; intervals of tiny slices are cut."""
    points = [getattr(s, metric) for row in rows for s in row.models.values() if getattr(s, metric) is not None]
    most = max(row.rows for row in rows)
    points += [end for row in rows if row.interval and row.rows > most / 50 for end in row.interval]
    low, high = min(points, default=0.0), max(points, default=1.0)
    pad = 0.04 * (high - low) or 0.05
    return max(0.0, low - pad), high + pad if metric in ("bits", "loss") else min(1.0, high + pad)


# ---- the plots of a regression


def draw_regression_plots(regression: RegressionFigures) -> dict[str, Markup]:
    """Returns the plots by their names in the page's template."""
    return {
        "residual_histogram": histogram(regression),
        "residual_spread": spread(regression),
        "quantile_calibration": quantile_calibration(regression),
    }


def histogram(regression: RegressionFigures) -> Markup:
    """Plots a histogram of residuals: bars of the new model, outlines of other models."""
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
    _mark_thousands(axes)
    _count(axes.yaxis)
    axes.legend(loc="upper right")
    ours = regression.models["challenger"]
    outside = ours.residuals_below + ours.residuals_above
    return render(
        figure,
        "residuals",
        f"Histogram of residuals. The new model's bias is {ours.scores.bias:z.4g}; {outside:,} rows are outside.",
    )


def spread(regression: RegressionFigures) -> Markup:
    """Plots the mean and the middle half of the residuals over bins of similar predictions."""
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
    _mark_thousands(axes)
    axes.legend(loc="best")
    return render(figure, "spread", "Mean and quartiles of the residuals over the predicted mean.")


def quantile_calibration(regression: RegressionFigures) -> Markup:
    """Plots the share of labels below each predicted quantile over the quantile."""
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
