"""A dataset from a task's `shards`, `scan`, `combine` and `rows`, by processes of this machine.

Scan all shards, combine what they tell, make the rows, check them, and only then write: the destination is not touched
before everything is known to be good. What is written does not depend on the number of workers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from training.data import finish, leaks, manifest
from training.data.columns import Sketch, category_values
from training.data.destination import Destination
from training.data.manifest import Manifest, ShardFile
from training.data.pool import Shared, WorkerPool
from training.data.shard import ROW_ID, Order, Prepared, prepare_shard, write_shard
from training.task import Task


def prepare_shards(name: str, task: Task, data: str, target: Destination, pool: WorkerPool) -> Manifest:
    shards = task.shards(data)
    statistics = task.combine(pool.map("scanning", task.scan, shards))
    shared = Shared(statistics, task.scratch / "statistics")
    make = partial(_make, task, shared, max(64, leaks.SAMPLE_ROWS // max(1, len(shards))))
    prepared, columns = _merged(pool.map("making rows", make, list(enumerate(shards))))
    notes = tuple(statistics.get("notes", ()))
    _check(task, prepared, columns, notes)
    tested = set[int]().union(*(shard.classes.get("test", ()) for shard in prepared))
    finish.say([*notes, *finish.absent(task, tested)])
    values = {name: category_values(s.counts) for name, s in columns.items() if s.kind == "category"}
    described = tuple(sketch.column(name, task.classes) for name, sketch in columns.items())
    with target.writing() as folder:
        orders = _orders(prepared, folder)
        files = pool.map("writing", partial(write_shard, values=values), orders)
        made = finish.manifest_of(name, task, statistics, described, _by_split(files))
        manifest.save(made, folder)
    return made


def _make(task: Task, statistics: Shared, sample_rows: int, numbered: tuple[int, Any]) -> Prepared:
    return prepare_shard(task, *numbered, statistics.value, sample_rows)


def _merged(shards: Iterable[Prepared]) -> tuple[list[Prepared], dict[str, Sketch]]:
    """The shards, and the figures of all; merged as they come, so that the values of each are not held."""
    prepared, merged = [], {ROW_ID: Sketch("id", pa.int64())}
    for shard in shards:
        for name, sketch in shard.columns.items():
            if name in merged:
                merged[name].merge(sketch)
            else:
                merged[name] = sketch
            merged[name].require_few_values(name)
        prepared.append(replace(shard, columns={}))
    return prepared, merged


def _check(task: Task, prepared: Sequence[Prepared], columns: Mapping[str, Sketch], notes: Sequence[str]) -> None:
    """Raises UserError if there is nothing to learn from or to test on, or a column tells the label."""
    finish.require_rows(
        {split: sum(shard.rows.get(split, 0) for shard in prepared) for split in ("train", "test")}, notes
    )
    label = columns.get(task.label)
    if label is None or label.kind != "label":
        return
    finish.require_classes(task, label)
    samples = [shard.sample for shard in prepared if shard.rows.get("train")]
    joined = {name: np.concatenate([sample[name] for sample in samples]) for name in samples[0]}
    leaks.check(joined, task.label, task.classes, (*task.trusted, task.group))


def _orders(prepared: Sequence[Prepared], folder: Path) -> list[Order]:
    """Numbers the files of each split in the order of the shards; a shard without rows of a split has none."""
    splits = sorted({split for shard in prepared for split, rows in shard.rows.items() if rows})
    numbers = {split: count() for split in splits}
    sizes = (shard.rows.get(split, 0) for split in splits for shard in prepared)
    starts = list(accumulate(sizes, initial=0))
    return [
        Order(
            shard.path,
            {s: folder / f"{s}-{next(numbers[s]):05}.parquet" for s in splits if shard.rows.get(s)},
            {s: starts[k * len(prepared) + i] for k, s in enumerate(splits)},
        )
        for i, shard in enumerate(prepared)
    ]


def _by_split(files: Iterator[dict[str, ShardFile]]) -> dict[str, tuple[ShardFile, ...]]:
    splits: dict[str, tuple[ShardFile, ...]] = {}
    for written in files:
        for split, file in written.items():
            splits[split] = (*splits.get(split, ()), file)
    return splits
