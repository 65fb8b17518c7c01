"""Work on many shards in a pool of processes, and the progress of long work on stderr."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Generic, TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from vgp.base.exits import UserError
from vgp.data import place
from vgp.protocol.cluster import cores

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")

#: With fewer shards for each, starting a process takes longer than it saves.
SHARDS_PER_WORKER = 4
#: Between two lines of progress where there is no terminal, as in a log.
LINE_EVERY_S = 10.0
#: How long the end of a pool's processes is waited for, once one was killed.
ENDS_WITHIN_S = 5.0
#: By which a process ends that does what no machine allows.
CRASHES = (signal.SIGSEGV, signal.SIGFPE, signal.SIGILL)


class ProcessDied(UserError):
    """A process was killed, as for lack of memory: once more may go well."""


class WorkerPool:
    """Maps functions over shards, in order, with `workers` processes; one worker is this process itself.

    None = as many as there are cores and shards enough to keep them busy.
    """

    def __init__(self, workers: int | None, scratch: Path | None = None):
        """With a folder `scratch`, a message about a process that died says what it was at (`place.py`)."""
        if workers is not None and workers < 1:
            raise UserError(f"workers is {workers}; it must be at least 1.")
        self.workers, self.scratch = workers, scratch
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._executor:
            self._executor.shutdown(wait=True, cancel_futures=True)

    def map(self, title: str, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The results in the order of `items`, with a progress bar called `title`.

        Raises:
            UserError: raised by `function`, or a worker was killed.
        """
        workers = self.workers or min(cores(), len(items) // SHARDS_PER_WORKER)
        alone = self._executor is None and (workers <= 1 or len(items) <= 1)
        call = partial(_called, title, function)
        with self._deaths_named(title, workers):
            if not alone:
                results = self._pool(workers).map(call, items)
                yield from progress(title, results, len(items))
                return
            with place.witnessed(title, self.scratch / f"place-{os.getpid()}") if self.scratch else nullcontext():
                yield from progress(title, map(call, items), len(items))

    def call(self, title: str, function: Callable[[Item], Result], item: Item) -> Result:
        """The function's result for one item, from a process that is not this one even if it is alone.

        Raises:
            ProcessDied: it was killed; the next call has a new one.
        """
        with self._deaths_named(title, 1):
            with _without_main():
                future = self._pool(1).submit(_called, title, function, item)
            return future.result()

    @contextmanager
    def _deaths_named(self, title: str, workers: int) -> Iterator[None]:
        try:
            yield
        except BrokenProcessPool:
            processes = dict(getattr(self._executor, "_processes", None) or {})
            self._executor = None
            died = self._died(processes.values())
            places = [place.last(self.scratch / f"place-{process.pid}") for process in died] if self.scratch else []
            where = f" ({'; '.join(told)})" if (told := sorted({text for text in places if text})) else ""
            raise ProcessDied(f"a process died while {title}{where}, {_why(died, workers)}") from None

    def _died(self, processes: Collection[BaseProcess]) -> list[BaseProcess]:
        """Those that died by themselves; the others were ended (SIGTERM) when the first was missed. All, where the
        first was ended so too: nobody can tell it from the others then."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        # Not join: of two threads that wait for a process one learns how it ended, here or in the pool's own.
        while any(process.exitcode is None for process in processes) and time.monotonic() < deadline:
            time.sleep(0.01)
        dead = [process for process in processes if process.exitcode not in (0, None)]
        return [process for process in dead if process.exitcode != -signal.SIGTERM] or dead

    def _pool(self, workers: int) -> ProcessPoolExecutor:
        if self._executor is None:
            # Not fork: this process may have threads (pyarrow, torch, Google clients), whose locks a fork keeps.
            context = multiprocessing.get_context("spawn")
            start = partial(_start_worker, self.scratch)
            self._executor = ProcessPoolExecutor(workers, mp_context=context, initializer=start)
        return self._executor


def _why(died: Collection[BaseProcess], workers: int) -> str:
    """What its end tells: neither a crash nor a call of `os._exit` is for lack of memory, and more of it no help."""
    codes = {process.exitcode or 0 for process in died}
    if crashes := sorted(signal.Signals(-code).name for code in codes if -code in CRASHES):
        return f"by {crashes[0]}: a library crashed there, or the task's own code. Leave that out, or have it mended."
    if ends := sorted(code for code in codes if code > 0):
        return f"with exit code {ends[0]}: the task's code ended it, or a library that it calls."
    if codes == {-signal.SIGTERM}:
        return "by SIGTERM: somebody ended it, or the task's own code did."
    fix = f"try fewer than {workers} workers" if workers > 1 else "try smaller shards, or a larger machine"
    return f"most likely for lack of memory: {fix}."


@contextmanager
def _without_main() -> Iterator[None]:
    """A new process imports the main module of its parent: Beam's would cost it 3 s, for nothing that it is asked."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class Shared(Generic[Value]):
    """A value that every worker reads once, from a file, instead of being sent it with every call."""

    def __init__(self, value: Value, path: Path):
        self.value, self.path = value, path
        path.write_bytes(ForkingPickler.dumps(value))

    def __reduce__(self) -> tuple[Callable[[Path], "Received"], tuple[Path]]:
        return _received, (self.path,)


@dataclass(frozen=True)
class Received:
    value: Any


@cache
def _received(path: Path) -> Received:
    return Received(ForkingPickler.loads(path.read_bytes()))


def _called(title: str, function: Callable[[Item], Result], item: Item) -> Result:
    place.forget()
    try:
        return function(item)
    except (Exception, SystemExit) as error:
        if place.current() and not isinstance(error, UserError):
            error.add_note(f"while {title}: {place.current()}")
        raise


def _start_worker(scratch: Path | None) -> None:
    import pyarrow as pa

    if scratch:
        place.keep(scratch / f"place-{os.getpid()}")

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    pa.set_cpu_count(1)
    parent = multiprocessing.parent_process()
    if parent:  # a pool's workers outlive a parent that was killed: end with it
        threading.Thread(target=partial(_end_with, parent.sentinel), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def progress(title: str, results: Iterator[Result], total: int) -> Iterator[Result]:
    """Passes the results on and shows how many there were: a bar on a terminal, else a line now and then."""
    if sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield from bar.track(results, total=total, description=title)
        return
    last = time.monotonic()
    for done, result in enumerate(results, 1):
        if time.monotonic() - last > LINE_EVERY_S:
            last = time.monotonic()
            print(f"{title}: {done} of {total} shards", file=sys.stderr, flush=True)
        yield result


# ---- stages of long work: a line that moves on a terminal, else one now and then, as in a log


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
    while not ended.wait(LINE_EVERY_S):
        print(f"{work} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)
