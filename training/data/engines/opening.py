"""The engine of a table's source, with the source in it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from training.data import settings
from training.data.engines import Engine
from training.data.engines.duckdb import DuckDB
from training.data.schema import Field
from training.data.sources.files import Files
from training.data.tabular import TabularTask
from training.processes import memory
from training.processes.cluster import cores
from training.storage.storage import File

#: What DuckDB may use, if nobody says: an eighth of the input, but this much; and at most this share of what is free.
LEAST_BYTES, INPUT_SHARE, FREE_SHARE = 512 << 20, 8, 0.6


@contextmanager
def opened(task: TabularTask, data: str, workers: int | None) -> Iterator[Engine]:
    """Reads the source and checks its types.

    Args:
        workers: Threads; None = as the settings say, or one per core.

    Raises:
        UserError: the source is not there, or its rows are not as the task declares.
    """
    with duckdb(task, task.files(data), task.scratch, task.schema, workers) as engine:
        yield engine


@contextmanager
def duckdb(
    task: TabularTask, files: Sequence[File], scratch: Path, fields: Sequence[Field], workers: int | None = None
) -> Iterator[DuckDB]:
    """DuckDB with some of the declared columns of these files. Raises as `opened`."""
    allowed = settings.engines()
    threads = workers or allowed.workers or cores()
    with DuckDB.opened(scratch, memory_bytes(allowed.memory_gb, files), threads) as engine:
        read = Files(files, task.schema, task.reading, scratch, threads=threads)
        engine.read_files(read, fields, [name for name in task.key if name in {field.name for field in fields}])
        yield engine


def memory_bytes(gb: float, files: Sequence[File]) -> int:
    """What the settings say, else by the size of the input."""
    if gb:
        return int(gb * 2**30)
    wanted = max(LEAST_BYTES, sum(file.bytes for file in files) // INPUT_SHARE)
    return min(wanted, int(FREE_SHARE * memory.free_bytes()))
