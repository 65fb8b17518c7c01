"""DuckDB, in this process: what is larger than its memory goes to the disk of the scratch folder.

Files are read by `training.data.sources`, strictly and with their places, and stored in one that DuckDB reads. It opens
no file outside the scratch folder, loads no extension and asks nobody: an expression cannot make it.
"""

import glob
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa

from training.data.engines import ID, PLACE, SOURCE, Uncomputable, canonical
from training.data.engines.stored import store
from training.data.identity import numbered
from training.data.schema import Field
from training.errors import UserError

if TYPE_CHECKING:
    from training.data.manifest import SourceFile

#: Rows of a batch that is read: small, so that a batch costs little memory.
BATCH_ROWS = 1 << 16


class Read(Protocol):
    """Files that are read: `training.data.sources.Files`."""

    @property
    def sources(self) -> "tuple[SourceFile, ...]": ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]: ...

    def place(self, file: int, record: int) -> str: ...


class DuckDB:
    """A database in memory and on scratch disk; see `training.data.engines.Engine`."""

    dialect = "duckdb"

    def __init__(self, connection: duckdb.DuckDBPyConnection, scratch: Path):
        self._connection, self._scratch = connection, scratch
        self._files: Read | None = None
        self._source: ir.Table | None = None

    @classmethod
    @contextmanager
    def opened(cls, scratch: Path, memory_bytes: int, threads: int) -> Iterator["DuckDB"]:
        connection = duckdb.connect(
            config={
                "memory_limit": f"{memory_bytes >> 20}MiB",
                "threads": threads,
                "temp_directory": str(scratch / "spill"),
            }
        )
        try:
            connection.execute("SET autoinstall_known_extensions = false; SET autoload_known_extensions = false")
            connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
            connection.execute("SET allowed_directories = [?]", [f"{scratch}/"])
            connection.execute("SET enable_external_access = false; SET lock_configuration = true")
            yield cls(connection, scratch)
        finally:
            connection.close()

    @property
    def sources(self) -> "tuple[SourceFile, ...]":
        return self._files.sources if self._files else ()

    @property
    def notes(self) -> tuple[str, ...]:
        return self._files.notes if self._files else ()

    def read_files(self, files: Read, fields: Sequence[Field], key: Sequence[str] = ()) -> None:
        """Reads columns of the files into the source.

        Args:
            key: Columns by which rows are numbered, in `_row_id`; none = they are not.

        Raises:
            UserError: as the files do.
        """
        kinds, path = canonical.schema(fields), self._scratch / "source.parquet"
        columns = [f"{_cast(name, str(kind))} AS {_quoted(name)}" for name, kind in kinds.items()]
        batches = files.batches([field.name for field in fields])
        typed = f'WITH "typed" AS (SELECT {", ".join(columns)} FROM "batch")'
        ids = numbered(ibis.table(kinds, name="typed"), key, self.dialect, ID).select(ID) if key else None
        store(batches, path, {} if ids is None else {ID: partial(self._numbers, f"{typed} {_sql(ids)}")})
        own = dict.fromkeys((*PLACE, ID) if key else PLACE, "int64")
        columns += [f'"{name}"::BIGINT AS "{name}"' for name in own]
        self._run(f'CREATE TEMP VIEW "{SOURCE}" AS SELECT {", ".join(columns)} FROM read_parquet({_file(path)})')
        self._files = files
        self._source = ibis.table(ibis.schema({**kinds, **own}), name=SOURCE)

    def _numbers(self, sql: str, batch: pa.RecordBatch) -> pa.ChunkedArray:
        """The rows' numbers, in the order of the batch, which one thread reads."""
        self._connection.register("batch", batch)
        try:
            return self._read(sql)[ID]
        finally:
            self._connection.unregister("batch")

    def source(self) -> ir.Table:
        assert self._source is not None, "no files were read"
        return self._source

    def create(self, name: str, expression: ir.Table) -> ir.Table:
        self._run(f"CREATE TEMP TABLE {_quoted(name)} AS {_sql(expression)}")
        return ibis.table(expression.schema(), name=name)

    def read(self, expression: ir.Table) -> pa.Table:
        return self._read(_sql(expression))

    def _read(self, sql: str) -> pa.Table:
        with _errors_named():
            return self._connection.sql(sql).to_arrow_table()

    def batches(self, expression: ir.Table, rows: int = BATCH_ROWS) -> Generator[pa.RecordBatch]:
        with _errors_named():
            yield from self._connection.sql(_sql(expression)).to_arrow_reader(rows)

    def place(self, row: Mapping[str, Any]) -> str:
        assert self._files is not None, "no files were read"
        return self._files.place(row["_file"], row["_record"])

    def _run(self, sql: str) -> None:
        with _errors_named():
            self._connection.execute(sql)


def _sql(expression: ir.Table) -> str:
    try:
        return str(ibis.to_sql(expression, dialect="duckdb"))
    except ibis.IbisError as error:
        raise Uncomputable(f"DuckDB cannot compute that: {_first_line(error)}", _first_line(error)) from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


#: What DuckDB calls the canonical types. A moment in UTC is kept without its zone, which costs a conversion each time.
_NAMES = {"int64": "BIGINT", "float64": "DOUBLE"}


def _cast(name: str, kind: str) -> str:
    return f"{_quoted(name)}::{_NAMES[kind]}" if kind in _NAMES else _quoted(name)


def _file(path: Path) -> str:
    """The path as `read_parquet` takes it, to which `*`, `?` and `[` are patterns."""
    return "'" + glob.escape(str(path)).replace("'", "''") + "'"


@contextmanager
def _errors_named() -> Iterator[None]:
    """Raises UserError for what DuckDB refuses."""
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise UserError(
            f"DuckDB needs more memory or scratch disk than it may use: {_first_line(error)} Give it more (memory_gb), "
            "or set TMPDIR to a larger disk."
        ) from None
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise Uncomputable(f"DuckDB cannot compute that: {_first_line(error)}", _first_line(error)) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
