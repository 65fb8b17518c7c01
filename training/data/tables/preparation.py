"""From a table's source to its prepared dataset: checked, split, computed, sorted, written."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from training.data import alike, finish, leaks, manifest
from training.data.destination import Destination
from training.data.engines import Engine, choice
from training.data.identity import numbered
from training.data.manifest import Manifest
from training.data.settings import engines
from training.data.shares import NAMES
from training.data.tables import duplicates, features
from training.data.tables.features import ROW_ID
from training.data.tables.shards import Shards
from training.data.tables.sorting import Sorting
from training.data.tables.survey import survey
from training.data.tabular import TabularTask


def prepare_table(name: str, task: TabularTask, data: str, target: Destination, workers: int | None) -> Manifest:
    """Raises UserError if the source, the task or an option is wrong; the destination is then as it was."""
    threads = workers or engines().workers or len(os.sched_getaffinity(0))
    with choice.opened(task, data, target, threads) as engine:
        task.sources = engine.sources
        return _prepared(name, task, engine, target, threads)


def _prepared(name: str, task: TabularTask, engine: Engine, target: Destination, threads: int) -> Manifest:
    identified = duplicates.identified(engine, engine.source(), task.key, [field.name for field in task.schema])
    marked = features.marked(task, identified)
    counted = survey(engine, task, marked)
    if task.split.counts_kinds:
        marked = numbered(marked, task.split.deciding, engine.dialect, features.KIND)
    kinds = alike.count(engine, marked, features.KIND) if task.split.counts_kinds else None
    planned = task.split.plan(counted.labelled, counted.unlabelled, kinds)
    joined = features.looking_back(task, engine, marked)
    rows = features.finished(task, joined, planned, engine.dialect)
    kept = sum(counted.labelled.values())
    with Sorting(task.scratch / "finished", kept, task.label) as finished:
        for batch in engine.batches(rows):
            finished.add(batch)
        statistics = {**planned, "rows_read": counted.rows}
        return _written(name, task, finished, statistics, target, threads)


def _written(
    name: str, task: TabularTask, finished: Sorting, statistics: Mapping[str, Any], target: Destination, threads: int
) -> Manifest:
    notes = tuple(statistics.get("notes", ()))
    _check(task, finished, notes)
    finish.say([*notes, *finish.absent(task, set(finished.labels[NAMES.index("test")]))])
    with target.writing() as folder:
        shards = Shards(folder, task.label, finished.values())
        shards.write(finished.tables(), threads)
        made = finish.manifest_of(name, task, statistics, shards.columns(task.classes), shards.files)
        manifest.save(made, folder)
    return made


def _check(task: TabularTask, finished: Sorting, notes: Sequence[str]) -> None:
    """Raises UserError if there is nothing to learn from or to test on, or a column tells the label."""
    finish.require_rows({split: finished.rows(code) for code, split in enumerate(NAMES)}, notes)
    finish.require_classes(task, finished.labels[NAMES.index("train")])
    sample = finished.first(leaks.SAMPLE_ROWS)
    categories = finished.values()
    columns = {name: sample[name].to_numpy() for name in sample.column_names if name != ROW_ID}
    coded = {name: values.astype(np.uint64) for name, values in columns.items() if name in categories}
    leaks.check({**columns, **coded}, task.label, task.classes, (*task.trusted, task.group))
