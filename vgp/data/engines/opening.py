"""The engine of a table's source, with the source in it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from vgp.base import engine_settings as settings
from vgp.base import memory
from vgp.base.storage import storage
from vgp.base.storage.bigquery.jobs import Owner
from vgp.base.storage.pinned import PinnedRelation
from vgp.base.storage.storage import File
from vgp.data.destination import Destination
from vgp.data.engine import ID, KIND, Engine
from vgp.data.engines import choice
from vgp.data.engines.choice import Together
from vgp.data.engines.duckdb import Derived, DuckDB, Read
from vgp.data.schema import Field
from vgp.data.sources.files import Files
from vgp.data.tabular import TabularTask
from vgp.protocol import run_folder
from vgp.protocol.cluster import cores

#: What DuckDB may use, if nobody says: an eighth of the input, but this much; and at most this share of what is free.
LEAST_BYTES, INPUT_SHARE, FREE_SHARE = 512 << 20, 8, 0.6


@contextmanager
def opened(
    task: TabularTask, data: str, target: Destination, workers: int | None, derived: Derived | None = None,
    check: Callable[[TabularTask], None] = lambda task: None, kind: Sequence[str] = (),
) -> Iterator[Engine]:  # fmt: skip
    """Reads the source and checks its types.

    Args:
        target: Where the prepared dataset goes; it tells in whose name queries run.
        workers: Threads; None = as the settings say, or one per core.
        derived: More columns, which an engine may keep beside the declared ones.
        check: Raises UserError for a task that BigQuery cannot compute; called if it is to, before it is asked.
        kind: Declared columns whose number files keep as `_kind`; none = they keep none.

    Raises:
        UserError: the source is not there, or its rows are not as the task declares.
    """
    allowed = settings.engines().bigquery
    source = choice.resolved(task, data.strip() or task.default_data(), allowed)
    numbers = {ID: task.key or [field.name for field in task.schema], **({KIND: kind} if kind else {})}
    engine_name = choice.chosen(task, source)
    if source.relations:
        check_place(source.relations, target)
    if not source.relations:
        with duckdb(task, source.files, task.scratch, task.schema, workers, numbers, derived) as engine:
            yield engine
    elif engine_name == "duckdb":
        from vgp.data.engines.bigquery_source import opened_rows

        with (
            opened_rows(source.relations, task.schema, allowed, owner(target)) as rows,
            duckdb(task, source.files, task.scratch, task.schema, workers, numbers, derived, rows) as engine,
        ):
            yield engine
    else:
        from vgp.data.engines.bigquery import BigQuery

        check(task)
        with BigQuery.opened(source.relations, task.schema, allowed, owner(target)) as there:
            yield there


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
    """DuckDB with some of the declared columns of these files, and of what is read beside them. Raises as `opened`.

    Args:
        numbers: As `DuckDB.read_files`.
        derived: As `opened`.
    """
    allowed = settings.engines()
    threads = workers or allowed.workers or cores()
    with DuckDB.opened(scratch, memory_bytes(allowed.memory_gb, files), threads) as engine:
        read: Read = Files(files, task.schema, task.reading, scratch, threads=threads)
        if beside:
            read = Together(read, len(files), beside) if files else beside
        engine.read_files(read, fields, numbers, derived)
        yield engine


def check_place(relations: Sequence[PinnedRelation], target: Destination) -> None:
    """Raises UserError if the prepared rows would go to a bucket far from the tables."""
    from vgp.base.storage.bigquery import locations

    locations.check_bucket(relations, storage.uri(target.folder))


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
