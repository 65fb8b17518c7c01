"""Stages of long work on stderr: a line that moves on a terminal, else one now and then, as in a log."""

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from vgp.data import pool


@dataclass
class Stage:
    title: str
    #: Rows that are done, and how many there will be; 0 = unknown.
    rows: int = 0
    total: int = 0

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Passes the batches on."""
        for batch in batches:
            yield batch
            self.rows += batch.num_rows

    def __str__(self) -> str:
        of = f" of {self.total:,}" if self.total else ""
        return f"{self.title}: {self.rows:,}{of} rows" if self.rows else self.title


@contextmanager
def stage(title: str) -> Iterator[Stage]:
    """Shows that the stage goes on, for as long as it does."""
    work = Stage(title)
    show = _on_terminal if sys.stderr.isatty() else _in_log
    ended = threading.Event()
    shown = threading.Thread(target=show, args=(work, ended), daemon=True)
    shown.start()
    try:
        yield work
    finally:
        ended.set()
        shown.join()


def _on_terminal(work: Stage, ended: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task(work.title, total=None)
        while not ended.wait(0.2):
            line.update(task, description=str(work))


def _in_log(work: Stage, ended: threading.Event) -> None:
    started = time.monotonic()
    while not ended.wait(pool.LINE_EVERY_S):
        print(f"{work} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)
