"""A DuckDB database that all requests share, because opening one takes longer than computing the features of a row.

Each request has its own connection, with its own views and files. The SQL of a task's expressions is cached.
"""

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import ibis.expr.operations as ops

from vgp.data.engines.duckdb import DuckDB, connect

#: Memory limit for the rows of all concurrent requests.
MEMORY_BYTES = 512 << 20
#: Maximum of cached expressions: a task has tens, for each set of missing columns.
MOST_PRINTED = 1_000


class Database:
    """The database, opened by the first request of a process; its files are removed with the object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Connections by process: a forked process must neither use nor close those of its parent.
        self._roots: dict[int, tuple[duckdb.DuckDBPyConnection, str]] = {}
        self._printed: dict[ops.Node, str] = {}

    def __reduce__(self) -> tuple[object, ...]:
        """Copies open their own database."""
        return Database, ()

    @contextmanager
    def engine(self) -> Iterator[DuckDB]:
        """Yields an engine without a source, for one request."""
        root, scratch = self._connect()
        with tempfile.TemporaryDirectory(prefix="rows-", dir=scratch) as folder, closing(root.cursor()) as connection:
            yield DuckDB(connection, Path(folder), self._printed)

    def _connect(self) -> tuple[duckdb.DuckDBPyConnection, str]:
        """Returns the connection that keeps the database open, and the folder of its files."""
        process = os.getpid()
        with self._lock:
            if process not in self._roots:
                scratch = tempfile.mkdtemp(prefix="predict-")
                weakref.finalize(self, _remove, scratch, process)
                self._roots[process] = connect(Path(scratch), MEMORY_BYTES, 1), scratch
            if len(self._printed) > MOST_PRINTED:
                self._printed = {}
            return self._roots[process]


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
