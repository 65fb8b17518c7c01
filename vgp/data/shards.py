"""Prepares a dataset with a task's `shards`, `scan`, `combine` and `rows`.

The steps are: scan all shards, combine the scans into statistics, make the rows, check them, and write. `shard.py` has
the functions of one shard; a runner decides where they run: in processes of this machine (`Processes`), or on Apache
Beam (`beam/`). The output does not depend on the runner.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, count
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.text.printable import MOST_LETTERS, printable
from vgp.data import dataset_checks, leaks, split_parts
from vgp.data.columns import Sketch, category_values
from vgp.data.destination import Destination
from vgp.data.pool import Shared, WorkerPool
from vgp.data.shard import (
    PART_ROWS,
    ROW_ID,
    Order,
    Prepared,
    ShardIds,
    id_parts,
    prepare_shard,
    require_unique_ids,
    write_shard,
)
from vgp.data.task import Scan, Shard, Statistics, Task
from vgp.protocol import manifest
from vgp.protocol.manifest import Column, Manifest, ShardFile


class Runner(Protocol):
    """A place where the functions of a task run over its shards."""

    def make(self, name: str, task: Task, shards: Sequence[Shard], target: Destination) -> Manifest:
        """Prepares the dataset of the task called `name` in the folder.

        Raises:
            UserError: The input is wrong. The folder holds no partial output.
        """


@dataclass
class Figures:
    """The merged statistics of consecutive shards."""

    shards: list[Prepared]
    columns: dict[str, Sketch]
    groups: dict[str, split_parts.Marks] = field(default_factory=dict)

    @classmethod
    def of(cls, shard: Prepared) -> "Figures":
        columns = {ROW_ID: Sketch("id", pa.int64()), **shard.columns}
        return cls([replace(shard, columns={}, groups={})], columns, shard.groups)

    def merge(self, other: "Figures") -> "Figures":
        """Merges the statistics of the following shards into this object and returns it.

        Raises:
            UserError: The shards differ in their columns, or a category has too many values.
        """
        if self._holds_rows() and other._holds_rows() and (odd := sorted(self.columns.keys() ^ other.columns.keys())):
            raise UserError(f"the shards differ in their columns: {odd[0]} is not in all of them.")
        for name, sketch in other.columns.items():
            if name in self.columns:
                self.columns[name].merge(sketch)
            else:
                self.columns[name] = sketch
            self.columns[name].require_few_values(name)
        self.shards.extend(other.shards)
        self.groups = split_parts.merge_marks(self.groups, other.groups)
        return self

    def _holds_rows(self) -> bool:
        return any(shard.rows for shard in self.shards)


@dataclass(frozen=True)
class Plan:
    """The columns and categories of the dataset, after the rows of all shards have passed the checks."""

    columns: tuple[Column, ...]
    #: The values of each category, in the order of their codes.
    values: Mapping[str, tuple[str, ...]]
    #: Sentences for the log.
    notes: tuple[str, ...]
    #: The notes that the decision shows.
    doubts: tuple[str, ...] = ()


def statistics(task: Task, scans: Iterable[Scan]) -> Statistics:
    """Combines the scans of all shards, in order, into statistics."""
    if not merges(task):
        return task.combine(scans)
    whole = merge_in_tree(scans, task.merge)
    return task.combine([] if whole is None else [whole])


def merges(task: Task) -> bool:
    """Returns whether the task overrides `merge`."""
    return type(task).merge is not Task.merge


def plan(task: Task, figures: Figures, statistics: Statistics) -> tuple[Plan, list[Order]]:
    """Checks the statistics of all shards, and returns the plan and the order of each shard.

    Raises:
        UserError: The train or test split has no rows, a class is missing, or a column predicts the label alone.
    """
    notes, prepared, columns = tuple(statistics.get("notes", ())), figures.shards, figures.columns
    counts = {split: sum((shard.classes[split] for shard in prepared if split in shard.classes), Counter[int]())
              for split in dict.fromkeys(split for shard in prepared for split in shard.classes)}  # fmt: skip
    doubts = (*_check(task, prepared, columns, notes, counts), *dataset_checks.warn_missing_classes(task, counts))
    values = {name: category_values(sketch.counts) for name, sketch in columns.items() if sketch.kind == "category"}
    described = tuple(sketch.column(name, task.classes) for name, sketch in columns.items())
    if task.regression:
        described = dataset_checks.with_quantiles(described, task.label, _sample(prepared)[task.label])
    notes = (*notes, *doubts, *(split_parts.notes_on_groups(task.groups[0], figures.groups) if task.groups else ()))
    return Plan(described, values, notes, doubts), _number_files(prepared)


def manifest_of(
    name: str, task: Task, statistics: Statistics, plan: Plan, files: Iterable[Mapping[str, ShardFile]]
) -> Manifest:
    """Builds the manifest of a dataset from the written files of each shard, in order."""
    splits: dict[str, list[ShardFile]] = {}
    for shard in files:
        for split, file in shard.items():
            splits.setdefault(split, []).append(file)
    by_split = {split: tuple(splits[split]) for split in splits}
    return dataset_checks.build_manifest(name, task, {**statistics, "doubts": plan.doubts}, plan.columns, by_split)


def sample_rows(shards: int) -> int:
    """Returns the number of rows of each shard in the sample for leaks."""
    return max(64 if shards <= leaks.SAMPLE_ROWS // 64 else 4, leaks.SAMPLE_ROWS // max(1, shards))


def format_shard(shard: object) -> str:
    """Returns the shard as a short text, for a message."""
    text = printable(repr(shard))
    return text if len(text) <= 2 * MOST_LETTERS else text[: 2 * MOST_LETTERS] + "..."


def _check(
    task: Task, prepared: Sequence[Prepared], columns: Mapping[str, Sketch], notes: Sequence[str],
    counts: dataset_checks.Counts,
) -> tuple[str, ...]:  # fmt: skip
    """Checks rows, labels and leaks; returns warnings about columns that nearly predict the label."""
    rows = {split: sum(shard.rows.get(split, 0) for shard in prepared) for split in ("train", "test")}
    dataset_checks.require_rows(rows, notes)
    label = columns.get(task.label)
    if label is None or label.kind != "label":
        return ()
    joined = _sample(prepared)
    if task.regression:
        dataset_checks.require_varied_label(joined[task.label])
    else:
        dataset_checks.require_classes(task, counts)
    return leaks.check(joined, task.label, task.classes, (*task.trusted, *task.groups), next(iter(task.groups), ""))


def _sample(prepared: Sequence[Prepared]) -> leaks.Sample:
    """Returns the sampled rows of the train split, from all shards."""
    samples = [shard.sample for shard in prepared if shard.rows.get("train")]
    return {name: np.concatenate([sample[name] for sample in samples]) for name in samples[0]}


def _number_files(prepared: Sequence[Prepared]) -> list[Order]:
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


# ---- a merge tree whose shape depends on the number of values alone, so sums of floats are equal on every runner


Value = TypeVar("Value")

#: The values that are merged, in order, into one value of the next level.
FAN_IN = 64


def merge_in_tree(values: Iterable[Value], merge: Callable[[Value, Value], Value]) -> Value | None:
    """Merges all values into one, and holds only one value of each level; returns None if there are no values."""
    levels: list[tuple[int, Value] | None] = []
    for value in values:
        _add(levels, 0, value, merge)
    result: Value | None = None
    for level in levels:
        if level is not None:
            result = level[1] if result is None else merge(level[1], result)
    return result


def _add(
    levels: list[tuple[int, Value] | None], height: int, value: Value, merge: Callable[[Value, Value], Value]
) -> None:
    if height == len(levels):
        levels.append(None)
    current = levels[height]
    count, whole = (1, value) if current is None else (current[0] + 1, merge(current[1], value))
    levels[height] = (count, whole) if count < FAN_IN else None
    if count == FAN_IN:
        _add(levels, height + 1, whole, merge)


# ---- the shards in processes of this machine


class Processes:
    """The runner in processes of this machine, with scratch files in the task's scratch folder."""

    def __init__(self, workers: int | None = None):
        """With None, uses one process per core, if there are enough shards."""
        self.workers = workers

    def make(self, name: str, task: Task, shards: Sequence[Shard], target: Destination) -> Manifest:
        with WorkerPool(self.workers, task.scratch) as pool:
            shared = Shared(statistics(task, pool.map("scanning", task.scan, shards)), task.scratch / "statistics")
            make = partial(_prepare, task, shared, sample_rows(len(shards)))
            figures = _merge_figures(pool.map("making rows", make, list(enumerate(shards))))
            _compare_ids(task.scratch, shards, figures.shards, pool)
            planned, orders = plan(task, figures, shared.value)
            dataset_checks.print_notes(planned.notes)
            with target.writing() as folder:
                write = partial(write_shard, values=planned.values, folder=str(folder))
                dataset = manifest_of(name, task, shared.value, planned, pool.map("writing", write, orders))
                manifest.save(dataset, folder)
        return dataset


