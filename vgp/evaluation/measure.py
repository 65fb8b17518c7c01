"""Saved predictions -> `metrics.json`: every figure of the report, for each model on the same rows.

python -m vgp.evaluation.measure DIRECTORY    # recompute from DIRECTORY/predictions.parquet

Memory holds one model at a time, or some of its classes. The rows of a slice are found once, and threads take a slice
each: no figure depends on how many.
"""

import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import exits
from vgp.evaluation import comparison, measure_regression, metrics, predictions, record, thresholds
from vgp.evaluation import thresholds as precision_recall
from vgp.evaluation.clusters import renumber
from vgp.evaluation.comparison import (
    MOST_SLICE_VALUES,
    Bounds,
    Each,
    Part,
    bounds,
    everything,
    mean_interval,
    part_blocks,
    parts,
)
from vgp.evaluation.predictions import Predictions
from vgp.evaluation.ranked import LN_2, Ranked, Scored, hits_of, pack
from vgp.evaluation.record import CalibrationBin, Evaluation, ModelMetrics, Roc, Scores, SliceMetrics
from vgp.evaluation.thresholds import PrecisionRecall, Thresholds
from vgp.protocol import cluster

#: Maximum number of classes of a confusion matrix, whose size is the square.
MOST_CONFUSED_CLASSES = 50
#: A note names classes with fewer test rows.
FEW = 10
#: Maximum number of threads: more share the memory bandwidth, and each holds a slice.
MOST_THREADS = 4


@dataclass(frozen=True)
class Measured:
    """The scores of one model on one part of the rows."""

    scores: Scores
    #: Interval of AUC, accuracy or bits, if requested.
    interval: Bounds = None
    roc: Roc | None = None
    calibration: tuple[CalibrationBin, ...] = ()
    confidence_counts: tuple[int, ...] = ()
    confusion: list[list[int]] = field(default_factory=list)
    precision_recall: PrecisionRecall | None = None
    thresholds: Thresholds | None = None


def measure(directory: str | Path) -> Evaluation:
    """Computes every figure from the directory's predictions, writes `metrics.json` beside them, and returns it.

    Keeps the findings of an existing record.

    Raises:
        UserError: the directory holds no readable predictions.
    """
    data = predictions.read(directory)
    whole, slices = everything(data), [part for name, names in data.slices.items() for part in parts(data, name, names)]
    with ThreadPoolExecutor(min(MOST_THREADS, cluster.cores())) as pool:
        figures = _regression if data.header.quantiles else _build_figures
        measured = figures(data, whole, slices, pool.map)
    result = Evaluation(
        task=data.header.task,
        target=data.header.target,
        split=data.header.split,
        classes=data.header.classes,
        weight=data.header.weight,
        rows=len(data),
        label_counts=tuple(whole.counts.tolist()),
        group=data.header.group,
        groups=renumber(data.group.codes)[1] if data.group else 0,
        notes=(*_warnings(data), *data.header.notes, *_list_notes(data)),
        baseline=data.header.baseline,
        script=data.header.script,
        **measured,
        **_read_findings(directory),
    )
    record.save(result, directory)
    return result


def _read_findings(directory: str | Path) -> JsonObject:
    if not (Path(directory) / record.FILE_NAME).exists():
        return {}
    before = record.load(directory)
    return {"importance": before.importance, "examples": before.examples, "drift": before.drift}


def _build_figures(data: Predictions, whole: Part, slices: list[Part], each: Each) -> JsonObject:
    """Returns the fields of `Evaluation` for classification and likelihood tasks."""
    measured = {model: list(_measure_model(data, model, [whole, *slices], each)) for model in data.header.models}
    return {
        "models": {model: _build_metrics(data, of_all) for model, (of_all, *_) in measured.items()},
        "confusion_matrix": measured["challenger"][0].confusion,
        "thresholds": measured["challenger"][0].thresholds,
        "slices": tuple(
            _slice(data, part, {model: values[1 + i] for model, values in measured.items()})
            for i, part in enumerate(slices)
        ),
    }


