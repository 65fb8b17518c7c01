"""Small tables in an engine, for what is expressed over a source; and the numbers of rows in Python, as stated."""

import hashlib
import math
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from vgp.data.engines.duckdb import DuckDB
from vgp.data.schema import Field

EPOCH = datetime(1970, 1, 1)


@dataclass
class Rows:
    """A table in place of files that are read: a row's line is its number, from 2 on."""

    table: pa.Table
    sources: tuple[()] = ()
    batch_rows: int = 1 << 16
    read: list[int] = field(default_factory=list)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        count = self.table.num_rows
        placed = self.table.select(columns or self.table.column_names)
        placed = placed.append_column("_file", pa.array([0] * count, pa.int32()))
        placed = placed.append_column("_record", pa.array(range(count), pa.int64()))
        return iter(placed.to_batches(self.batch_rows) or [pa.RecordBatch.from_pylist([], placed.schema)])

    def place(self, file: int, record: int) -> str:
        return f"x.csv, line {record + 2}"


@contextmanager
def engine_of(
    table: pa.Table, scratch: Path, fields: tuple[Field, ...] = (), threads: int = 2, key: tuple[str, ...] = ()
) -> Iterator[DuckDB]:
    """The embedded engine with a table as its source; by default with all of its columns."""
    scratch.mkdir(exist_ok=True)
    declared = fields or tuple(Field(column.name, column.type, nullable=True) for column in table.schema)
    with DuckDB.open(scratch, 512 << 20, threads) as engine:
        engine.read_files(Rows(table), declared, {"_row_id": key} if key else {})
        yield engine


def keep(engine: DuckDB, name: str, table: pa.Table) -> None:
    """One more table in the engine."""
    engine._connection.register("kept", table)
    engine._connection.execute(f'CREATE TEMP TABLE "{name}" AS FROM kept')
    engine._connection.unregister("kept")


def stated(value: object, last: bool) -> str:
    """The text of a value, in words of its own."""
    if value is None:
        return ""
    if isinstance(value, bool | int):
        return str(int(value))
    if isinstance(value, datetime):
        return str((value.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1))
    if isinstance(value, date):
        return str((value - EPOCH.date()).days)
    assert isinstance(value, str)
    return value if last else f"{len(value)}:{value}"


def stated_float(value: object) -> bytes:
    if value is None:
        return bytes.fromhex("7ff8000000000001")
    assert isinstance(value, float)
    return struct.pack(">d", math.nan if math.isnan(value) else value + 0.0)


def stated_number(row: tuple[object, ...], kinds: list[str]) -> int:
    texts: list[str] = []
    for is_float, run in groupby(range(len(row)), lambda i: kinds[i] == "float64"):
        if is_float:
            texts.append(hashlib.md5(b"".join(stated_float(row[i]) for i in run)).hexdigest())
        else:
            values = {i: "" if row[i] is None and kinds[i] == "string" else row[i] for i in run}
            texts += [stated(value, i == len(row) - 1) for i, value in values.items()]
    return int(hashlib.md5("|".join(texts).encode()).hexdigest()[::-1][-15:], 16)


def stated_ids(rows: Sequence[tuple[object, ...]], kinds: list[str]) -> list[int]:
    """The ids of rows without a key: equal ones are numbered."""
    seen, ids = Counter[int](), []
    for row in rows:
        number = stated_number(row, kinds)
        ids.append(stated_number((number, seen[number]), ["int64", "int64"]) if seen[number] else number)
        seen[number] += 1
    return ids
