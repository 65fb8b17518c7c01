"""Simple models that every model is held against: fitted on train rows here and now, and kept nowhere."""

from pathlib import Path

import numpy as np

from training.data.manifest import Manifest
from training.data.rows import Shards, open_rows
from training.evaluation import baseline, baseline_linear, boosting
from training.evaluation.scored_rows import Scorer
from training.task import Task

#: The split by which rivals choose their settings, and stop.
VALIDATION = "validation"


def fit(data: str | Path, dataset: Manifest, task: Task) -> tuple[dict[str, Scorer], tuple[str, ...]]:
    """Simple models, fitted on the train split as far as they can be, and what a reader must know about them."""
    if task.likelihood:
        own = task.baseline(open_rows(data, "train"), dataset)
        return ({"baseline": own[0]}, (own[1],)) if own else ({}, ())
    rows, rivals, notes = dataset.rows("train"), dict[str, Scorer](), []
    try:
        columns, sample = baseline.sampled(dataset, Shards(Path(data), dataset, "train"), task)
        held = _held(data, dataset, task)
        fitted = (baseline_linear.fit if task.regression else baseline.fit)(columns, sample, task, held)
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


def _held(data: str | Path, dataset: Manifest, task: Task) -> dict[str, np.ndarray] | None:
    """Rows of the validation split, which keep to groups and time as the task splits; None without enough of them."""
    if dataset.rows(VALIDATION) < baseline.FEWEST_HELD:
        return None
    return baseline.sampled(dataset, Shards(Path(data), dataset, VALIDATION), task)[1]


def _of_a_sample(who: str, some: int, rows: int) -> str:
    return f"{who} was fitted on {some:,} of {rows:,} train rows, evenly spaced."
