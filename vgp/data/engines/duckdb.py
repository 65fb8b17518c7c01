"""DuckDB as an engine in this process, which spills data larger than its memory to the scratch folder.

`vgp.data.sources` reads the files, strictly and with the place of each row, into one Parquet file for DuckDB. No
expression can make DuckDB open a file outside the scratch folder, load an extension or use the network.
"""

import glob
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import duckdb
import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vgp.base.exits import UserError
from vgp.data.engine import PLACE, SOURCE, Row, Uncomputable, query_repeated_values
from vgp.data.engines.row_store import store
from vgp.data.events import FIGURES, Events, compute_window_sums, sum_windows
from vgp.data.identity import number, register_float_bytes
from vgp.data.schema import Field, arrow_schema, canonical_schema

if TYPE_CHECKING:
    from vgp.protocol.manifest import SourceFile

#: Rows of a batch of results: small, so that a batch takes little memory.
BATCH_ROWS = 1 << 16
#: Rows of a batch of sums by place and hour.
SUMS_ROWS = 1 << 20
#: The most numbers to sort in memory, in a fifth of the time that counting in groups on disk takes.
MOST_SORTED = 1 << 25

#: The share of distinct rows below which counting equal rows first saves work.
FEW = 0.5

#: A function from the declared columns and the SQL dialect to more columns by name.
Derived = Callable[[ir.Table, str], Mapping[str, ir.Value]]


class Read(Protocol):
    """A source of rows, such as `vgp.data.sources.table_files.Files`."""

    @property
    def sources(self) -> "tuple[SourceFile, ...]": ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]: ...

    def place(self, file: int, record: int) -> str: ...


class DuckDB:
    """A database in memory and on scratch disk; see `vgp.data.engine.Engine`."""

    dialect = "duckdb"

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, scratch: Path, printed: dict[ops.Node, str] | None = None
    ):
        self._connection, self._scratch = connection, scratch
        self._files: Read | None = None
        self._rows = 0
        self._source: ir.Table | None = None
        #: A cache of the SQL of expressions: printing it takes longer than running it on small data.
        self._printed = dict[ops.Node, str]() if printed is None else printed
        self._stored = count()

    @classmethod
    @contextmanager
    def open(cls, scratch: Path, memory_bytes: int, threads: int) -> Iterator["DuckDB"]:
        connection = connect(scratch, memory_bytes, threads)
        try:
            yield cls(connection, scratch)
        finally:
            connection.close()

    @property
    def sources(self) -> "tuple[SourceFile, ...]":
        return self._files.sources if self._files else ()

    @property
    def notes(self) -> tuple[str, ...]:
        return self._files.notes if self._files else ()

    def read_files(
        self,
        files: Read,
        fields: Sequence[Field],
        numbers: Mapping[str, Sequence[str]] = MappingProxyType({}),
        derived: Derived | None = None,
    ) -> None:
        """Reads columns of the files into the source.

        Args:
            numbers: Additional columns of row numbers, such as `_row_id`, and the columns that each number identifies.
            derived: Additional expressions, stored too if each depends on its row alone.

        Raises:
            UserError: A file cannot be read, or its rows do not fit the fields.
        """
        kinds, path = canonical_schema(fields), self._scratch / "source.parquet"
        columns = [f"{_cast(name, str(kind))} AS {_quote(name)}" for name, kind in kinds.items()]
        present = {*(field.name for field in fields if not field.nullable or kinds[field.name].is_string())}
        present |= {*PLACE, *numbers}
        batches = files.batches([field.name for field in fields])
        typed = ibis.table(kinds, name="typed")
        values = derived(typed, self.dialect) if derived else {}
        more = {name: value for name, value in values.items() if rowwise(value)}
        numbered = {name: number(typed, deciding) for name, deciding in numbers.items()}
        computed = typed.select(**more, **numbered) if more or numbered else typed.drop(*kinds)
        sql = f'WITH "typed" AS (SELECT {", ".join(columns)} FROM "batch") {_sql(computed)}' if computed.columns else ""
        try:
            if sql:  # as a view, which is parsed once; parsing it for every batch would take a seventh of the time
                self._connection.register("batch", arrow_schema(kinds).empty_table())
                self._run(f'CREATE OR REPLACE TEMP VIEW "derived" AS {sql}')
            store(batches, path, partial(self._derive, 'FROM "derived"') if sql else None, present)
        except Uncomputable:
            if not more:
                raise
            # The caller finds the wrong expression and row in stored rows.
            return self.read_files(files, fields, numbers)
        extra = {**dict.fromkeys(PLACE, "int64"), **computed.schema()}
        columns += [f"{_cast(name, str(kind))} AS {_quote(name)}" for name, kind in extra.items()]
        self._run(f'CREATE TEMP VIEW "{SOURCE}" AS SELECT {", ".join(columns)} FROM read_parquet({_quote_path(path)})')
        self._files, self._rows = files, pq.read_metadata(path).num_rows
        self._source = ibis.table(ibis.schema({**kinds, **extra}), name=SOURCE)

    def _derive(self, sql: str, batch: pa.RecordBatch) -> pa.Table:
        """Runs the query over a batch; the result has the batch's order, because one thread reads the batch."""
        self._connection.register("batch", batch)
        try:
            return self._read(sql)
        finally:
            self._connection.unregister("batch")

    def source(self) -> ir.Table:
        assert self._source is not None, "no files were read"
        return self._source

    def create(self, name: str, expression: ir.Table) -> ir.Table:
        self._run(f"CREATE OR REPLACE TEMP TABLE {_quote(name)} AS {self._sql(expression)}")
        return ibis.table(expression.schema(), name=name)

    def create_view(self, name: str, expression: ir.Table) -> ir.Table:
        self._run(f"CREATE OR REPLACE TEMP VIEW {_quote(name)} AS {self._sql(expression)}")
        return ibis.table(expression.schema(), name=name)

    def create_window_sums(self, name: str, sums: ir.Table, events: Events) -> ir.Table:
        places = [_quote(by) for by in events.by]
        figures = ", ".join(f'"{figure}"::BIGINT AS "{figure}"' for figure in FIGURES)
        condition = " AND ".join(f"{place} IS NOT NULL" for place in places)
        order = ", ".join([*places, "_hour"])
        sql = f"SELECT {order}, {figures} FROM ({self._sql(sums)}) WHERE {condition} ORDER BY {order}"
        rows = compute_window_sums(self._read_batches(sql, SUMS_ROWS), name, events)
        if (first := next(rows, None)) is None:
            return self.create(f"{name}_none", sum_windows(sums, name, events))
        path, view = self._scratch / f"lately-{next(self._stored)}.parquet", f"{name}_lately"
        store(chain([first], rows), path)
        self._run(f"CREATE OR REPLACE TEMP VIEW {_quote(view)} AS SELECT * FROM read_parquet({_quote_path(path)})")
        kinds = {f"_{name}_{i}": sums[by].type() for i, by in enumerate(events.by)}
        windows = dict.fromkeys(first.schema.names[len(kinds) + 1 :], "float64")
        return ibis.table(ibis.schema({**kinds, f"_{name}_hour": "int64", **windows}), name=view)

    def read(self, expression: ir.Table) -> pa.Table:
        return self._read(self._sql(expression))

    def has_few_values(self, rows: ir.Table, columns: Sequence[str]) -> bool:
        distinct = ibis.struct({name: rows[name] for name in columns}).approx_nunique()
        (counts,) = self.read(rows.agg(distinct=distinct, rows=rows.count())).to_pylist()
        return bool(counts["distinct"] < FEW * counts["rows"])

    def find_repeated_values(self, rows: ir.Table, column: str, most: int) -> list[int]:
        if self._rows > MOST_SORTED:
            return list(self.read(query_repeated_values(rows, column, most))[column].to_pylist())
        chunks = self.read(rows.select(column))[column].chunks
        values = np.concatenate([np.zeros(0, np.int64), *map(np.asarray, chunks)])
        values.sort()  # in place, to save memory
        return list(np.unique(values[1:][values[1:] == values[:-1]])[:most].tolist())

    def _read(self, sql: str) -> pa.Table:
        with _explaining_errors():
            return self._connection.sql(sql).to_arrow_table()

    def batches(self, expression: ir.Table, rows: int = BATCH_ROWS) -> Generator[pa.RecordBatch]:
        yield from self._read_batches(self._sql(expression), rows)

    def _read_batches(self, sql: str, rows: int) -> Generator[pa.RecordBatch]:
        with _explaining_errors():
            yield from self._connection.sql(sql).to_arrow_reader(rows)

    def place(self, row: Row) -> str:
        assert self._files is not None, "no files were read"
        return self._files.place(row["_file"], row["_record"])

    def _sql(self, expression: ir.Table) -> str:
        operation = expression.op()
        if operation not in self._printed:
            self._printed[operation] = _sql(expression)
        return self._printed[operation]

    def _run(self, sql: str) -> None:
        with _explaining_errors():
            self._connection.execute(sql)


