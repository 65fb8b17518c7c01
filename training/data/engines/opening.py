"""The engine of a table's source, with the source in it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from training import run_folder
from training.data import settings
from training.data.destination import Destination
from training.data.engines import Engine, choice
from training.data.engines.choice import Source
from training.data.engines.duckdb import DuckDB, Read
from training.data.settings import Engines
from training.data.sources.files import Files
from training.data.tabular import TabularTask
from training.processes import memory
from training.processes.cluster import cores
from training.storage.bigquery.jobs import Owner
from training.storage.storage import File

#: What DuckDB may use, if nobody says: an eighth of the input, but this much; and at most this share of what is free.
LEAST_BYTES, INPUT_SHARE, FREE_SHARE = 512 << 20, 8, 0.6


@contextmanager
def opened(task: TabularTask, data: str, target: Destination, workers: int | None) -> Iterator[Engine]:
    """Reads the source and checks its types.

    Args:
        target: Where the prepared dataset goes; it tells in whose name queries run.
        workers: Threads; None = as the settings say, or one per core.

    Raises:
        UserError: the source is not there, or its rows are not as the task declares.
    """
    allowed = settings.engines()
    threads = workers or allowed.workers or cores()
    source = choice.resolved(task, data.strip() or task.default_data(), allowed)
    if choice.chosen(task, source) == "bigquery":
        from training.data.engines.bigquery import BigQuery

        with BigQuery.opened(source.relations, task.schema, allowed.bigquery, owner(target)) as engine:
            yield engine
        return
    memory_limit = memory_bytes(allowed.memory_gb, source.files)
    with (
        _read(task, source, allowed, target, threads) as rows,
        DuckDB.opened(task.scratch, memory_limit, threads) as database,
    ):
        database.read_files(rows, task.schema)
        yield database


@contextmanager
def _read(task: TabularTask, source: Source, allowed: Engines, target: Destination, threads: int) -> Iterator[Read]:
    """What DuckDB reads: files, rows of BigQuery, or both."""
    files = Files(source.files, task.schema, task.reading, task.scratch, threads=threads)
    if not source.relations:
        yield files
        return
    from training.data.engines.bigquery_source import Together, opened_rows

    with opened_rows(source.relations, task.schema, allowed.bigquery, owner(target)) as rows:
        yield Together(files, rows) if source.files else rows


def owner(target: Destination) -> Owner:
    """In whose name queries run: the run on Vertex AI, or the folder that is prepared here."""
    output = run_folder.parse(target.folder)
    return Owner(output.run, output.step) if output else Owner(str(target.folder.absolute()), "prepare")


def memory_bytes(gb: float, files: Sequence[File]) -> int:
    """What the settings say, else by the size of the input."""
    if gb:
        return int(gb * 2**30)
    wanted = max(LEAST_BYTES, sum(file.bytes for file in files) // INPUT_SHARE)
    return min(wanted, int(FREE_SHARE * memory.free_bytes()))
