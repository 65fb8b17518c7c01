"""One database for the rows of many requests: opening one takes longer than computing a row's features.

Each request, on whichever thread, has a connection of its own in it, and with it views and files that no other sees.
The SQL of a task's expressions is the same for each, and printed once.
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

from vgp.data.engines.duckdb import DuckDB, connected

#: What the rows of all requests of a moment may take.
MEMORY_BYTES = 512 << 20
#: Expressions whose SQL is kept: those of a task are tens, for each choice of columns that rows may lack.
MOST_PRINTED = 1_000


class Database:
    """The database, opened by the first request of a process; its files go with the object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Of each process that asked: a fork brings the parent's, which is not to be used, and not to be closed.
        self._roots: dict[int, tuple[duckdb.DuckDBPyConnection, str]] = {}
        self._printed: dict[ops.Node, str] = {}

    def __reduce__(self) -> tuple[object, ...]:
        """A copy opens its own."""
        return Database, ()

    @contextmanager
    def engine(self) -> Iterator[DuckDB]:
        """An engine without a source, for one request."""
        root, scratch = self._opened()
        with tempfile.TemporaryDirectory(prefix="rows-", dir=scratch) as folder, closing(root.cursor()) as connection:
            yield DuckDB(connection, Path(folder), self._printed)

    def _opened(self) -> tuple[duckdb.DuckDBPyConnection, str]:
        """The connection that keeps the database open, and the folder of its files."""
        process = os.getpid()
        with self._lock:
            if process not in self._roots:
                scratch = tempfile.mkdtemp(prefix="predict-")
                weakref.finalize(self, _remove, scratch, process)
                self._roots[process] = connected(Path(scratch), MEMORY_BYTES, 1), scratch
            if len(self._printed) > MOST_PRINTED:
                self._printed = {}
            return self._roots[process]


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
