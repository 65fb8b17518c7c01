"""From a table's source to its prepared dataset: checked, split, computed, sorted, written."""

import os
from collections.abc import Mapping
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from training.data import finish, leaks, manifest
from training.data.columns import Sketch, category_values
from training.data.destination import Destination
from training.data.engines.duckdb import DuckDB
from training.data.manifest import Manifest
from training.data.settings import engines
from training.data.shares import NAMES
from training.data.sources.files import Files
from training.data.sources.reading import Reading
from training.data.tables import features
from training.data.tables.features import LABEL, ROW_ID, SPLIT
from training.data.tables.shards import Writer, cut, rows_per_shard
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
    marked = features.marked(task, engine.source())
    counted = survey(engine, marked)
    planned = task.split.plan(counted.labelled, counted.unlabelled, None)
    joined = features.looking_back(task, engine, marked)
    split = task.split.assigned(joined, planned)
    rows = features.finished(task, joined, split, _row_id(task, joined))
    made = engine.create("finished", rows.order_by([SPLIT, ROW_ID]))
    statistics = {**planned, "rows_read": counted.rows}
    return _written(name, task, engine, made, statistics, target)


def _written(
    name: str, task: TabularTask, engine: DuckDB, made: ir.Table, statistics: Mapping[str, Any], target: Destination
) -> Manifest:
    notes = tuple(statistics.get("notes", ()))
    labels = engine.read(made.group_by([SPLIT, task.label]).agg(rows=made.count())).to_pylist()
    rows = {split: sum(r["rows"] for r in labels if r[SPLIT] == code) for code, split in enumerate(NAMES)}
    finish.require_rows(rows, notes)
    train = Sketch("label", pa.int64())
    train.counts.update({str(r[task.label]): r["rows"] for r in labels if r[SPLIT] == 0})
    finish.require_classes(task, train)
    tested = {r[task.label] for r in labels if NAMES[r[SPLIT]] == "test"}
    sample = engine.read(made.filter(made[SPLIT] == 0).limit(leaks.SAMPLE_ROWS))
    leaks.check(_sampled(sample), task.label, task.classes, (*task.trusted, task.group))
    values = _values(engine, made)
    finish.say([*notes, *finish.absent(task, tested)])
    with target.writing() as folder:
        writer = Writer(folder, task.label, values)
        per_shard = rows_per_shard(sample.schema)
        for split, table in cut(engine.batches(made), per_shard):
            writer.write(split, table)
        for category, sketch in writer.columns.items():
            sketch.counts.update(dict.fromkeys(values.get(category, ()), 0))
        described = tuple(sketch.column(title, task.classes) for title, sketch in writer.columns.items())
        dataset = finish.manifest_of(name, task, statistics, described, writer.splits)
        manifest.save(dataset, folder)
    return dataset


def _sampled(rows: pa.Table) -> leaks.Sample:
    return {
        name: np.unique(rows[name].to_numpy(), return_inverse=True)[1].astype(np.uint64)
        if pa.types.is_string(rows[name].type) else rows[name].to_numpy()
        for name in rows.column_names if name not in (SPLIT, ROW_ID)
    }  # fmt: skip


def _values(engine: DuckDB, made: ir.Table) -> dict[str, tuple[str, ...]]:
    """The values of each category."""
    values = {}
    for name, kind in made.schema().items():
        if kind.is_string():
            counted = engine.read(made.group_by(name).agg(rows=made.count()))
            found = Sketch("category", pa.int32())
            found.counts.update(dict(zip(counted[name].to_pylist(), counted["rows"].to_pylist(), strict=True)))
            found.require_few_values(name)
            values[name] = category_values(found.counts)
    return values


md5_number = ibis.udf.scalar.builtin(lambda text: ..., name="md5_number", signature=(("string",), "decimal(38,0)"))


def _row_id(task: TabularTask, table: ir.Table) -> ir.IntegerValue:
    parts = [table[name].cast("string") for name in task.key or [field.name for field in task.schema]]
    text = ibis.literal("|").join(parts)
    return (md5_number(text) % (2**63 - 1)).cast("int64")
