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

#: Values farther from the median than this many interquartile ranges are far; they are outliers if their share is at
#: most `FEW` and they make up more than half of the sum of squares. The last number limits the list of names.
FAR, FEW, NAMED = 10.0, 0.03, 3
OUTLIERS = "Outliers"
ADVICE = (
    "Means and squared errors follow them: if they are mistakes, such as a placeholder or another unit, remove them."
)
#: The split for settings and early stopping.
VALIDATION = "validation"


def fit(data: str | Path, dataset: Manifest, task: Task) -> tuple[dict[str, Scorer], tuple[str, ...]]:
    """Fits the simple models on the train split; returns them and notes for readers."""
    if task.likelihood:
        own = task.baseline(open_rows(data, "train"), dataset)
        return ({"baseline": own[0]}, (own[1],)) if own else ({}, ())
    rows, rivals, notes = dataset.rows("train"), dict[str, Scorer](), list[str]()
    try:
        columns, sample = baseline.sampled(dataset, Shards(Path(data), dataset, "train"), task)
        held = _held(data, dataset, task)
        notes += _far_inputs(columns, sample, task)
        fitted = (baseline.fit_regression if task.regression else baseline.fit)(columns, sample, task, held)
        rivals["baseline"] = fitted
        notes += [_of_a_sample("The baseline", fitted.rows, rows)] if fitted.rows < rows else []
    except ValueError as error:
        return {}, (f"No baseline: {error}.",)
    try:
        rivals["boosting"] = rival = boosting.fit(columns, sample, task, held)
        notes += [_of_a_sample("Gradient boosting", rival.rows, rows)] if rival.rows < fitted.rows else []
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
        far = _far(label)
        told = f"{OUTLIERS} among the train labels: {_told(far, task, task.label)}. {ADVICE}" if far else ""
        return (float(label.mean()), *np.quantile(label, (0.5, *task.quantiles)).tolist()), (told,) if told else ()
    return tuple((np.bincount(label, minlength=len(task.classes)) / len(label)).tolist()), ()


def _far_inputs(columns: tuple[Column, ...], sample: dict[str, np.ndarray], task: Task) -> tuple[str, ...]:
    """Returns a note on number columns with outliers."""
    numbers = [column.name for column in columns if column.kind == "number"]
    found = [(name, _far(sample[name].astype(np.float64))) for name in numbers]
    told = [f"{name} ({_told(far, task, name)})" for name, far in found if far]
    more = f" and {len(told) - NAMED} columns more" if len(told) > NAMED else ""
    return (f"{OUTLIERS} among the train rows: {', '.join(told[:NAMED])}{more}. {ADVICE}",) if told else ()


@dataclass(frozen=True)
class Far:
    """Outliers of a column that dominate its mean and squares."""

    count: int
    rows: int
    beyond: float
    farthest: tuple[float, ...]


def _far(values: np.ndarray) -> Far | None:
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, lower, middle, upper, high = np.quantile(values, [0.01, 0.25, 0.5, 0.75, 0.99])
    reach, squares = FAR * ((upper - lower) or (high - low)), np.square(values - middle)
    far = np.abs(values - middle) > reach
    if not reach or not far.any() or far.mean() > FEW or squares[far].sum() <= squares.sum() / 2:
        return None
    farthest = sorted(set(values[far].tolist()), key=lambda value: -abs(value - middle))[:NAMED]
    return Far(int(far.sum()), len(values), float(reach), tuple(farthest))


def _told(far: Far, task: Task, column: str) -> str:
    hidden = {"*", outcome.target(task) if column == task.label else column} & {*task.private}
    named = "" if hidden else f": {', '.join(f'{value:,.6g}' for value in far.farthest)}"
    return f"{far.count:,} of {far.rows:,} lie farther than {format_significant(far.beyond, 3)} from the median{named}"


def _held(data: str | Path, dataset: Manifest, task: Task) -> dict[str, np.ndarray] | None:
    """Returns rows of the validation split, or None if there are too few."""
    if dataset.rows(VALIDATION) < baseline.FEWEST_HELD:
        return None
    return baseline.sampled(dataset, Shards(Path(data), dataset, VALIDATION), task)[1]


def _of_a_sample(who: str, some: int, rows: int) -> str:
    return f"{who} was fitted on {some:,} of {rows:,} train rows, evenly spaced."
