"""Prepares the dataset of a table: reads, checks, splits, computes, sorts and writes the rows."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.base.text.printable import quote
from vgp.data import dataset_checks, leaks, split_hash, split_parts
from vgp.data.columns import Sketch, sketch
from vgp.data.destination import Destination
from vgp.data.engine import KIND, Engine, Row
from vgp.data.engines.engine_choice import open_engine
from vgp.data.identity import with_ids
from vgp.data.pool import stage
from vgp.data.shard import encode_parquet
from vgp.data.sources.table_files import in_order
from vgp.data.split_hash import ByHash
from vgp.data.split_parts import NAMES
from vgp.data.tables import failed_rows, features, future_check
from vgp.data.tables.features import ROW_ID
from vgp.data.tables.sorting import Sorting
from vgp.data.tables.task_methods import check_bigquery_names
from vgp.data.tabular import TabularTask
from vgp.data.task import Statistics
from vgp.data.windows import CALENDAR
from vgp.protocol import manifest
from vgp.protocol.cluster import cores
from vgp.protocol.manifest import Column, Manifest, ShardFile


def prepare_table(name: str, task: TabularTask, data: str, target: Destination, workers: int | None) -> Manifest:
    """Prepares a table and returns its manifest.

    Raises:
        UserError: the source, the task or an option is wrong; the destination is then unchanged.
    """
    with Sorting(task.scratch / "finished", task.label, regression=task.regression) as finished:
        with ExitStack() as stack:
            with stage("reading the source"):
                derived = partial(features.derive_values, task)
                kind = features.kind_columns(task)
                kind = () if kind == task.key else kind  # `_row_id` is that number already
                engine = stack.enter_context(
                    open_engine(task, data, target, workers, derived, check_bigquery_names, kind)
                )
            with failed_rows.name_errors(task, engine):
                counted = _finish(task, engine, finished)
            task.sources = engine.sources
        # The engine has given its memory back.
        sample, doubts = _check(task, finished, counted["notes"])
        notes = (*counted["notes"], *task.strange_values(sample, finished.values()))
        statistics = {
            **counted,
            "notes": notes,
            "doubts": (*doubts, *dataset_checks.warn_missing_classes(task, _count_classes(finished))),
        }
        dataset_checks.print_notes([*statistics["notes"], *statistics["doubts"]])
        return _write_dataset(name, task, finished, statistics, sample, target, workers or cores())


def _finish(task: TabularTask, engine: Engine, finished: Sorting) -> Statistics:
    """Checks, splits and computes the rows; returns the statistics and notes of the dataset."""
    with stage("looking for keys that occur twice"):
        identified = with_ids(engine, engine.source(), task.key, [field.name for field in task.schema])
    with stage("counting rows"):
        marked = features.add_kinds(task, features.add_marks(task, identified, engine.dialect), engine.dialect)
        counted = count_rows(engine, task, marked)
        kinds = split_parts.count_kinds(engine, marked, KIND) if task.split.counts_kinds else None
        planned = task.split.plan(counted.labelled, counted.unlabelled, kinds)
        if isinstance(task.split, ByHash) and not task.regression and KIND in marked.columns:
            planned |= split_hash.move_rare_units(engine, marked, task.split, kinds)
    with stage("looking back"):
        past = future_check.compute_past(task, engine, marked, planned)
        joined = features.join_events(task, engine, engine.create_view(features.ROWS, marked))
    finished.expected = sum(counted.labelled.values())
    compared = (past.moment, past.below) if past else None
    said = features.ask_features(task, joined)
    rows = features.finish_rows(task, joined, planned, engine.dialect, compared, said)
    with stage("computing features") as work, closing(engine.batches(rows)) as batches:
        for batch in work.count_rows(past.drop_compared_rows(batches) if past else batches):
            if batch.num_rows:
                finished.add(batch)
    found = features.list_notes(task, said, engine.dialect)
    alone = split_hash.describe_ungrouped(next(iter(task.split.deciding), ""), counted.ungrouped, counted.rows)
    notes = (*engine.notes, *planned.get("notes", ()), *alone, *found, *task.remarks)
    return {**planned, "rows_read": counted.rows, "notes": notes}


def _write_dataset(
    name: str,
    task: TabularTask,
    finished: Sorting,
    statistics: Statistics,
    sample: Mapping[str, NDArray[np.generic]],
    target: Destination,
    threads: int,
) -> Manifest:
    with stage("writing") as work, target.writing() as folder:
        work.total = sum(finished.rows(split) for split in range(len(NAMES)))
        shards = Shards(folder, task.label, finished.values())
        for file in shards.write(finished.tables(), threads):
            work.rows += file.rows
        columns = shards.columns(task.classes)
        columns = dataset_checks.with_bins(columns, sample)
        columns = dataset_checks.with_quantiles(columns, task.label, sample[task.label]) if task.regression else columns
        made = dataset_checks.build_manifest(name, task, statistics, columns, shards.files)
        manifest.save(made, folder)
    return made


def _count_classes(finished: Sorting) -> dict[str, dict[int, int]]:
    """Returns the number of rows by split and class."""
    return {split: dict(finished.labels[code]) for code, split in enumerate(NAMES)}


def _check(
    task: TabularTask, finished: Sorting, notes: Sequence[str]
) -> tuple[Mapping[str, NDArray[np.generic]], tuple[str, ...]]:
    """Returns a sample of train rows by column, and doubts about them.

    Raises:
        UserError: there is nothing to learn from or to test on, or a column leaks the label.
    """
    dataset_checks.require_rows({split: finished.rows(code) for code, split in enumerate(NAMES)}, notes)
    dataset_checks.require_repeated_classes(task, finished.labels.values())
    dataset_checks.require_classes(task, _count_classes(finished))
    sample = finished.first(leaks.SAMPLE_ROWS)
    columns: dict[str, NDArray[np.generic]] = {
        name: sample[name].to_numpy() for name in sample.column_names if name != ROW_ID
    }
    if task.regression:
        dataset_checks.require_varied_label(columns[task.label])
    categories = finished.values()
    coded = {name: values.astype(np.uint64) for name, values in columns.items() if name in categories}
    return columns, leaks.check(
        {**columns, **coded}, task.label, task.classes, (*task.trusted, *task.groups), next(iter(task.groups), "")
    )


# ---- the survey of all rows before they are split: valid labels, and counts of labelled rows


@dataclass
class Survey:
    """Counts of rows by the mark that decides their split, such as their day."""

    rows: int = 0
    labelled: Counter[int] = field(default_factory=Counter)
    unlabelled: Counter[int] = field(default_factory=Counter)
    #: Rows without a value of the group by which rows are split.
    ungrouped: int = 0


def count_rows(engine: Engine, task: TabularTask, marked: ir.Table) -> Survey:
    """Counts the rows of the source by `_mark`.

    Raises:
        UserError: a label is not a class or is infinite, or a row cannot be split; names the row.
    """
    label, mark, (first, last) = marked["_label"], marked["_mark"], CALENDAR
    wrong = (label.isinf() if task.regression else (label < 0) | (label >= len(task.classes))).fill_null(False)
    alone = features.is_ungrouped(task, marked)
    counted = marked.group_by("_mark").agg(
        rows=marked.count(),
        labelled=label.count(),
        wrong=wrong.sum(),
        **({} if alone is None else {"alone": alone.sum()}),
    )
    marks = engine.read(counted).to_pylist()
    if any(row["wrong"] for row in marks):
        row = _find_first_row(engine, task, marked.filter(wrong))
        raise UserError(f"{engine.place(row)}: {_missing_label_message(task, row)}")
    if any(row["_mark"] is None or not first <= row["_mark"] <= last for row in marks):
        row = _find_first_row(engine, task, marked.filter(mark.isnull() | ~mark.between(first, last)))
        raise UserError(f"{engine.place(row)}: {task.split.wrong(row)}")
    labelled = {row["_mark"]: row["labelled"] for row in marks}
    unlabelled = {row["_mark"]: row["rows"] - row["labelled"] for row in marks}
    return Survey(
        sum(row["rows"] for row in marks), +Counter(labelled), +Counter(unlabelled),
        sum(row.get("alone") or 0 for row in marks),
    )  # fmt: skip


def _find_first_row(engine: Engine, task: TabularTask, rows: ir.Table) -> Row:
    """Returns the first row in the order of the files, or of the key."""
    place = [name for name in ("_file", "_record") if name in rows.columns]
    names = [field.name for field in task.schema]
    first = rows.order_by(place or list(task.key) or names).select(*names, "_label", *place).limit(1)
    return dict(engine.read(first).to_pylist()[0])


def _missing_label_message(task: TabularTask, row: Row) -> str:
    label = row[task.target] if task.target else row["_label"]
    shown = quote(label) if isinstance(label, str) else label
    if task.regression:
        return f"the label {shown} is not finite: limit it in `labels`, or make it null (unknown)."
    codes = "" if task.target else f" (codes 0 to {len(task.classes) - 1})"
    return f"the label {shown} is none of {', '.join(task.classes)}{codes}."


# ---- Parquet shards of a fixed number of rows, and their statistics


#: The approximate bytes of a shard in memory: enough to compress well, and few enough for many processes.
SHARD_BYTES = 32 << 20

#: A split, one of its files, and the statistics of the file's columns.
Written = tuple[str, ShardFile, dict[str, Sketch]]


class Shards:
    """A writer of shards into a folder, with statistics of their columns.

    The statistics are added up in the order of the shards, so that they do not depend on the engine.

    Args:
        values: The values of each category, in the order of their codes.
    """

    def __init__(self, folder: Path, label: str, values: Mapping[str, tuple[str, ...]]):
        self._folder, self._label, self._values = folder, label, values
        self.files: dict[str, tuple[ShardFile, ...]] = {}
        self._figures: dict[str, Sketch] = {}

    def write(self, tables: Iterable[tuple[int, pa.Table]], threads: int) -> Iterator[ShardFile]:
        """Writes the shards and yields each file when it is written."""
        work = (partial(self._write_shard, *numbered) for numbered in _number_tables(_cut_tables(tables)))
        for split, file, figures in in_order(work, threads):
            self.files[split] = (*self.files.get(split, ()), file)
            for name, figure in figures.items():
                if name in self._figures:
                    self._figures[name].merge(figure)
                else:
                    self._figures[name] = figure
            yield file

    def columns(self, classes: tuple[str, ...]) -> tuple[Column, ...]:
        """Returns the columns for the manifest."""
        for name, values in self._values.items():
            self._figures[name].counts.update(dict.fromkeys(values, 0))
        return tuple(figure.column(name, classes) for name, figure in self._figures.items())

    def _write_shard(self, split: str, number: int, rows: pa.Table) -> Written:
        columns = zip(rows.column_names, rows.combine_chunks().columns, strict=True)
        figures = {
            name: sketch(column.chunk(0), name == self._label, split == "train", self._values.get(name))
            for name, column in columns
        }
        data, path = encode_parquet(rows, list(self._values)), self._folder / f"{split}-{number:05}.parquet"
        path.write_bytes(data)
        checksum = hashlib.sha256(data).hexdigest()
        return split, ShardFile(path=path.name, rows=rows.num_rows, bytes=data.size, sha256=checksum), figures


def rows_per_shard(schema: pa.Schema) -> int:
    """Returns the rows of a shard: a power of two that depends only on the columns."""
    width: int = sum(field.type.bit_width // 8 for field in schema)
    return 1 << max(10, (SHARD_BYTES // width).bit_length() - 1)


def _cut_tables(tables: Iterable[tuple[int, pa.Table]]) -> Iterator[tuple[str, pa.Table]]:
    """Yields tables of equally many rows with the names of their splits; the last of a split may have fewer."""
    held, rows, of = list[pa.Table](), 0, -1
    for split, table in tables:
        if held and split != of:
            yield NAMES[of], pa.concat_tables(held)
            held, rows = [], 0
        of, most, start = split, rows_per_shard(table.schema), 0
        while start < table.num_rows:
            part = table.slice(start, most - rows)
            held, rows, start = [*held, part], rows + part.num_rows, start + part.num_rows
            if rows == most:
                yield NAMES[of], pa.concat_tables(held)
                held, rows = [], 0
    if held:
        yield NAMES[of], pa.concat_tables(held)


def _number_tables(tables: Iterable[tuple[str, pa.Table]]) -> Iterator[tuple[str, int, pa.Table]]:
    counts = defaultdict[str, int](int)
    for split, table in tables:
        yield split, counts[split], table
        counts[split] += 1
