"""Shards prepared in processes of this machine."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from training.data.columns import Sketch
from training.data.destination import Destination
from training.data.pool import Shared, WorkerPool
from training.data.shard import ROW_ID, Prepared, prepare_shard, write_shard
from training.data.shards import Written, plan, sample_rows, say
from training.task import Task


class Processes:
    """The runner of `shards.py` that works here; its scratch files lie in the task's scratch folder."""

    def __init__(self, workers: int | None = None):
        """None = one process per core, if there is enough to do."""
        self.workers = workers

    @contextmanager
    def written(self, task: Task, shards: Sequence[Any], target: Destination) -> Iterator[Written]:
        with WorkerPool(self.workers) as pool:
            statistics = task.combine(pool.map("scanning", task.scan, shards))
            shared = Shared(statistics, task.scratch / "statistics")
            make = partial(_prepared, task, shared, sample_rows(len(shards)))
            prepared, columns = _merged(pool.map("making rows", make, list(enumerate(shards))))
            planned = plan(task, prepared, columns, statistics)
            say(planned.notes)
            with target.writing() as folder:
                write = partial(write_shard, values=planned.values, folder=folder)
                yield Written(statistics, planned, list(pool.map("writing", write, planned.orders)))


def _prepared(task: Task, statistics: Shared, sample: int, numbered: tuple[int, Any]) -> Prepared:
    number, shard = numbered
    return prepare_shard(task, number, shard, statistics.value, sample)


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