def _prepare(task: Task, statistics: Shared[Statistics], sample: int, numbered: tuple[int, Shard]) -> Prepared:
    """Prepares a shard, and writes its ids to a file if the task sets them."""
    number, shard = numbered
    prepared = prepare_shard(task, number, shard, statistics.value, sample, str(task.scratch))
    if prepared.ids is None:
        return prepared
    np.save(_ids_path(task.scratch, number), prepared.ids)
    return replace(prepared, ids=prepared.ids[:0])


def _merge_figures(shards: Iterable[Prepared]) -> Figures:
    """Merges the statistics as they arrive, so memory does not hold those of all shards."""
    return merge_in_tree(map(Figures.of, shards), Figures.merge) or Figures([], {})


def _compare_ids(scratch: Path, shards: Sequence[Shard], prepared: Sequence[Prepared], pool: WorkerPool) -> None:
    titled = [(n, format_shard(shards[n])) for n, shard in enumerate(prepared) if shard.ids is not None]
    rows = sum(sum(prepared[n].rows.values()) for n, _ in titled)
    count = -(-rows // PART_ROWS)
    compare = partial(_compare_part, scratch, titled, count)
    for _ in pool.map("comparing ids", compare, range(count)):
        pass


def _compare_part(scratch: Path, shards: Sequence[tuple[int, str]], count: int, part: int) -> None:
    ids: Iterator[ShardIds] = ((n, title, id_parts(np.load(_ids_path(scratch, n)), count)[part]) for n, title in shards)
    require_unique_ids(ids)


def _ids_path(scratch: Path, number: int) -> Path:
    return scratch / f"ids-{number}.npy"
