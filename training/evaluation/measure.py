"""Saved predictions -> `metrics.json`: every figure of the report, for each model on the same rows.

python -m training.evaluation.measure DIRECTORY    # recompute from DIRECTORY/predictions.parquet
"""

import sys
from pathlib import Path

import numpy as np

from training.errors import exits
from training.evaluation import comparison, metrics, predictions, record
from training.evaluation.predictions import Names, Predictions
from training.evaluation.probabilities import LN_2, confidence_and_outcome
from training.evaluation.record import Evaluation, ModelMetrics, SliceMetrics

#: Values of one slice column that are measured, the most frequent first: a table of thousands helps nobody.
MOST_SLICE_VALUES = 50
#: Classes up to which their confusions are counted: the square of it goes into the artifact and the page.
MOST_CONFUSED_CLASSES = 50
#: Each side of a 95% interval.
INTERVAL_CONFIDENCE = 0.975
SLICE_REPLICATES = 1_000


def measure(directory: str | Path) -> Evaluation:
    """Computes every figure from the directory's predictions, writes `metrics.json` beside them, and returns it.

    Raises:
        UserError: the directory holds no readable predictions.
    """
    data = predictions.read(directory)
    result = Evaluation(
        task=data.header.task,
        split=data.header.split,
        classes=data.header.classes,
        weight=data.header.weight,
        rows=len(data),
        label_counts=tuple(np.bincount(data.label, minlength=len(data.header.classes)).tolist()),
        group=data.header.group,
        groups=len(np.unique(data.group.codes)) if data.group else 0,
        models={model: _model(data, model) for model in data.header.models},
        confusion_matrix=_confusion(data),
        slices=tuple(s for column, names in data.slices.items() for s in _slices(data, column, names)),
        notes=(*data.header.notes, *_notes(data)),
        baseline=data.header.baseline,
        script=data.header.script,
    )
    record.save(result, directory)
    return result


def _confusion(data: Predictions) -> list[list[int]]:
    if not 0 < len(data.header.classes) <= MOST_CONFUSED_CLASSES:
        return []
    return metrics.confusion(data.label, data.probabilities["challenger"])


def _model(data: Predictions, model: str) -> ModelMetrics:
    if not data.header.classes:
        everything = np.ones(len(data), bool)
        scores = metrics.likelihood(data.losses[model], data.weight)
        return ModelMetrics(scores=scores, bits_interval=_bits_interval(data, model, everything, comparison.REPLICATES))
    probabilities = data.probabilities[model]
    confidence, outcome = confidence_and_outcome(data.label, probabilities)
    return ModelMetrics(
        scores=metrics.scores(data.label, probabilities),
        auc_interval=_auc_interval(data.label, probabilities, data.group, comparison.REPLICATES),
        roc=metrics.roc(data.label, probabilities),
        calibration=tuple(metrics.calibration_bins(confidence, outcome)),
        confidence_counts=tuple(np.histogram(confidence, bins=20, range=(0, 1))[0].tolist()),
    )


def _auc_interval(
    label: np.ndarray, probabilities: np.ndarray, group: Names | None, replicates: int
) -> tuple[float, float] | None:
    estimate = metrics.auc(label, probabilities)
    if estimate is None or probabilities.shape[1] > 2:
        return None
    rows = comparison.blocks(group, len(label))
    weights = comparison.resample(rows.count, replicates)
    values = comparison.auc_replicates(weights, label == 1, probabilities[:, 1], rows)
    return _bounds(estimate, values, rows.count)


def _bits_interval(data: Predictions, model: str, chosen: np.ndarray, replicates: int) -> tuple[float, float] | None:
    """Interval of `Scores.bits` on the chosen rows, bool (N,)."""
    bits, sizes = data.losses[model][chosen] / LN_2, data.weight[chosen]
    group = Names(data.group.codes[chosen], data.group.values) if data.group else None
    rows = comparison.blocks(group, len(bits))
    values = comparison.mean_replicates(comparison.resample(rows.count, replicates), bits, rows, sizes)
    return _bounds(float(bits.sum() / sizes.sum()), values, rows.count)


def _bounds(estimate: float, values: np.ndarray, count: int) -> tuple[float, float] | None:
    bounds = comparison.interval(estimate, values, count, INTERVAL_CONFIDENCE)
    return (bounds.low, bounds.high) if np.isfinite([bounds.low, bounds.high]).all() else None


def _slices(data: Predictions, column: str, names: Names) -> list[SliceMetrics]:
    counts = np.bincount(names.codes, minlength=len(names.values))
    frequent = np.argsort(-counts, kind="stable")[:MOST_SLICE_VALUES]
    kept = sorted(code for code in frequent if counts[code])
    return [_slice(data, column, names.values[code], names.codes == code) for code in kept]


def _slice(data: Predictions, column: str, value: str, chosen: np.ndarray) -> SliceMetrics:
    if not data.header.classes:
        return SliceMetrics(
            column=column,
            value=value,
            rows=int(chosen.sum()),
            base_rate=float(data.weight[chosen].sum() / data.weight.sum()),
            models={m: metrics.likelihood(losses[chosen], data.weight[chosen]) for m, losses in data.losses.items()},
            interval=_bits_interval(data, "challenger", chosen, SLICE_REPLICATES),
        )
    label = data.label[chosen]
    tables = {model: table[chosen] for model, table in data.probabilities.items()}
    group = Names(data.group.codes[chosen], data.group.values) if data.group else None
    rates = np.bincount(label, minlength=len(data.header.classes)) / len(label)
    return SliceMetrics(
        column=column,
        value=value,
        rows=len(label),
        base_rate=float(rates[1] if data.binary else rates.max()),
        models={model: metrics.scores(label, table) for model, table in tables.items()},
        interval=_slice_interval(label, tables["challenger"], group),
    )


def _slice_interval(label: np.ndarray, probabilities: np.ndarray, group: Names | None) -> tuple[float, float] | None:
    if probabilities.shape[1] == 2:
        return _auc_interval(label, probabilities, group, SLICE_REPLICATES)
    right = (probabilities.argmax(axis=1) == label).astype(np.float64)
    rows = comparison.blocks(group, len(label))
    values = comparison.mean_replicates(comparison.resample(rows.count, SLICE_REPLICATES), right, rows)
    return _bounds(float(right.mean()), values, rows.count)


def _notes(data: Predictions) -> list[str]:
    names, present = data.header.classes, set(np.unique(data.label).tolist())
    notes = []
    if absent := [name for code, name in enumerate(names) if code not in present]:
        rows = f"the {data.header.split} split" if data.header.split else "the script's predictions"
        notes.append(f"The AUC is undefined: no row of {rows} is of class {', '.join(absent)}.")
    for column, values in data.slices.items():
        if (seen := len(np.unique(values.codes))) > MOST_SLICE_VALUES:
            notes.append(f"Slice {column}: the {MOST_SLICE_VALUES} most frequent of {seen:,} values are shown.")
    return notes


if __name__ == "__main__":
    for name, figure in exits(measure)(sys.argv[1]).scalars.items():
        print(f"{name:30} {figure:.6g}")