def connect(scratch: Path, memory_bytes: int, threads: int) -> duckdb.DuckDBPyConnection:
    """Opens a new database with its files in the scratch folder; its limits hold for each of its connections."""
    limit, spill = f"{memory_bytes >> 20}MiB", str(scratch / "spill")
    connection = duckdb.connect(config={"memory_limit": limit, "threads": threads, "temp_directory": spill})
    try:
        connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
        connection.execute("SET GLOBAL TimeZone = 'UTC'; SET enable_progress_bar = false")
        register_float_bytes(connection)
        connection.execute("SET allowed_directories = [?]", [f"{scratch}/"])
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection


def rowwise(value: ir.Value) -> bool:
    """Returns whether the value of a row depends on that row alone."""
    others = (ops.WindowFunction, ops.Reduction, ops.Analytic, ops.Subquery, ops.Unnest)
    return not value.op().find(others) and len(value.op().find(ops.Relation)) <= 1


def _sql(expression: ir.Table) -> str:
    try:
        return str(ibis.to_sql(expression, dialect="duckdb"))
    except ibis.IbisError as error:
        raise Uncomputable(f"DuckDB cannot compute that: {_read_first_line(error)}", _read_first_line(error)) from None


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


#: DuckDB's names for canonical types that need a cast. Timestamps in UTC are stored without their zone, which would
#: cost a conversion at each use.
_NAMES = {"int64": "BIGINT", "float64": "DOUBLE"}


def _cast(name: str, kind: str) -> str:
    return f"{_quote(name)}::{_NAMES[kind]}" if kind in _NAMES else _quote(name)


def _quote_path(path: Path) -> str:
    """Returns the path as an SQL text for `read_parquet`, with `*`, `?` and `[` escaped."""
    return "'" + glob.escape(str(path)).replace("'", "''") + "'"


@contextmanager
def _explaining_errors() -> Iterator[None]:
    """Turns errors of DuckDB into UserErrors."""
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise UserError(
            f"DuckDB needs more memory or scratch disk than it may use: {_read_first_line(error)} Raise memory_gb, or "
            "set TMPDIR to a larger disk."
        ) from None
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise Uncomputable(f"DuckDB cannot compute that: {_read_first_line(error)}", _read_first_line(error)) from None


def _read_first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
