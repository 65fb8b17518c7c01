"""Shards prepared in processes of this machine."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vgp.data import finish
from vgp.data import shards as tree
from vgp.data.destination import Destination
from vgp.data.pool import Shared, WorkerPool
from vgp.data.shard import PART_ROWS, Prepared, id_parts, prepare_shard, require_unique_ids, write_shard
from vgp.data.shards import Figures, manifest_of, named, plan, sample_rows, statistics
from vgp.data.task import Task
from vgp.protocol import manifest
from vgp.protocol.manifest import Manifest


class Processes:
    """The runner of `shards.py` that works here; its scratch files lie in the task's scratch folder."""

    def __init__(self, workers: int | None = None):
        """None = one process per core, if there is enough to do."""
        self.workers = workers

    def make(self, name: str, task: Task, shards: Sequence[Any], target: Destination) -> Manifest:
        with WorkerPool(self.workers, task.scratch) as pool:
            shared = Shared(statistics(task, pool.map("scanning", task.scan, shards)), task.scratch / "statistics")
            make = partial(_prepared, task, shared, sample_rows(len(shards)))
            figures = _figures(pool.map("making rows", make, list(enumerate(shards))))
            _compare_ids(task.scratch, shards, figures.shards, pool)
            planned, orders = plan(task, figures, shared.value)
            finish.say(planned.notes)
            with target.writing() as folder:
                write = partial(write_shard, values=planned.values, folder=str(folder))
                made = manifest_of(name, task, shared.value, planned, pool.map("writing", write, orders))
                manifest.save(made, folder)
        return made


def _prepared(task: Task, statistics: Shared, sample: int, numbered: tuple[int, Any]) -> Prepared:
    """A prepared shard; its ids lie in a file, where the task gives them."""
    number, shard = numbered
    prepared = prepare_shard(task, number, shard, statistics.value, sample, str(task.scratch))
    if prepared.ids is None:
        return prepared
    np.save(_ids(task.scratch, number), prepared.ids)
    return replace(prepared, ids=prepared.ids[:0])


def _figures(shards: Iterable[Prepared]) -> Figures:
    """Merged as they come, so that the values of each shard are not held."""
    whole = tree.merged_in_tree(map(Figures.of, shards), Figures.merge)
    return whole or Figures([], {})


def _compare_ids(scratch: Path, shards: Sequence[Any], prepared: Sequence[Prepared], pool: WorkerPool) -> None:
    given = [(n, named(shards[n])) for n, shard in enumerate(prepared) if shard.ids is not None]
    rows = sum(sum(prepared[n].rows.values()) for n, _ in given)
    count = -(-rows // PART_ROWS)
    compare = partial(_compare_part, scratch, given, count)
    for _ in pool.map("comparing ids", compare, range(count)):
        pass


def _compare_part(scratch: Path, shards: Sequence[tuple[int, str]], count: int, part: int) -> None:
    ids: Iterator[Any] = ((n, title, id_parts(np.load(_ids(scratch, n)), count)[part]) for n, title in shards)
    require_unique_ids(ids)


def _ids(scratch: Path, number: int) -> Path:
    return scratch / f"ids-{number}.npy"