def _regression(data: Predictions, whole: Part, slices: list[Part], each: Each) -> JsonObject:
    """Returns the fields of `Evaluation` for a regression."""
    figures = measure_regression.figures(data, whole, slices, each)
    return {
        "models": measure_regression.model_metrics(figures),
        "confusion_matrix": [],
        "slices": measure_regression.slice_metrics(data, figures, slices),
        "regression": figures,
    }


def _count_confusion(data: Predictions, rows: Scored) -> list[list[int]]:
    classes = len(data.header.classes)
    return metrics.confusion(data.label, rows.classes(), classes) if classes <= MOST_CONFUSED_CLASSES else []


def _build_metrics(data: Predictions, whole: Measured) -> ModelMetrics:
    if not data.header.classes:
        return ModelMetrics(scores=whole.scores, bits_interval=whole.interval)
    return ModelMetrics(
        scores=whole.scores,
        auc_interval=whole.interval,
        roc=whole.roc,
        precision_recall=whole.precision_recall,
        calibration=whole.calibration,
        confidence_counts=whole.confidence_counts,
    )


def _slice(data: Predictions, part: Part, models: dict[str, Measured]) -> SliceMetrics:
    if data.weight is not None:
        rows, base_rate = len(data.weight[part.rows]), float(data.weight[part.rows].sum() / data.weight.sum())
    else:
        rows, most = int(part.counts.sum()), part.counts[1] if data.binary else part.counts.max()
        base_rate = float(most / rows)
    scores = {model: measured.scores for model, measured in models.items()}
    interval = models["challenger"].interval
    return SliceMetrics(
        column=part.column, value=part.value, rows=rows, base_rate=base_rate, models=scores, interval=interval
    )


# ---- one model on every part


def _measure_model(data: Predictions, model: str, parts: list[Part], each: Each) -> Iterable[Measured]:
    wanted = [model == "challenger" or not part.column for part in parts]
    if not data.header.classes:
        losses = data.losses(model)
        return each(lambda part, interval: _measure_likelihood(data, losses, part, interval), parts, wanted)
    rows = data.read_scores(model)
    if data.binary:
        return each(lambda part, interval: _measure_binary(data, model, rows, part, interval), parts, wanted)
    aucs, precision, roc = _measure_one_vs_rest(data, model, parts, each)
    whole, *slices = each(
        lambda part, auc, within: _measure_all(data, rows, part, auc, roc, within), parts, aucs, wanted
    )
    scores = whole.scores.model_copy(update={"average_precision": precision})
    return [replace(whole, scores=scores), *slices]


def _measure_likelihood(data: Predictions, losses: np.ndarray, part: Part, interval: bool) -> Measured:
    assert data.weight is not None
    losses, weight = losses[part.rows], data.weight[part.rows]
    scores = metrics.likelihood(losses, weight)
    assert scores.bits is not None
    within = mean_interval(data, part, scores.bits, losses / LN_2, weight) if interval else None
    return Measured(scores, within)


def _measure_binary(data: Predictions, model: str, rows: Scored, part: Part, interval: bool) -> Measured:
    rows = rows[part.rows]
    among = part_blocks(data, part, len(rows)) if interval else None
    ranked = Ranked.of(rows.confident, among.codes if among else None)
    auc = ranked.auc()
    within = _compute_auc_interval(part, ranked, among.count, auc) if among and auc is not None else None
    roc = metrics.roc(ranked) if auc is not None and not part.column else None
    measured = _measure_ranked(data, rows, ranked, part, auc, roc, within)
    return measured if part.column else _add_flagging_curves(data, model, ranked, measured)


def _add_flagging_curves(data: Predictions, model: str, ranked: Ranked, measured: Measured) -> Measured:
    """Adds precision-recall curves, and the new model's table of thresholds."""
    precision = precision_recall.average_precision(ranked)
    return replace(
        measured,
        scores=measured.scores.model_copy(update={"average_precision": precision}),
        precision_recall=precision_recall.precision_recall_curve(ranked),
        thresholds=thresholds.measure(ranked, data.header.operating) if model == "challenger" else None,
    )


