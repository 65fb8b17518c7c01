"""A dataset of a task that works shard by shard: scan all, combine, make the rows, check them, and only then write.

What is done with a shard is a function of it and of what all shards tell (`shard.py`); a `Runner` says where: in
processes here (`processes.py`). What is written depends on the input and the configuration, not on the runner.
"""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Any, Protocol

import numpy as np

from training import tasks
from training.data import leaks, manifest
from training.data.columns import Sketch, category_values
from training.data.destination import Destination
from training.data.manifest import Column, Manifest, ShardFile
from training.data.shard import Order, Prepared
from training.errors import UserError
from training.printable import listed
from training.task import Task

#: What `combine` returned.
Statistics = Mapping[str, Any]
#: What was written of each shard, by split.
Files = Sequence[Mapping[str, ShardFile]]


@dataclass(frozen=True)
class Plan:
    """What is to be written, once the rows of all shards are made and found good."""

    columns: tuple[Column, ...]
    #: The values of each category, in the order of their codes.
    values: Mapping[str, tuple[str, ...]]
    #: One for each shard.
    orders: Sequence[Order]
    #: Sentences for the log.
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Written:
    statistics: Statistics
    plan: Plan
    files: Files


class Runner(Protocol):
    """Where the functions of `shard.py` run over all shards of a task."""

    def written(self, task: Task, shards: Sequence[Any], target: Destination) -> AbstractContextManager[Written]:
        """Inside, the files of all shards lie in the destination; if what follows there fails, they are removed."""


def make(name: str, task: Task, data: str, target: Destination, runner: Runner) -> Manifest:
    """Prepares the dataset of the task `name` from `data`; the manifest, its commit, is written last.

    Raises:
        UserError: the input is wrong. Nothing is left behind.
    """
    with runner.written(task, task.shards(data), target) as written:
        made = _manifest(name, task, written)
        manifest.save(made, target.folder)
    return made


def plan(task: Task, prepared: Sequence[Prepared], columns: Mapping[str, Sketch], statistics: Statistics) -> Plan:
    """The plan for shards whose rows are made.

    Args:
        prepared: All of them, in order.
        columns: The merged figures of all shards.

    Raises:
        UserError: there is nothing to learn from or to test on, or a column tells the label.
    """
    notes = tuple(statistics.get("notes", ()))
    _check(task, prepared, columns, notes)
    values = {name: category_values(sketch.counts) for name, sketch in columns.items() if sketch.kind == "category"}
    described = tuple(sketch.column(name, task.classes) for name, sketch in columns.items())
    return Plan(described, values, _orders(prepared), (*notes, *_absent(task, prepared)))


def say(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr, flush=True)


def sample_rows(shards: int) -> int:
    """Rows of each shard that are looked at for leaks."""
    return max(64, leaks.SAMPLE_ROWS // max(1, shards))


def _absent(task: Task, prepared: Sequence[Prepared]) -> Iterator[str]:
    """What is wrong with a test split that lacks a class; the train split may not lack one."""
    known = set[int]().union(*(shard.classes.get("test", ()) for shard in prepared))
    if known and (absent := [title for code, title in enumerate(task.classes) if code not in known]):
        yield f"The test split has no row of the class {listed(absent)}: there will be no AUC."


def _check(task: Task, prepared: Sequence[Prepared], columns: Mapping[str, Sketch], notes: Sequence[str]) -> None:
    rows = {split: sum(shard.rows.get(split, 0) for shard in prepared) for split in ("train", "test")}
    for split, other in (("train", "test"), ("test", "train")):
        if not rows[split]:
            lack = f"there is no row in the {split} split, and {rows[other]:,} in the {other} split: more are needed."
            raise UserError(" ".join([lack, *notes]))
    label = columns.get(task.label)
    if label is None or label.kind != "label":
        return
    for code, title in enumerate(task.classes):
        if not label.counts[str(code)]:
            raise UserError(f"the class {title!r} does not occur in the train split: there is nothing to tell apart.")
    samples = [shard.sample for shard in prepared if shard.rows.get("train")]
    joined = {name: np.concatenate([sample[name] for sample in samples]) for name in samples[0]}
    leaks.check(joined, task.label, task.classes, (*task.trusted, task.group))


def _orders(prepared: Sequence[Prepared]) -> list[Order]:
    """Numbers the files of each split in the order of the shards; a shard without rows of a split has none."""
    splits = sorted({split for shard in prepared for split, rows in shard.rows.items() if rows})
    numbers = {split: count() for split in splits}
    sizes = (shard.rows.get(split, 0) for split in splits for shard in prepared)
    starts = list(accumulate(sizes, initial=0))
    return [
        Order(
            shard.path,
            {s: f"{s}-{next(numbers[s]):05}.parquet" for s in splits if shard.rows.get(s)},
            {s: starts[k * len(prepared) + i] for k, s in enumerate(splits)},
        )
        for i, shard in enumerate(prepared)
    ]


def _by_split(files: Files) -> dict[str, tuple[ShardFile, ...]]:
    splits: dict[str, list[ShardFile]] = {}
    for shard in files:
        for split, file in shard.items():
            splits.setdefault(split, []).append(file)
    return {split: tuple(files) for split, files in splits.items()}


def _manifest(name: str, task: Task, written: Written) -> Manifest:
    own, statistics, splits = {"rows_read", "rows_dropped", "notes", "split"}, written.statistics, written.files
    by_split = _by_split(splits)
    return Manifest(
        task=tasks.spec(name),
        options=task.options,
        split=statistics.get("split", {}),
        columns=written.plan.columns,
        splits=by_split,
        statistics={key: value for key, value in statistics.items() if key not in own and not key.startswith("_")},
        rows_read=statistics.get("rows_read", sum(f.rows for files in by_split.values() for f in files)),
        rows_dropped=statistics.get("rows_dropped", {}),
        notes=tuple(statistics.get("notes", ())),
        sources=task.sources,
        fingerprint=fingerprint(name, task),
    )


def fingerprint(name: str, task: Task) -> str:
    """A checksum of what decides the dataset: the task, its code and options, and the sources."""
    parts = {
        "format": Manifest.model_fields["format"].default,
        "task": tasks.spec(name),
        "code": inspect.getsource(sys.modules[type(task).__module__]),
        "options": task.options,
        "sources": [source.sha256 for source in task.sources],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
