"""Fits the simple models that every model is compared with; they are not saved.

The simplest one is a constant prediction from the train labels; a model that is worse is never promoted automatically.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vgp.base.text.figures import format_significant
from vgp.data.rows import Shards, open_rows
from vgp.data.task import Task
from vgp.evaluation import baseline, boosting
from vgp.evaluation.predictions_writer import Scorer
from vgp.protocol import outcome
from vgp.protocol.manifest import Column, Manifest

#: Values farther from the median than this many interquartile ranges are outliers, if their share is at most `FEW` and
#: they make up more than half of the sum of squares. `NAMED` limits the list of names.
FAR, FEW, NAMED = 10.0, 0.03, 3
OUTLIERS = "Outliers"
ADVICE = (
    "They dominate means and squared errors. If they are errors, such as a placeholder or a wrong unit, remove them."
)
#: The split for settings and early stopping.
VALIDATION = "validation"


def fit(data: str | Path, dataset: Manifest, task: Task) -> tuple[dict[str, Scorer], tuple[str, ...]]:
    """Fits the simple models on the train split; returns them and notes for readers."""
    if task.likelihood:
        baseline_and_note = task.baseline(open_rows(data, "train"), dataset)
        return ({"baseline": baseline_and_note[0]}, (baseline_and_note[1],)) if baseline_and_note else ({}, ())
    rows, rivals, notes = dataset.rows("train"), dict[str, Scorer](), list[str]()
    try:
        columns, sample = baseline.sample_rows(dataset, Shards(Path(data), dataset, "train"), task)
        validation = _read_validation(data, dataset, task)
        notes += _note_outliers(columns, sample, task)
        fitted = (baseline.fit_regression if task.regression else baseline.fit)(columns, sample, task, validation)
        rivals["baseline"] = fitted
        notes += [_note_sample("The baseline", fitted.rows, rows)] if fitted.rows < rows else []
    except ValueError as error:
        return {}, (f"No baseline: {error}.",)
    try:
        rivals["boosting"] = rival = boosting.fit(columns, sample, task, validation)
        notes += [_note_sample("Gradient boosting", rival.rows, rows)] if rival.rows < fitted.rows else []
    except ValueError as error:
        notes.append(f"No gradient boosting: {error}.")
    return rivals, tuple(notes)


def constant(data: str | Path, dataset: Manifest, task: Task) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Returns the constant prediction from the train labels, and notes for readers.

    It holds the class frequencies, or mean, median and quantiles of the labels; () without labels.
    """
    if task.likelihood or not dataset.rows("train"):
        return (), ()
    label = Shards(Path(data), dataset, "train").column(task.label)
    if task.regression:
        label = label.astype(np.float64)
        outliers = _find_outliers(label)
        sentence = (
            f"{OUTLIERS} among the train labels: {_describe(outliers, task, task.label)}. {ADVICE}" if outliers else ""
        )
        values = (float(label.mean()), *np.quantile(label, (0.5, *task.quantiles)).tolist())
        return values, (sentence,) if sentence else ()
    return tuple((np.bincount(label, minlength=len(task.classes)) / len(label)).tolist()), ()


def _note_outliers(columns: tuple[Column, ...], sample: dict[str, np.ndarray], task: Task) -> tuple[str, ...]:
    """Returns a note on number columns with outliers."""
    numbers = [column.name for column in columns if column.kind == "number"]
    by_column = [(name, _find_outliers(sample[name].astype(np.float64))) for name in numbers]
    texts = [f"{name} ({_describe(outliers, task, name)})" for name, outliers in by_column if outliers]
    more = f" and {len(texts) - NAMED} columns more" if len(texts) > NAMED else ""
    return (f"{OUTLIERS} among the train rows: {', '.join(texts[:NAMED])}{more}. {ADVICE}",) if texts else ()


@dataclass(frozen=True)
class Outliers:
    """Outliers of a column that dominate its mean and squares."""

    count: int
    rows: int
    beyond: float
    farthest: tuple[float, ...]


def _find_outliers(values: np.ndarray) -> Outliers | None:
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, lower, middle, upper, high = np.quantile(values, [0.01, 0.25, 0.5, 0.75, 0.99])
    reach, squares = FAR * ((upper - lower) or (high - low)), np.square(values - middle)
    far = np.abs(values - middle) > reach
    if not reach or not far.any() or far.mean() > FEW or squares[far].sum() <= squares.sum() / 2:
        return None
    farthest = sorted(set(values[far].tolist()), key=lambda value: -abs(value - middle))[:NAMED]
    return Outliers(int(far.sum()), len(values), float(reach), tuple(farthest))


def _describe(outliers: Outliers, task: Task, column: str) -> str:
    is_private = {"*", outcome.target(task) if column == task.label else column} & {*task.private}
    values = "" if is_private else f": {', '.join(f'{value:,.6g}' for value in outliers.farthest)}"
    distance = format_significant(outliers.beyond, 3)
    return f"{outliers.count:,} of {outliers.rows:,} are farther than {distance} from the median{values}"


def _read_validation(data: str | Path, dataset: Manifest, task: Task) -> dict[str, np.ndarray] | None:
    """Returns rows of the validation split, or None if there are too few."""
    if dataset.rows(VALIDATION) < baseline.FEWEST_HELD:
        return None
    return baseline.sample_rows(dataset, Shards(Path(data), dataset, VALIDATION), task)[1]


def _note_sample(model: str, sample: int, rows: int) -> str:
    return f"{model} was fitted on {sample:,} of {rows:,} train rows, evenly spaced."
