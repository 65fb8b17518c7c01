"""Which engine prepares a table: where its data lies decides, unless the option `engine` does."""

from collections.abc import Sequence
from dataclasses import dataclass

from training.data.settings import Engines
from training.data.tabular import TabularTask
from training.errors import UserError
from training.options import nearest
from training.storage import pinned, storage
from training.storage.bigquery import names
from training.storage.finding import File
from training.storage.pinned import PinnedRelation

ENGINES = ("duckdb", "bigquery")


@dataclass(frozen=True)
class Source:
    """What `data` stands for: files, and tables and queries of BigQuery."""

    files: Sequence[File]
    relations: Sequence[PinnedRelation]


def resolved(task: TabularTask, data: str, settings: Engines) -> Source:
    """Raises UserError if nothing matches, or what matches cannot be read."""
    if pinned.digest(data):
        document = pinned.of_data(data, storage.read(data, most=pinned.MOST_BYTES))
        files = task.files(data) if document.objects or document.files else ()
        return Source(files, document.relations)
    tables, rest = names.parted(data)
    if not tables:
        return Source(task.files(data), ())
    from training.storage.bigquery import client
    from training.storage.bigquery.lookup import Lookup

    relations = Lookup(client.project(settings.bigquery.project)).pinned(tables)
    return Source(task.files(rest) if rest else (), relations)


def chosen(task: TabularTask, source: Source) -> str:
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
