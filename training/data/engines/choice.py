"""Which engine prepares a table: where its data lies decides, unless the option `engine` does."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from training import run_folder
from training.data.destination import Destination
from training.data.engines import Engine
from training.data.engines.duckdb import DuckDB, Read
from training.data.manifest import SourceFile
from training.data.settings import Engines, engines
from training.data.sources.files import Files
from training.data.tabular import TabularTask
from training.errors import UserError
from training.options import nearest
from training.storage import pinned, storage
from training.storage.bigquery import names
from training.storage.bigquery.jobs import Owner, stoppable
from training.storage.finding import File
from training.storage.pinned import PinnedRelation

ENGINES = ("duckdb", "bigquery")


@dataclass(frozen=True)
class Input:
    """What `data` stands for: files, and tables and queries of BigQuery."""

    files: Sequence[File]
    relations: Sequence[PinnedRelation]


@contextmanager
def opened(task: TabularTask, data: str, target: Destination, threads: int) -> Iterator[Engine]:
    """The engine over the task's source, which is loaded and checked.

    Raises:
        UserError: the source or the option `engine` is wrong, or they do not fit.
    """
    settings = engines()
    source = resolved(task, data.strip() or task.default_data(), settings)
    owner = _owner(target)
    if chosen(task, source) == "bigquery":
        from training.data.engines.bigquery import BigQuery

        with BigQuery.opened(source.relations, task.schema, settings.bigquery, owner) as engine:
            yield engine
        return
    with _read(task, source, settings, owner, threads) as files:
        with DuckDB.opened(task.scratch, int(settings.memory_gb * 2**30) or 600 << 20, threads) as engine:
            engine.read_files(files, task.schema)
            yield engine


def resolved(task: TabularTask, data: str, settings: Engines) -> Input:
    """Raises UserError if nothing matches, or what matches cannot be read."""
    if pinned.digest(data):
        document = pinned.of_data(data, storage.read(data, most=pinned.MOST_BYTES))
        files = task.files(data) if document.objects or document.files else ()
        return Input(files, document.relations)
    tables, rest = names.parted(data)
    if not tables:
        return Input(task.files(data), ())
    from training.storage.bigquery import client
    from training.storage.bigquery.lookup import Lookup

    relations = Lookup(client.project(settings.bigquery.project)).pinned(tables)
    return Input(task.files(rest) if rest else (), relations)


def chosen(task: TabularTask, source: Input) -> str:
    """`duckdb` or `bigquery`. Raises UserError if the option `engine` is none, or cannot read that source."""
    wanted = {**task.defaults(), **task.options}["engine"]
    if wanted and wanted not in ENGINES:
        raise UserError(f"the option engine is {wanted!r}. {nearest(str(wanted), ENGINES)}")
    if source.files and source.relations and wanted != "duckdb":
        raise UserError(
            f"the data is files ({storage.plain(source.files[0].path)}) and tables of BigQuery "
            f"({source.relations[0].name}): set the task's option engine to duckdb, so that all of it is computed "
            "here, or load the files into a table (bq load)."
        )
    if source.files and wanted == "bigquery":
        raise UserError(
            "the option engine is 'bigquery', which computes with tables there, and the data is files: leave the "
            "option out, or load them into a table (bq load)."
        )
    return wanted or ("bigquery" if source.relations else "duckdb")


@contextmanager
def _read(task: TabularTask, source: Input, settings: Engines, owner: Owner, threads: int) -> Iterator[Read]:
    """What DuckDB reads: files, rows of BigQuery, or both."""
    files = Files(source.files, task.schema, task.reading, task.scratch, threads=threads) if source.files else None
    if not source.relations:
        assert files is not None
        yield files
        return
    from training.data.engines.bigquery_source import TableRows, opened_sources

    with stoppable(), opened_sources(source.relations, task.schema, settings.bigquery, owner) as (jobs, sources):
        rows = TableRows(jobs, sources, task.schema)
        yield Both(files, rows) if files else rows


class Both:
    """Files, and after them tables of BigQuery."""

    def __init__(self, files: Files, rows: Any):
        self._files, self._rows = files, rows

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        return (*self._files.sources, *self._rows.sources)

    def batches(self) -> Iterator[pa.RecordBatch]:
        shift = len(self._files.files)
        return chain(self._files.batches(), (_shifted(batch, shift) for batch in self._rows.batches()))

    def place(self, file: int, record: int) -> str:
        count = len(self._files.files)
        return self._files.place(file, record) if file < count else str(self._rows.place(file - count, record))


def _shifted(batch: pa.RecordBatch, files: int) -> pa.RecordBatch:
    position = batch.schema.get_field_index("_file")
    numbers = pa.array([batch.column(position)[0].as_py() + files] * batch.num_rows, pa.int32())
    return batch.set_column(position, batch.schema.field(position), numbers) if batch.num_rows else batch


def _owner(target: Destination) -> Owner:
    """In whose name queries run: the run on Vertex AI, or the folder that is prepared here."""
    output = run_folder.parse(target.folder)
    return Owner(output.run, output.step) if output else Owner(str(target.folder.absolute()), "prepare")
