"""The engine of a table's source, with the source in it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from training.data import settings
from training.data.engines import Engine
from training.data.engines.duckdb import DuckDB
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
    allowed = settings.engines()
    threads = workers or allowed.workers or cores()
    files = task.files(data)
    with DuckDB.opened(task.scratch, memory_bytes(allowed.memory_gb, files), threads) as engine:
        engine.read_files(Files(files, task.schema, task.reading, task.scratch, threads=threads), task.schema)
        yield engine


def memory_bytes(gb: float, files: Sequence[File]) -> int:
    """What the settings say, else by the size of the input."""
    if gb:
        return int(gb * 2**30)
    wanted = max(LEAST_BYTES, sum(file.bytes for file in files) // INPUT_SHARE)
    return min(wanted, int(FREE_SHARE * memory.free_bytes()))