def _measure_all(
    data: Predictions, rows: Scored, part: Part, auc: float | None, roc: Roc | None, interval: bool
) -> Measured:
    rows = rows[part.rows]
    right = hits_of(rows.confident).astype(np.float64)
    within = mean_interval(data, part, float(right.mean()), right) if interval and part.column else None
    return _measure_ranked(data, rows, Ranked.of(rows.confident), part, auc, roc, within)


def _measure_ranked(
    data: Predictions,
    rows: Scored,
    ranked: Ranked,
    part: Part,
    auc: float | None,
    roc: Roc | None,
    interval: Bounds,
) -> Measured:
    bins = metrics.calibration_bins(ranked)
    scores = metrics.scores(rows, ranked, bins, auc)
    if part.column:
        return Measured(scores, interval)
    return Measured(scores, interval, roc, bins, metrics.confidence_counts(ranked), _count_confusion(data, rows))


def _measure_one_vs_rest(
    data: Predictions, model: str, parts: list[Part], each: Each
) -> tuple[list[float | None], float | None, Roc | None]:
    """Returns each part's mean one-vs-rest AUC (None if a class is absent), and average precision and ROC of all
    rows."""
    whole, *slices = parts
    complete = [np.asarray(part.rows) for part in slices if part.counts.all()]
    if not whole.counts.all():
        return [None] * len(parts), None, None
    of_classes: list[tuple[list[float | None], float | None, np.ndarray]] = []
    for codes, table in data.by_class(model):
        of_classes += each(lambda code, score: _class(pack(score, data.label == code), complete), codes, table)
    aucs, precisions, curves = zip(*of_classes, strict=True)
    mean, *means = np.mean(np.array(aucs, np.float64), axis=0).tolist()
    of_slices = iter(means)
    aucs = [mean, *(next(of_slices) if part.counts.all() else None for part in slices)]
    return aucs, float(np.mean(precisions)), metrics.average_roc(curves)


def _class(rows: np.ndarray, parts: list[np.ndarray]) -> tuple[list[float | None], float | None, np.ndarray]:
    """Returns one class's AUC of all rows and of each part, its average precision and its ROC curve."""
    ranked = Ranked.of(rows)
    aucs = [ranked.auc(), *metrics.one_vs_rest_aucs(rows, ranked, parts)]
    return aucs, precision_recall.average_precision(ranked), metrics.curve_on_grid(ranked)


def _compute_auc_interval(part: Part, ranked: Ranked, count: int, auc: float) -> Bounds:
    values = comparison.auc_replicates(comparison.resample(count, part.replicates), ranked, count, auc)
    return bounds(auc, values, count)


def _warnings(data: Predictions) -> tuple[str, ...]:
    """Returns the warnings of a script's launcher."""
    return data.header.script.launched.warnings if data.header.script else ()


def _list_notes(data: Predictions) -> list[str]:
    names, notes = data.header.classes, []
    present = set(np.flatnonzero(np.bincount(data.label)).tolist()) if names else set()
    if absent := [name for code, name in enumerate(names) if code not in present]:
        rows = f"the {data.header.split} split" if data.header.split else "the script's predictions"
        notes.append(f"The AUC is undefined: no row of {rows} is of class {', '.join(absent)}.")
    if (
        few := [f"{names[code]} ({n})" for code, n in enumerate(np.bincount(data.label)) if 0 < n < FEW]
        if names
        else []
    ):
        notes.append(f"Few rows of a class, whose figures may be luck: {', '.join(few)}.")
    if data.header.quantiles and data.label.min() == data.label.max():
        notes.append(f"R2 is undefined: the label is {data.label[0]:g} in every row of the {data.header.split} split.")
    for column, values in data.slices.items():
        if (seen := renumber(values.codes)[1]) > MOST_SLICE_VALUES:
            notes.append(f"Slice {column}: the {MOST_SLICE_VALUES} most frequent of {seen:,} values are shown.")
    return notes


if __name__ == "__main__":
    for name, figure in exits(measure)(sys.argv[1]).scalars.items():
        print(f"{name:30} {figure:.6g}")
