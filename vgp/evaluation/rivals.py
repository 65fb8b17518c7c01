"""Simple models that every model is held against: fitted on train rows here and now, and kept nowhere.

The simplest is a constant, what the train labels say without any column: a model that is worse is never promoted.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vgp.base.text.figures import significant
from vgp.data.rows import Shards, open_rows
from vgp.data.task import Task
from vgp.evaluation import baseline, boosting
from vgp.evaluation.predictions_writer import Scorer
from vgp.protocol import outcome
from vgp.protocol.manifest import Column, Manifest

#: Values farther from the median than so many times the distance of the quartiles are far, and outliers where they are
#: no larger a share of all than `FEW` and make more than half of all squares. So many are named.
FAR, FEW, NAMED = 10.0, 0.03, 3
OUTLIERS = "Outliers"
ADVICE = (
    "Means and squared errors follow them: if they are mistakes, such as a placeholder or another unit, remove them."
)
#: The split by which rivals choose their settings, and stop.
VALIDATION = "validation"


def fit(data: str | Path, dataset: Manifest, task: Task) -> tuple[dict[str, Scorer], tuple[str, ...]]:
    """Simple models, fitted on the train split as far as they can be, and what a reader must know about them."""
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
    """What is always predicted without a look at a row, and what a reader must know of the train labels.

    How frequent each class is, or the mean of the labels, their median and their quantiles. () where there are none.
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
    """A sentence on the columns of numbers in which a few values lie far from all others."""
    numbers = [column.name for column in columns if column.kind == "number"]
    found = [(name, _far(sample[name].astype(np.float64))) for name in numbers]
    told = [f"{name} ({_told(far, task, name)})" for name, far in found if far]
    more = f" and {len(told) - NAMED} columns more" if len(told) > NAMED else ""
    return (f"{OUTLIERS} among the train rows: {', '.join(told[:NAMED])}{more}. {ADVICE}",) if told else ()


@dataclass(frozen=True)
class Far:
    """Few values that lie so far from all others that they decide means and squares."""

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
    return f"{far.count:,} of {far.rows:,} lie farther than {significant(far.beyond, 3)} from the median{named}"


def _held(data: str | Path, dataset: Manifest, task: Task) -> dict[str, np.ndarray] | None:
    """Rows of the validation split, which keep to groups and time as the task splits; None without enough of them."""
    if dataset.rows(VALIDATION) < baseline.FEWEST_HELD:
        return None
    return baseline.sampled(dataset, Shards(Path(data), dataset, VALIDATION), task)[1]


def _of_a_sample(who: str, some: int, rows: int) -> str:
    return f"{who} was fitted on {some:,} of {rows:,} train rows, evenly spaced."
