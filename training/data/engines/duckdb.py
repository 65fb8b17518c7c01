"""DuckDB, in this process: what is larger than its memory goes to the disk of the scratch folder.

Files are read by `training.data.sources`, strictly and with their places; DuckDB only computes. It opens no file
itself, loads no extension and asks nobody: an expression cannot make it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from training.data.engines import PLACE, SOURCE, canonical
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

    def batches(self) -> Iterator[pa.RecordBatch]: ...

    def place(self, file: int, record: int) -> str: ...


class DuckDB:
    """A database in memory and on scratch disk; see `training.data.engines.Engine`."""

    dialect = "duckdb"

    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self._connection = connection
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
            connection.execute("SET enable_external_access = false; SET lock_configuration = true")
            yield cls(connection)
        finally:
            connection.close()

    @property
    def sources(self) -> "tuple[SourceFile, ...]":
        return self._files.sources if self._files else ()

    @property
    def notes(self) -> tuple[str, ...]:
        return self._files.notes if self._files else ()

    def read_files(self, files: Read, fields: Sequence[Field]) -> None:
        """Reads the files into the source. Raises UserError as they do."""
        kinds = canonical.schema(fields)
        self.load("stored", map(_plain, files.batches()))
        columns = [f"{_cast(name, str(kind))} AS {_quoted(name)}" for name, kind in kinds.items()]
        columns += [f'"{name}"::BIGINT AS "{name}"' for name in PLACE]
        self._run(f'CREATE TEMP VIEW "{SOURCE}" AS SELECT {", ".join(columns)} FROM "stored"')
        self._files = files
        self._source = ibis.table(ibis.schema({**kinds, **dict.fromkeys(PLACE, "int64")}), name=SOURCE)

    def load(self, name: str, batches: Iterable[pa.RecordBatch], order_by: Sequence[str] = ()) -> None:
        """Keeps the batches, of which there is at least one, as the table `name`; raises what they raise."""
        remaining, errors = iter(batches), list[BaseException]()
        first = next(remaining)

        def kept() -> Iterator[pa.RecordBatch]:
            try:
                yield first
                yield from remaining
            except BaseException as error:  # DuckDB would pass on its text only
                errors.append(error)
                raise

        order = f" ORDER BY {', '.join(map(_quoted, order_by))}" if order_by else ""
        incoming = pa.RecordBatchReader.from_batches(first.schema, kept())
        self._connection.register("incoming", incoming)
        try:
            self._run(f'CREATE TEMP TABLE {_quoted(name)} AS SELECT * FROM "incoming"{order}')
        except Exception:
            if errors:
                raise errors[0] from None
            raise
        finally:
            self._connection.unregister("incoming")

    def source(self) -> ir.Table:
        assert self._source is not None, "no files were read"
        return self._source

    def create(self, name: str, expression: ir.Table) -> ir.Table:
        self._run(f"CREATE TEMP TABLE {_quoted(name)} AS {_sql(expression)}")
        return ibis.table(expression.schema(), name=name)

    def drop(self, name: str) -> None:
        self._run(f"DROP TABLE {_quoted(name)}")

    def read(self, expression: ir.Table) -> pa.Table:
        with _errors_named():
            return self._connection.sql(_sql(expression)).to_arrow_table()

    def batches(self, expression: ir.Table, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        with _errors_named():
            yield from self._connection.sql(_sql(expression)).to_arrow_reader(rows)

    def place(self, row: Mapping[str, Any]) -> str:
        assert self._files is not None, "no files were read"
        return self._files.place(row["_file"], row["_record"])

    def _run(self, sql: str) -> None:
        with _errors_named():
            self._connection.execute(sql)


def _sql(expression: ir.Table) -> str:
    return str(ibis.to_sql(expression, dialect="duckdb"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


#: What DuckDB calls the canonical types. A moment in UTC is kept without its zone, which costs a conversion each time.
_NAMES = {"int64": "BIGINT", "float64": "DOUBLE"}


def _cast(name: str, kind: str) -> str:
    return f"{_quoted(name)}::{_NAMES[kind]}" if kind in _NAMES else _quoted(name)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in types that DuckDB stores without a conversion of its own, and strings without nulls."""
    columns = [_plain_column(column) for column in batch.columns]
    return pa.record_batch(columns, names=batch.schema.names)


def _plain_column(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us"), safe=False)
    if pa.types.is_dictionary(kind):
        return _plain_column(column.cast(kind.value_type))
    if column.null_count and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return pc.fill_null(column, "")
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    return column.cast(pa.date32()) if pa.types.is_date64(kind) else column


@contextmanager
def _errors_named() -> Iterator[None]:
    """Raises UserError for what DuckDB refuses."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise UserError(
            f"DuckDB needs more memory or scratch disk than it may use: {_first_line(error)} Give it more (memory_gb), "
            "or set TMPDIR to a larger disk."
        ) from None
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise UserError(f"DuckDB cannot compute that: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
