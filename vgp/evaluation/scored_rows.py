"""Rows of a split beside what every model says of them, a batch at a time."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from vgp.base.exits import UserError
from vgp.data.declaration import DAY
from vgp.data.rows import Shards
from vgp.data.task import Task
from vgp.evaluation.names import Namer, group_namer, namer
from vgp.evaluation.predictions import GROUPS, Header
from vgp.protocol.manifest import Column, Manifest

#: Columns of B rows -> class probabilities (B, C), mean and quantiles (B, 1 + Q), or losses (B,).
Scorer = Callable[[dict[str, np.ndarray]], np.ndarray]


def namers(rows: Shards, task: Task) -> dict[str, tuple[str, Namer]]:
    """Column of the predictions -> column of the dataset, and what names its values: the task's slices and its groups.

    Raises:
        UserError: the task names a column that the dataset does not have.
    """
    slices = {name: (name, namer(_column(rows.dataset, name), partial(rows.column, name))) for name in task.slices}
    groups = zip(GROUPS, task.groups, strict=False)
    return slices | {column: (name, group_namer(_column(rows.dataset, name))) for column, name in groups}


def _column(dataset: Manifest, name: str) -> Column:
    """The dataset's column behind a slice or group."""
    column = next((column for column in dataset.columns if column.name == name), None)
    if column is None and name == DAY:
        raise UserError(
            "the data was prepared without the day of its rows, by which a task with a time groups them unless it says "
            'otherwise: prepare it again, or declare group = "row", with which every row counts by itself.'
        )
    if column is None:
        raise UserError(f"the task slices or groups by {name}, a column that the data does not have.")
    return column


def batches(
    rows: Shards,
    task: Task,
    header: Header,
    namers: dict[str, tuple[str, Namer]],
    scorers: dict[str, Scorer],
    batch_rows: int,
) -> Iterator[dict[str, Any]]:
    """What `predictions_writer.write` takes, a batch of rows at a time, in the order of the split.

    Raises:
        UserError: a row has a label that is none of the task's classes.
    """
    for number, batch in enumerate(rows.batches(batch_rows)):
        yield {
            "row_id": batch["row_id"],
            **_outcome(batch, task, header, number * batch_rows),
            **{column: name(batch[source]) for column, (source, name) in namers.items()},
            **{model: scorer(batch) for model, scorer in scorers.items()},
        }


def _outcome(batch: dict[str, np.ndarray], task: Task, header: Header, start: int) -> dict[str, np.ndarray]:
    """What the rows are held against: their classes, or how much each counts."""
    if task.likelihood:
        rows = len(batch["row_id"])
        return {"weight": batch[task.weight].astype(np.int64) if task.weight else np.ones(rows, np.int64)}
    if task.regression:
        return {"label": batch[task.label]}
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
