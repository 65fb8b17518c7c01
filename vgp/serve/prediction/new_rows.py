"""Prepares new data as rows for a model: checked, and ordered by id.

A row has the model's columns, the columns of its key, its time, and its label (NaN if unknown).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.base import engine_settings as settings
from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.data.bundle import ModelCard
from vgp.data.columns import category_values, fixed_width
from vgp.data.destination import Destination
from vgp.data.engine import ID, Engine
from vgp.data.engines.engine_choice import open_engine, resolve_source
from vgp.data.identity import with_ids
from vgp.data.periods import Spans, date_of, parse, spans_of
from vgp.data.pool import WorkerPool, stage
from vgp.data.schema import DAY, arrow_schema
from vgp.data.shard import ROW_ID, encode_category
from vgp.data.sources.table_files import Files
from vgp.data.tables import failed_rows, features, task_methods
from vgp.data.tables.sorting import Sorting
from vgp.data.tabular import TabularTask
from vgp.data.task import Task
from vgp.serve.prediction import row_shards
from vgp.serve.prediction.output_shards import rename_columns
from vgp.serve.prediction.row_shards import NewRows, feature_columns

#: The largest object that downloads in a few seconds, bytes.
SECONDS_BYTES = 256 << 20


def prepare_rows(
    task: Task, card: ModelCard, data: str, target: Destination, *, window: str = "", shard_rows: int = 0,
    workers: int | None = None,
) -> NewRows:  # fmt: skip
    """Prepares new data and writes its rows as shards to the scratch folder of the task.

    Args:
        task: The task of the model's card, with `scratch` set. Relaxes the schema of a tabular task (`cutting.expect`).
        data: Files, tables and queries as in preparation, or the URI of their pins.
        target: The destination of the predictions, which determines the identity that runs queries.
        window: The days to predict, for tasks with a time; the other rows serve as history. "" = all.
        shard_rows: Rows per shard; 0 = derived from their width.

    Raises:
        UserError: The data cannot be read, lacks a column that the model needs, or has no rows.
    """
    if isinstance(task, TabularTask):
        return _prepare_table(task, card, data, target, window, shard_rows, workers)
    if window:
        raise UserError(
            f"window = {window}: {type(task).__name__} is not a tabular task: its rows have no days. Remove the window."
        )
    return _prepare_shards(task, card, data, shard_rows, workers)


def check_first(task: Task, card: ModelCard, data: str) -> None:
    """Raises UserError if the first file of tabular data lacks a column that the model needs, and names the nearest
    one.

    Does not check BigQuery tables and large files in buckets; the step that predicts does.

    Args:
        task: The task of the model's card; its schema is relaxed, as by `prepare_rows`.
    """
    if not isinstance(task, TabularTask):
        return
    row_shards.expect(task, [column.name for column in feature_columns(task, card)])
    source = resolve_source(task, data.strip() or task.default_data(), settings.engines().bigquery)
    first = [file for file in source.files[:1] if not storage.is_remote(file.path) or file.bytes <= SECONDS_BYTES]
    if first:
        with TemporaryDirectory(prefix="first-") as scratch:
            Files(first, task.schema, task.reading, Path(scratch)).check_first()


# ---- tables


def _prepare_table(
    task: TabularTask, card: ModelCard, data: str, target: Destination, window: str, shard_rows: int,
    workers: int | None,
) -> NewRows:  # fmt: skip
    row_shards.expect(task, [column.name for column in feature_columns(task, card)])
    carried = tuple(dict.fromkeys(filter(None, (*task.key, task.time))))
    stored = {f"_told_{number}": name for number, name in enumerate(carried)}
    with Sorting(task.scratch / "finished", task.label, regression=True, carried=stored) as finished:
        with ExitStack() as stack:
            with stage("reading the source"):
                engine = stack.enter_context(open_engine(task, data, target, workers))
            with failed_rows.name_errors(task, engine):
                _compute_features(task, engine, finished, window, stored)
            sources, notes = engine.sources, engine.notes
        values = finished.values()
        with stage("writing rows"):
            tables = (table for _, table in finished.tables())
            return row_shards.write(
                task, card, tables, values, shard_rows, sources, notes, carried=rename_columns(stored)
            )


def _compute_features(
    task: TabularTask, engine: Engine, finished: Sorting, window: str, carried: Mapping[str, str]
) -> None:
    with stage("looking for keys that occur twice"):
        rows = with_ids(engine, engine.source(), task.key, [field.name for field in task.schema])
    seen = task_methods.visible_table(rows, (field.name for field in task.schema))
    label = task_methods.move_to(rows, seen, features.get_labels(task, seen)).cast("float64").fill_null(float("nan"))
    more: dict[str, ibis.Value] = {features.LABEL: label}
    if task.time:
        more[DAY] = task_methods.move_to(rows, seen, features.day(task, seen))
    with stage("looking back"):
        marked = engine.create_view(features.ROWS, rows.mutate(**more))
        chosen = _days(task, engine, marked, window) if window else ()
        joined = features.join_events(task, engine, marked)
    table = joined.select(
        **{ROW_ID: joined[ID], features.SPLIT: ibis.literal(0, "int8")},
        **features.compute_values(task, joined),
        **{name: joined[column] for name, column in carried.items()},
        **{task.label: joined[features.LABEL]},
        **({DAY: joined[DAY]} if chosen else {}),
    )
    if chosen:
        day = table[DAY]
        inside = [day.between(first, end - 1) for first, end in chosen]
        table = table.filter(ibis.or_(*inside)).drop(DAY)
    types = arrow_schema(table.schema())
    finished.expected = int(engine.read(rows.agg(rows=rows.count()))["rows"][0].as_py())
    with stage("computing features") as work, closing(engine.batches(table)) as batches:
        for batch in work.count_rows(batches):
            if batch.num_rows:
                finished.add(_set_zone(batch, types))


def _set_zone(batch: pa.RecordBatch, types: pa.Schema) -> pa.RecordBatch:
    """Returns the rows with the time zone UTC in their timestamps, which DuckDB leaves out."""
    columns = [
        c.cast(f.type) if pa.types.is_timestamp(f.type) else c for c, f in zip(batch.columns, types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _days(task: TabularTask, engine: Engine, rows: ibis.Table, window: str) -> Spans:
    """Returns the days to predict. Raises UserError if the window is invalid or has no rows."""
    if not task.time:
        raise UserError(
            f"window = {window}: {type(task).__name__} has no time column. Remove the window to predict all rows."
        )
    chosen, day = parse(window, "window"), rows[DAY]
    first, last = engine.read(rows.agg(first=day.min(), last=day.max())).to_pylist()[0].values()
    if chosen.yearless:
        chosen = chosen.with_year(date_of(last).year)
    length = chosen.length
    spans = ((length.before(last + 1), last + 1),) if length else spans_of(chosen.periods)
    if not any(start <= last and end > first for start, end in spans):
        raise UserError(
            f"window = {window}: the data has rows from {date_of(first)} to {date_of(last)}, none in this window."
        )
    return spans


# ---- other tasks


def _prepare_shards(task: Task, card: ModelCard, data: str, shard_rows: int, workers: int | None) -> NewRows:
    task.predicting = True
    shards = task.shards(data)
    with WorkerPool(workers, task.scratch) as pool:
        tables = list(pool.map("making rows", partial(_prepare_shard, task, card.statistics), list(enumerate(shards))))
    values = _read_values(task, tables)
    return row_shards.write(task, card, _number_rows(task, tables, values), values, shard_rows, task.sources)


def _prepare_shard(task: Task, statistics: JsonObject, numbered: tuple[int, Any]) -> Path:
    """Prepares the rows of one input shard and returns their file."""
    number, shard = numbered
    try:
        parts = task.rows(shard, statistics)
    except KeyError as error:
        raise UserError(
            f"{type(task).__name__}.rows needs the statistic {error}, which the model's card does not have. A card "
            "stores the values of `combine` whose names have no leading underscore."
        ) from None
    path = task.scratch / f"new-{number}.arrow"
    tables = [fixed_width(parts[split], task.label, regression=task.regression) for split in sorted(parts)]
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, tables[0].schema) as file:
        file.write_table(pa.concat_tables(tables).unify_dictionaries().combine_chunks())
    return path


def _open(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all().combine_chunks()


def _read_values(task: Task, paths: Sequence[Path]) -> dict[str, tuple[str, ...]]:
    from collections import Counter

    found: dict[str, Counter[str]] = {}
    for table in map(_open, paths):
        for name in table.column_names:
            column = table[name].combine_chunks()
            if pa.types.is_dictionary(column.type):
                found.setdefault(name, Counter()).update(column.dictionary.to_pylist())
    return {name: category_values(values) for name, values in found.items()}


def _number_rows(task: Task, paths: Sequence[Path], values: Mapping[str, tuple[str, ...]]) -> Iterator[pa.Table]:
    """Yields the rows of each shard with their ids, their label as float64, and categories as codes."""
    first = 0
    for table in map(_open, paths):
        for name, known in values.items():
            place = table.column_names.index(name)
            table = table.set_column(place, name, encode_category(table[name].combine_chunks(), known))
        if ROW_ID not in table.column_names:
            table = table.append_column(ROW_ID, pa.array(np.arange(first, first + len(table), dtype=np.int64)))
        if not task.likelihood and task.label in table.column_names:
            place = table.column_names.index(task.label)
            label = table[task.label].cast(pa.float64())
            known = pc.if_else(pc.less(label, 0), pa.scalar(np.nan), label) if not task.regression else label
            table = table.set_column(place, task.label, known)
        first += len(table)
        yield table
