"""Rows that a model takes, cut into shards on this machine's scratch disk, with their manifest.

A shard has a fixed number of rows, whatever machine makes it.
"""

import hashlib
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.text.printable import listed
from vgp.data.bundle import ModelCard
from vgp.data.shard import parquet
from vgp.data.tables.sorting import width_of
from vgp.data.task import Task
from vgp.protocol.manifest import Column, Manifest, ShardFile, SourceFile
from vgp.serve.prediction.shards import SPLIT, NewRows, learned

#: Of a shard, about: what a kill may lose, and what one process computes at a time.
SHARD_BYTES = 8 << 20
LEAST_ROWS, MOST_ROWS = 1 << 10, 1 << 18


def write(
    task: Task, card: ModelCard, tables: Iterator[pa.Table], values: Mapping[str, tuple[str, ...]], shard_rows: int,
    sources: Sequence[SourceFile], notes: Sequence[str] = (), *, carried: Mapping[str, str] = {},
) -> NewRows:  # fmt: skip
    """Shards of all rows, in their order, in the scratch folder of the task.

    Args:
        values: Of each category, in the order of its codes.
        shard_rows: Rows of a shard; 0 = by their width.
        carried: Columns that tell a row, by what they are called in `tables`: what they are called in the output.

    Raises:
        UserError: there are no rows, or they lack a column that the model needs.
    """
    folder = task.scratch / "shards"
    folder.mkdir()
    files, labelled, schema = [], 0, pa.schema([])
    for number, table in enumerate(_cut(tables, shard_rows)):
        schema, path = table.schema, folder / f"{SPLIT}-{number:05}.parquet"
        data = parquet(table, [name for name in values if name in table.column_names])
        path.write_bytes(data)
        if task.label in table.column_names and not task.likelihood:
            labelled += int(np.count_nonzero(~np.isnan(table[task.label].to_numpy())))
        files.append(
            ShardFile(path=path.name, rows=len(table), bytes=data.size, sha256=hashlib.sha256(data).hexdigest())
        )
    if not files:
        raise UserError("the data has no rows to be predicted.")
    dataset = Manifest(
        task=card.task, options=card.options, columns=_described(task, schema, values, carried),
        splits={SPLIT: tuple(files)}, rows_read=sum(file.rows for file in files), notes=tuple(notes),
        sources=tuple(sources), statistics=card.statistics,
    )  # fmt: skip
    _require(task, card, dataset)
    return NewRows(folder, dataset, carried, labelled)


def _require(task: Task, card: ModelCard, dataset: Manifest) -> None:
    there = {column.name for column in dataset.columns}
    if absent := [column.name for column in learned(task, card) if column.name not in there]:
        raise UserError(f"the model needs {listed(absent)}: columns that the new rows do not have.")


def _cut(tables: Iterator[pa.Table], shard_rows: int) -> Iterator[pa.Table]:
    """Tables of equally many rows; the last may have fewer."""
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
    """A power of two that follows from the columns alone."""
    width = sum(width_of(field.type) for field in schema)
    return min(MOST_ROWS, max(LEAST_ROWS, 1 << (SHARD_BYTES // width).bit_length() - 1))


def _described(
    task: Task, schema: pa.Schema, values: Mapping[str, tuple[str, ...]], carried: Container[str]
) -> tuple[Column, ...]:  # fmt: skip
    made = []
    for field in schema:
        if field.name not in carried:
            plain, width = _kind(field.type)
            kind: Any = "category" if field.name in values else "label" if field.name == task.label else plain
            known = values.get(field.name, ())
            made.append(Column(name=field.name, kind=kind, type=str(field.type), width=width, values=known))
    return tuple(made)


def _kind(stored: pa.DataType) -> tuple[str, int]:
    """The kind of a column by its type, and its width."""
    if pa.types.is_fixed_size_list(stored):
        return "vector", stored.list_size
    if pa.types.is_fixed_size_binary(stored):
        return "vector", stored.byte_width
    return ("id" if pa.types.is_integer(stored) else "number"), 1
