"""Scores the new model, the champion and a baseline on the same rows, saves the predictions, and measures them.

python -m training evaluate DATA --model MODEL DESTINATION [--champion MODEL]
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from training.data import manifest
from training.data.manifest import Manifest
from training.data.rows import Rows, open_rows
from training.errors import UserError
from training.evaluation import measure, predictions, score
from training.evaluation.baseline import fit
from training.evaluation.names import Namer, namer
from training.evaluation.predictions import Header
from training.evaluation.record import Evaluation
from training.task import Task

__all__ = ["Evaluation", "evaluate"]

#: Columns of B rows -> class probabilities (B, C), or losses (B,).
Scorer = Callable[[dict[str, np.ndarray]], np.ndarray]


def evaluate(
    data: str | Path,
    model: str | Path,
    destination: str | Path,
    *,
    champion: str = "",
    baseline: bool = True,
    split: str = "test",
    batch_rows: int | None = None,
) -> Evaluation:
    """Writes `predictions.parquet` and `metrics.json` into `destination`; memory holds one batch of predictions.

    Args:
        data: Directory of a prepared dataset.
        model: Directory of the new model, the challenger.
        destination: Directory, made if missing.
        champion: Directory of the model to beat, or the URI of its pins; "" if there is none.
        baseline: Whether to fit and score a simple rival as well: a logistic regression, or the task's own.
        split: Split of the dataset to score.
        batch_rows: Rows scored at once; None = the task's. The figures do not depend on it, up to rounding.

    Raises:
        UserError: a directory does not hold what it should, the split is empty, or the champion cannot be compared.
    """
    dataset = manifest.load(data)
    if not dataset.rows(split):
        raise UserError(f"the {split} split of {data} has no rows; it has {_row_counts(dataset)}.")
    challenger = score.load(model, dataset)
    scorers: dict[str, Scorer] = {"challenger": challenger}
    same = False
    if champion:
        scorers["champion"] = reigning = score.load(champion, dataset)
        score.check_comparable(reigning, challenger)
        same = score.same(reigning, challenger)
    task = challenger.task
    rows = open_rows(data, split)
    namers = {name: _namer(dataset, rows, name) for name in task.slices}
    group = {"group": _namer(dataset, rows, task.group, whole=True)} if task.group else {}
    fitted, notes = _baseline(data, dataset, task) if baseline else (None, ())
    if fitted:
        scorers["baseline"] = fitted
    header = Header(
        task=dataset.task,
        split=split,
        classes=() if task.likelihood else tuple(task.classes),
        weight=task.weight,
        models=tuple(scorers),
        same=same,
        group=task.group,
        slices=tuple(task.slices),
        notes=notes,
    )
    batches = _batches(rows, task, header, {**namers, **group}, scorers, batch_rows or task.batch_rows)
    predictions.write(destination, header, batches)
    return measure.measure(destination)


def _row_counts(dataset: Manifest) -> str:
    return ", ".join(f"{dataset.rows(name):,} in {name}" for name in dataset.splits) or "no splits"


def _baseline(data: str | Path, dataset: Manifest, task: Task) -> tuple[Scorer | None, tuple[str, ...]]:
    """The baseline if one can be fitted, and what a reader must know about it."""
    if task.likelihood:
        own = task.baseline(open_rows(data, "train"), dataset)
        return (own[0], (own[1],)) if own else (None, ())
    try:
        fitted = fit(dataset, open_rows(data, "train"), task)
    except ValueError as error:
        return None, (f"No baseline: {error}.",)
    rows = dataset.rows("train")
    sampled = f"The baseline was fitted on {fitted.rows:,} of {rows:,} train rows, evenly spaced."
    return fitted, (sampled,) if fitted.rows < rows else ()


def _namer(dataset: Manifest, rows: Rows, name: str, *, whole: bool = False) -> "tuple[str, Namer]":
    """The dataset's column behind a slice or group, and how to name its values."""
    column = next((column for column in dataset.columns if column.name == name), None)
    if column is None:
        raise UserError(f"the task slices or groups by {name}, a column that the data does not have.")
    return name, namer(column, rows.columns[name], whole=whole)


def _batches(
    rows: Rows,
    task: Task,
    header: Header,
    namers: "dict[str, tuple[str, Namer]]",
    scorers: dict[str, Scorer],
    batch_rows: int,
) -> Iterator[dict[str, Any]]:
    for start in range(0, len(rows), batch_rows):
        batch = rows.take(np.arange(start, min(start + batch_rows, len(rows))))
        yield {
            "row_id": batch["row_id"],
            **_outcome(batch, task, header, start),
            **{column: name(batch[source]) for column, (source, name) in namers.items()},
            **{model: scorer(batch) for model, scorer in scorers.items()},
        }


def _outcome(batch: dict[str, np.ndarray], task: Task, header: Header, start: int) -> dict[str, np.ndarray]:
    """What the rows are held against: their classes, or how much each counts."""
    if task.likelihood:
        rows = len(batch["row_id"])
        return {"weight": batch[task.weight].astype(np.int64) if task.weight else np.ones(rows, np.int64)}
    label = batch[task.label].astype(np.int64)
    _check_labels(label, header, start)
    return {"label": label}


def _check_labels(label: np.ndarray, header: Header, start: int) -> None:
    wrong = np.flatnonzero((label < 0) | (label >= len(header.classes)))
    if len(wrong):
        raise UserError(
            f"row {start + wrong[0]} of the {header.split} split has label {label[wrong[0]]}; "
            f"{header.task} has the classes 0 to {len(header.classes) - 1}."
        )
