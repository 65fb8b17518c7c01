"""The columns that a model needs of new data, and its rows in shards on the scratch disk, with their manifest.

The number of rows per shard does not depend on the machine.
"""

import hashlib
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data.bundle import ModelCard
from vgp.data.columns import elements
from vgp.data.rows import read_shard
from vgp.data.shard import encode_parquet
from vgp.data.tables import engine_agreement, task_methods
from vgp.data.tables.sorting import width_of
from vgp.data.tabular import TabularTask
from vgp.data.task import Task
from vgp.protocol.manifest import Column, Manifest, ShardFile, SourceFile

# ---- the columns of a table that a model needs; new data lacks the label, and may lack columns that no feature uses

# A column is needed if the task's expressions cannot be built over a table without it.


def list_needed_columns(task: TabularTask, learned: Collection[str], absent: Iterable[str]) -> list[str]:
    """Returns the absent columns that the features need.

    Args:
        learned: The features that the model takes.
    """
    absent = list(absent)
    alone = [name for name in absent if not _is_computable(task, learned, {name})]
    if not alone and absent and not _is_computable(task, learned, set(absent)):
        return absent
    return alone


def keep(task: TabularTask, present: Collection[str]) -> None:
    """Reduces the task's schema to these columns; columns known only after the outcome may be empty."""
    kept = [field for field in task.schema if field.name in present]
    task.__dict__["schema"] = tuple(replace(f, nullable=True) if f.known == "after" else f for f in kept)


def expect(task: TabularTask, learned: Collection[str]) -> None:
    """Adapts the task's schema to new data: columns known only after the outcome may be empty, and they and the split
    column may be missing unless `events` needs them."""
    after = [field.name for field in task.schema if field.known == "after"]
    spare = {*after, task.split.column} - {
        *list_needed_columns(task, learned, [*after, *filter(None, [task.split.column])])
    }
    task.__dict__["schema"] = tuple(
        replace(field, optional=field.name in spare, nullable=field.nullable or field.name in {*after, *spare})
        for field in task.schema
    )


def looks_back(task: TabularTask) -> list[str]:
    """Returns the names of the events, and of the features that use several rows."""
    events = task_methods.call_method(task, "events", task_methods.rows_of(task.schema))
    values = task_methods.call_method(task, "features", task_methods.feature_rows(task.schema, events))
    several = [name for name, value in values.items()
               if isinstance(value, ir.Value) and engine_agreement.takes_several_rows(value.op())]  # fmt: skip
    return [*events, *several]


def _is_computable(task: TabularTask, learned: Collection[str], without: Collection[str]) -> bool:
    fields = [field for field in task.schema if field.name not in without]
    try:
        events = task_methods.call_method(task, "events", task_methods.rows_of(fields))
        outputs = task_methods.call_method(task, "features", task_methods.feature_rows(fields, events))
    except UserError:
        return False
    inputs = {name for event in events.values() for name in (*event.by, event.hour, event.value, event.weight)}
    return set(learned) <= set(outputs) and not inputs & set(without)


# ---- shards of rows on the scratch disk

SPLIT = "rows"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class NewRows:
    """The rows to predict, in shards."""

    folder: Path
    #: The manifest, with one split, `rows`; the label is float64.
    dataset: Manifest
    #: Columns copied to the output: name in the shards -> name in the output.
    carried: Mapping[str, str]
    #: Rows whose label is known.
    labelled: int = 0

    @property
    def shards(self) -> tuple[ShardFile, ...]:
        return self.dataset.splits[SPLIT]

    def read(self, number: int) -> Arrays:
        """Reads the columns of a shard, with its label and ids."""
        table = read_shard(self.folder, self.shards[number], self.dataset.columns)
        return {column.name: elements(table[column.name].combine_chunks()) for column in self.dataset.columns}

    def read_carried(self, number: int) -> pa.Table:
        """Reads the columns of a shard that are copied to the output."""
        table = pq.read_table(self.folder / self.shards[number].path, columns=list(self.carried))
        return table.rename_columns(list(self.carried.values()))


