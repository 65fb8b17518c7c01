"""Which engine prepares a table: where its data lies decides, unless the option `engine` does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.engine_settings import BigQuery
from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.base.storage.bigquery import names
from vgp.base.storage.finding import File
from vgp.base.storage.pinned import PinnedRelation
from vgp.base.text.nearest import did_you_mean
from vgp.data.engines.duckdb import Read
from vgp.data.tabular import TabularTask
from vgp.protocol.manifest import SourceFile

ENGINES = ("duckdb", "bigquery")


@dataclass(frozen=True)
class Source:
    """What `data` stands for: files, and tables and queries of BigQuery."""

    files: Sequence[File]
    relations: Sequence[PinnedRelation]


def resolved(task: TabularTask, data: str, allowed: BigQuery) -> Source:
    """Raises UserError if nothing matches, or what matches cannot be read."""
    if pinned.digest(data):
        document = pinned.of_data(data, storage.read(data, most=pinned.MOST_BYTES))
        files = task.files(data) if document.objects or document.files else ()
        return Source(files, document.relations)
    tables, rest = names.parted(data)
    if not tables:
        return Source(task.files(data), ())
    from vgp.base.storage.bigquery import client
    from vgp.base.storage.bigquery.lookup import Lookup

    relations = Lookup(client.project(allowed.project)).pinned(tables)
    return Source(task.files(rest) if rest else (), relations)


def chosen(task: TabularTask, source: Source) -> str:
    """`duckdb` or `bigquery`. Raises UserError if the option `engine` is none, or cannot read that source."""
    wanted = task.engine
    if wanted and wanted not in ENGINES:
        raise UserError(f"the option engine is {wanted!r}. {did_you_mean(wanted, ENGINES)}")
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


class Together:
    """Files, and beside them tables of BigQuery, as one source."""

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
        beside = file - self._count
        return self._files.place(file, record) if beside < 0 else self._rows.place(beside, record)
