"""Chooses the engine for a table, by its source or the option `engine`, and opens it with the source in it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from vgp.base import engine_settings as settings
from vgp.base import memory
from vgp.base.engine_settings import BigQuery
from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.base.storage.bigquery import names
from vgp.base.storage.bigquery.jobs import Owner
from vgp.base.storage.pinned import PinnedRelation
from vgp.base.storage.storage import File
from vgp.base.text.nearest import did_you_mean
from vgp.data.destination import Destination
from vgp.data.engine import ID, KIND, Engine
from vgp.data.engines.duckdb import Derived, DuckDB, Read
from vgp.data.schema import Field
from vgp.data.sources.table_files import Files
from vgp.data.tabular import TabularTask
from vgp.protocol import run_folder
from vgp.protocol.cluster import cores
from vgp.protocol.manifest import SourceFile

ENGINES = ("duckdb", "bigquery")


@dataclass(frozen=True)
class Source:
    """The files, and the tables and queries of BigQuery, that `data` names."""

    files: Sequence[File]
    relations: Sequence[PinnedRelation]


def resolve_source(task: TabularTask, data: str, allowed: BigQuery) -> Source:
    """Returns the source that `data` names. Raises UserError if nothing matches, or a match cannot be read."""
    if pinned.read_digest(data):
        document = pinned.parse_data_pins(data, storage.read(data, most=pinned.MOST_BYTES))
        files = task.files(data) if document.objects or document.files else ()
        return Source(files, document.relations)
    tables, rest = names.split_bigquery(data)
    if not tables:
        return Source(task.files(data), ())
    from vgp.base.storage.bigquery import client
    from vgp.base.storage.bigquery.lookup import Lookup

    relations = Lookup(client.project(allowed.project)).pin(tables)
    return Source(task.files(rest) if rest else (), relations)


def choose_engine(task: TabularTask, source: Source) -> str:
    """Returns `duckdb` or `bigquery`. Raises UserError if the option `engine` is wrong, or cannot read the source."""
    engine = task.engine
    if engine and engine not in ENGINES:
        raise UserError(f"the option engine is {engine!r}. {did_you_mean(engine, ENGINES)}")
    if source.files and source.relations and engine != "duckdb":
        raise UserError(
            f"the data is files ({storage.plain(source.files[0].path)}) and tables of BigQuery "
            f"({source.relations[0].name}): set the task's option engine to duckdb to compute all of it here, or load "
            "the files into a table (bq load)."
        )
    if source.files and engine == "bigquery":
        raise UserError(
            "the option engine is 'bigquery', which cannot read files: leave the option out, or load the files into a "
            "table (bq load)."
        )
    return engine or ("bigquery" if source.relations else "duckdb")


class CombinedRows:
    """A source of files and of tables of BigQuery."""

    def __init__(self, files: Read, count: int, rows: Read):
        self._files, self._count, self._rows = files, count, rows

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        return (*self._files.sources, *self._rows.sources)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._files.notes, *self._rows.notes)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        yield from self._files.batches(columns)
        for batch in self._rows.batches(columns):
            position = batch.schema.get_field_index("_file")
            numbers = pc.add(batch.column(position), pa.scalar(self._count, pa.int32()))
            yield batch.set_column(position, batch.schema.field(position), numbers)

    def place(self, file: int, record: int) -> str:
        table = file - self._count
        return self._files.place(file, record) if table < 0 else self._rows.place(table, record)


#: DuckDB's default memory: an eighth of the input, at least LEAST_BYTES, at most a share of the free memory.
LEAST_BYTES, INPUT_SHARE, FREE_SHARE = 512 << 20, 8, 0.6


@contextmanager
def open_engine(
    task: TabularTask, data: str, target: Destination, workers: int | None, derived: Derived | None = None,
    check: Callable[[TabularTask], None] = lambda task: None, kind: Sequence[str] = (),
) -> Iterator[Engine]:  # fmt: skip
    """Opens the engine, reads the source and checks its types.

    Args:
        target: The output folder, which also decides the owner of queries.
        workers: Threads; None = the setting, or one per core.
        derived: Additional columns that the engine may store beside the declared ones.
        check: Raises UserError for a task that BigQuery cannot compute; called only before BigQuery is opened.
        kind: Declared columns whose number a source of files stores as `_kind`; () = none.

    Raises:
        UserError: The source does not exist, its rows do not fit the declaration, or the output is in a bucket far from
            the tables.
    """
    allowed = settings.engines().bigquery
    source = resolve_source(task, data.strip() or task.default_data(), allowed)
    numbers = {ID: task.key or [field.name for field in task.schema], **({KIND: kind} if kind else {})}
    engine_name = choose_engine(task, source)
    names.check_bucket(source.relations, storage.uri(target.folder))
    if not source.relations:
        with duckdb(task, source.files, task.scratch, task.schema, workers, numbers, derived) as engine:
            yield engine
    elif engine_name == "duckdb":
        from vgp.data.engines.bigquery_source import open_table_rows

        with (
            open_table_rows(source.relations, task.schema, allowed, owner(target)) as rows,
            duckdb(task, source.files, task.scratch, task.schema, workers, numbers, derived, rows) as engine,
        ):
            yield engine
    else:
        from vgp.data.engines.bigquery import BigQuery

        check(task)
        with BigQuery.open(source.relations, task.schema, allowed, owner(target)) as bigquery:
            yield bigquery


@contextmanager
def duckdb(
    task: TabularTask,
    files: Sequence[File],
    scratch: Path,
    fields: Sequence[Field],
    workers: int | None = None,
    numbers: Mapping[str, Sequence[str]] = MappingProxyType({}),
    derived: Derived | None = None,
    beside: Read | None = None,
) -> Iterator[DuckDB]:
    """Opens DuckDB with some of the declared columns of these files, and of the rows in `beside`.

    `DuckDB.read_files` describes `numbers` and `derived`. Raises the errors of `open_engine`.
    """
    allowed = settings.engines()
    threads = workers or allowed.workers or cores()
    with DuckDB.open(scratch, memory_bytes(allowed.memory_gb, files), threads) as engine:
        read: Read = Files(files, task.schema, task.reading, scratch, threads=threads)
        if beside:
            read = CombinedRows(read, len(files), beside) if files else beside
        engine.read_files(read, fields, numbers, derived)
        yield engine


def owner(target: Destination) -> Owner:
    """Returns the owner of queries: the run on Vertex AI, or the local output folder."""
    output = run_folder.parse(target.folder)
    return Owner(output.run, output.step) if output else Owner(str(target.folder.absolute()), "prepare")


def memory_bytes(gb: float, files: Sequence[File]) -> int:
    """Returns DuckDB's memory: the setting `gb`, or if it is 0 a default by the size of the input."""
    if gb:
        return int(gb * 2**30)
    size = max(LEAST_BYTES, sum(file.bytes for file in files) // INPUT_SHARE)
    return min(size, int(FREE_SHARE * memory.free_bytes()))