def feature_columns(task: Task, card: ModelCard) -> list[Column]:
    """Returns the columns that the model takes as input: no ids, label, or columns that only group rows."""
    kinds, spare = ("number", "category", "vector"), (task.label, *task.carried)
    return [column for column in card.columns if column.kind in kinds and column.name not in spare]


#: The approximate size of a shard: the work that a kill can lose.
SHARD_BYTES = 8 << 20
LEAST_ROWS, MOST_ROWS = 1 << 10, 1 << 18


def write(
    task: Task, card: ModelCard, tables: Iterator[pa.Table], values: Mapping[str, tuple[str, ...]], shard_rows: int,
    sources: Sequence[SourceFile], notes: Sequence[str] = (), *, carried: Mapping[str, str] = {},
) -> NewRows:  # fmt: skip
    """Writes all rows in their order as shards to the scratch folder of the task.

    Args:
        values: The values of each category, in the order of its codes.
        shard_rows: Rows per shard; 0 = derived from their width.
        carried: Columns copied to the output: name in `tables` -> name in the output.

    Raises:
        UserError: There are no rows, or they lack a column that the model needs.
    """
    folder = task.scratch / "shards"
    folder.mkdir()
    files, labelled, schema = [], 0, pa.schema([])
    for number, table in enumerate(_cut_tables(tables, shard_rows)):
        schema, path = table.schema, folder / f"{SPLIT}-{number:05}.parquet"
        data = encode_parquet(table, [name for name in values if name in table.column_names])
        path.write_bytes(data)
        if task.label in table.column_names and not task.likelihood:
            labelled += int(np.count_nonzero(~np.isnan(table[task.label].to_numpy())))
        files.append(
            ShardFile(path=path.name, rows=len(table), bytes=data.size, sha256=hashlib.sha256(data).hexdigest())
        )
    if not files:
        raise UserError("the data has no rows to predict.")
    dataset = Manifest(
        task=card.task, options=card.options, columns=_describe_columns(task, schema, values, carried),
        splits={SPLIT: tuple(files)}, rows_read=sum(file.rows for file in files), notes=tuple(notes),
        sources=tuple(sources), statistics=card.statistics,
    )  # fmt: skip
    _require(task, card, dataset)
    return NewRows(folder, dataset, carried, labelled)


def _require(task: Task, card: ModelCard, dataset: Manifest) -> None:
    there = {column.name for column in dataset.columns}
    if absent := [column.name for column in feature_columns(task, card) if column.name not in there]:
        raise UserError(f"the new rows lack columns that the model needs: {join_names(absent)}.")


def _cut_tables(tables: Iterator[pa.Table], shard_rows: int) -> Iterator[pa.Table]:
    """Yields tables with an equal number of rows; the last may have fewer."""
    held = None
    for table in tables:
        held = table if held is None else pa.concat_tables([held, table])
        most = shard_rows or _rows_per_shard(table.schema)
        while len(held) >= most:
            yield held.slice(0, most).combine_chunks()
            held = held.slice(most)
    if held is not None and len(held):
        yield held.combine_chunks()


def _rows_per_shard(schema: pa.Schema) -> int:
    """Returns the rows per shard, a power of two that depends only on the columns."""
    width = sum(width_of(field.type) for field in schema)
    return min(MOST_ROWS, max(LEAST_ROWS, 1 << (SHARD_BYTES // width).bit_length() - 1))


def _describe_columns(
    task: Task, schema: pa.Schema, values: Mapping[str, tuple[str, ...]], carried: Container[str]
) -> tuple[Column, ...]:  # fmt: skip
    columns = []
    for field in schema:
        if field.name not in carried:
            plain, width = _kind(field.type)
            kind: Any = "category" if field.name in values else "label" if field.name == task.label else plain
            known = values.get(field.name, ())
            columns.append(Column(name=field.name, kind=kind, type=str(field.type), width=width, values=known))
    return tuple(columns)


def _kind(stored: pa.DataType) -> tuple[str, int]:
    """Returns the kind and the width of a column of this type."""
    if pa.types.is_fixed_size_list(stored):
        return "vector", stored.list_size
    if pa.types.is_fixed_size_binary(stored):
        return "vector", stored.byte_width
    return ("id" if pa.types.is_integer(stored) else "number"), 1
