"""From a table's source to its prepared dataset: checked, split, computed, sorted, written."""

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from training.data import alike, finish, leaks, manifest
from training.data.columns import Sketch
from training.data.destination import Destination
from training.data.engines.duckdb import DuckDB
from training.data.identity import numbered
from training.data.manifest import Manifest
from training.data.settings import engines
from training.data.shares import NAMES
from training.data.sources.files import Files
from training.data.tables import duplicates, features
from training.data.tables.features import ROW_ID, SPLIT
from training.data.tables.shards import Writer, cut, rows_per_shard
from training.data.tables.sorting import Sorter
from training.data.tables.survey import survey
from training.data.tabular import TabularTask


def prepare_table(name: str, task: TabularTask, data: str, target: Destination, workers: int | None) -> Manifest:
    """Raises UserError if the source, the task or an option is wrong; the destination is then as it was."""
    setting = engines()
    threads = workers or setting.workers or len(os.sched_getaffinity(0))
    files = Files(task.files(data), task.schema, task.reading, task.scratch, threads=threads)
    with DuckDB.opened(task.scratch, int(setting.memory_gb * 2**30) or 600 << 20, threads) as engine:
        engine.read_files(files, task.schema)
        task.sources = engine.sources
        return _prepared(name, task, engine, target)


def _prepared(name: str, task: TabularTask, engine: DuckDB, target: Destination) -> Manifest:
    identified = duplicates.identified(engine, engine.source(), task.key, [field.name for field in task.schema])
    marked = features.marked(task, identified)
    counted = survey(engine, task, marked)
    if task.split.counts_kinds:
        marked = numbered(marked, task.split.deciding, engine.dialect, features.KIND)
    kinds = alike.count(engine, marked, features.KIND) if task.split.counts_kinds else None
    planned = task.split.plan(counted.labelled, counted.unlabelled, kinds)
    joined = features.looking_back(task, engine, marked)
    rows = features.finished(task, joined, planned, engine.dialect)
    statistics = {**planned, "rows_read": counted.rows}
    with Sorter(task.scratch / "rows", counted.rows) as sorter:
        labels = Counter[tuple[int, int]]()
        for batch in engine.batches(rows):
            sorter.add(batch)
            labels.update(_labels(batch, task.label))
        return _written(name, task, sorter, labels, statistics, target)


def _labels(batch: pa.RecordBatch, label: str) -> dict[tuple[int, int], int]:
    """Rows by the codes of split and class."""
    pairs = np.stack([batch[SPLIT].to_numpy().astype(np.int64), batch[label].to_numpy()])
    values, counts = np.unique(pairs, axis=1, return_counts=True)
    return dict(zip(map(tuple, values.T.tolist()), counts.tolist(), strict=True))


def _written(
    name: str,
    task: TabularTask,
    sorter: Sorter,
    labels: Counter[tuple[int, int]],
    statistics: Mapping[str, Any],
    target: Destination,
) -> Manifest:
    notes = tuple(statistics.get("notes", ()))
    rows = {title: sum(n for (split, _), n in labels.items() if split == code) for code, title in enumerate(NAMES)}
    finish.require_rows(rows, notes)
    train = Sketch("label", pa.int64(), counts=Counter({str(code): n for (s, code), n in labels.items() if s == 0}))
    finish.require_classes(task, train)
    values = sorter.values
    leaks.check(_sampled(sorter, values), task.label, task.classes, (*task.trusted, task.group))
    finish.say([*notes, *finish.absent(task, {code for split, code in labels if NAMES[split] == "test"})])
    with target.writing() as folder, Writer(folder, task.label, values, 2) as writer:
        for split, table in cut(sorter.sorted(), rows_per_shard(sorter.schema)):
            writer.write(split, table)
        files = writer.splits()
        described = tuple(sketch.column(title, task.classes) for title, sketch in writer.figures().items())
        dataset = finish.manifest_of(name, task, statistics, described, files)
        manifest.save(dataset, folder)
    return dataset


def _sampled(sorter: Sorter, values: Mapping[str, Any]) -> leaks.Sample:
    """The first rows of the train split: their ids are random."""
    _, rows = next(cut(sorter.sorted(), leaks.SAMPLE_ROWS))
    return {
        name: rows[name].to_numpy().astype(np.uint64) if name in values else rows[name].to_numpy()
        for name in rows.column_names if name != ROW_ID
    }  # fmt: skip
