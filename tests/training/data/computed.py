"""Small tables in an engine, for what is expressed over a source."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from training.data.engines.duckdb import DuckDB
from training.data.schema import Field


@dataclass
class Rows:
    """A table in place of files that are read: a row's line is its number, from 2 on."""

    table: pa.Table
    sources: tuple[()] = ()
    batch_rows: int = 1 << 16
    read: list[int] = field(default_factory=list)

    def batches(self) -> Iterator[pa.RecordBatch]:
        count = self.table.num_rows
        placed = self.table.append_column("_file", pa.array([0] * count, pa.int32()))
        placed = placed.append_column("_record", pa.array(range(count), pa.int64()))
        return iter(placed.to_batches(self.batch_rows) or [pa.RecordBatch.from_pylist([], placed.schema)])

    def place(self, file: int, record: int) -> str:
        return f"x.csv, line {record + 2}"


@contextmanager
def engine_of(table: pa.Table, scratch: Path, fields: tuple[Field, ...] = (), threads: int = 2) -> Iterator[DuckDB]:
    """The embedded engine with a table as its source; by default with all of its columns."""
    declared = fields or tuple(Field(column.name, column.type, nullable=True) for column in table.schema)
    with DuckDB.opened(scratch, 512 << 20, threads) as engine:
        engine.read_files(Rows(table), declared)
        yield engine


def values(engine: DuckDB, expression: ir.Table) -> list[Mapping[str, Any]]:
    return engine.read(expression).to_pylist()


def unbound(table: pa.Table, name: str = "rows") -> ir.Table:
    return ibis.table(ibis.schema(table.schema), name=name)
