"""A pool of processes for the work on many shards, and progress on stderr."""

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
from vgp.data import current_place
from vgp.protocol.cluster import cores

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")

#: With fewer shards for each, starting a process takes longer than it saves.
SHARDS_PER_WORKER = 4
#: Seconds between two lines of progress without a terminal, such as in a log.
LINE_EVERY_S = 10.0
#: Seconds to wait for the end of a pool's processes after one was killed.
ENDS_WITHIN_S = 5.0
#: Signals of a crash in native code.
CRASHES = (signal.SIGSEGV, signal.SIGFPE, signal.SIGILL)


class ProcessDied(UserError):
    """The death of a worker process, such as for lack of memory; a retry may succeed."""


class WorkerPool:
    """A pool of `workers` processes that map functions over shards, in order; one worker is this process itself.

    None = one for each core, if there are enough shards.
    """

    def __init__(self, workers: int | None, scratch: Path | None = None):
        """With a folder `scratch`, a message about a dead process names the file that it worked on (`place.py`)."""
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
        """Yields the results in the order of `items`, and shows progress under `title`.

        Raises:
            UserError: `function` raised it, or a worker was killed.
        """
        workers = self.workers or min(cores(), len(items) // SHARDS_PER_WORKER)
        in_process = self._executor is None and (workers <= 1 or len(items) <= 1)
        call = partial(_call, title, function)
        with self._explaining_deaths(title, workers):
            if not in_process:
                results = self._get_pool(workers).map(call, items)
                yield from progress(title, results, len(items))
                return
            with (
                current_place.watch_for_death(title, self.scratch / f"place-{os.getpid()}")
                if self.scratch
                else nullcontext()
            ):
                yield from progress(title, map(call, items), len(items))

    def call(self, title: str, function: Callable[[Item], Result], item: Item) -> Result:
        """Returns the function's result for one item, computed in another process.

        Raises:
            ProcessDied: The process was killed; the next call starts a new one.
        """
        with self._explaining_deaths(title, 1):
            with _without_main():
                future = self._get_pool(1).submit(_call, title, function, item)
            return future.result()

    @contextmanager
    def _explaining_deaths(self, title: str, workers: int) -> Iterator[None]:
        try:
            yield
        except BrokenProcessPool:
            processes = dict(getattr(self._executor, "_processes", None) or {})
            self._executor = None
            dead = self._find_dead(processes.values())
            places = (
                {current_place.read_last_place(self.scratch / f"place-{process.pid}") for process in dead}
                if self.scratch
                else set()
            )
            where = f" ({'; '.join(sorted(places))})" if (places := places - {""}) else ""
            raise ProcessDied(f"a process died while {title}{where}, {_explain_death(dead, workers)}") from None

    def _find_dead(self, processes: Collection[BaseProcess]) -> list[BaseProcess]:
        """Returns the processes that died first, without those that the pool then ended with SIGTERM.

        Returns all dead processes if SIGTERM ended every one, because the first one is then unknown.
        """
        deadline = time.monotonic() + ENDS_WITHIN_S
        # Not join: if two threads wait for a process, only one of them learns its exit code.
        while any(process.exitcode is None for process in processes) and time.monotonic() < deadline:
            time.sleep(0.01)
        dead = [process for process in processes if process.exitcode not in (0, None)]
        return [process for process in dead if process.exitcode != -signal.SIGTERM] or dead

    def _get_pool(self, workers: int) -> ProcessPoolExecutor:
        if self._executor is None:
            # Not fork: this process may have threads (pyarrow, torch, Google clients), whose locks a fork keeps.
            context = multiprocessing.get_context("spawn")
            start = partial(_start_worker, self.scratch)
            self._executor = ProcessPoolExecutor(workers, mp_context=context, initializer=start)
        return self._executor


def _explain_death(dead: Collection[BaseProcess], workers: int) -> str:
    """Returns the likely cause and the fix, from the exit codes: only a SIGKILL suggests a lack of memory."""
    codes = {process.exitcode or 0 for process in dead}
    if crashes := sorted(signal.Signals(-code).name for code in codes if -code in CRASHES):
        return f"by {crashes[0]}: a library or the task's own code crashed. Leave that input out, or fix the code."
    if exit_codes := sorted(code for code in codes if code > 0):
        return f"with exit code {exit_codes[0]}: the task's code ended it, or a library that it calls."
    if codes == {-signal.SIGTERM}:
        return "by SIGTERM, sent from outside or by the task's own code."
    fix = f"try fewer than {workers} workers" if workers > 1 else "try smaller shards, or a larger machine"
    return f"most likely for lack of memory: {fix}."


@contextmanager
def _without_main() -> Iterator[None]:
    """Hides the main module, because a new process would import it: Beam's takes 3 s and is not needed."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class Shared(Generic[Value]):
    """A value that every worker reads once from a file, instead of receiving it with every call."""

    def __init__(self, value: Value, path: Path):
        self.value, self.path = value, path
        path.write_bytes(ForkingPickler.dumps(value))

    def __reduce__(self) -> tuple[Callable[[Path], "Received"], tuple[Path]]:
        return _receive, (self.path,)


@dataclass(frozen=True)
class Received:
    """A `Shared` value in a worker."""

    value: Any


@cache
def _receive(path: Path) -> Received:
    return Received(ForkingPickler.loads(path.read_bytes()))


def _call(title: str, function: Callable[[Item], Result], item: Item) -> Result:
    current_place.forget_place()
    try:
        return function(item)
    except (Exception, SystemExit) as error:
        if current_place.current_place() and not isinstance(error, UserError):
            error.add_note(f"while {title}: {current_place.current_place()}")
        raise


def _start_worker(scratch: Path | None) -> None:
    import pyarrow as pa

    if scratch:
        current_place.keep_places(scratch / f"place-{os.getpid()}")

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    pa.set_cpu_count(1)
    parent = multiprocessing.parent_process()
    if parent:  # a pool's workers would outlive a killed parent
        threading.Thread(target=partial(_exit_after, parent.sentinel), daemon=True).start()


def _exit_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def progress(title: str, results: Iterator[Result], total: int) -> Iterator[Result]:
    """Yields the results and shows their number: a bar on a terminal, else a line every `LINE_EVERY_S`."""
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


# ---- stages of long work: a spinner on a terminal, else a line every LINE_EVERY_S


@dataclass
class Stage:
    """A stage of long work, and its progress in rows."""

    title: str
    #: Finished rows, and their total; 0 = unknown.
    rows: int = 0
    total: int = 0

    def count_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches and counts their rows."""
        for batch in batches:
            yield batch
            self.rows += batch.num_rows

    def __str__(self) -> str:
        of = f" of {self.total:,}" if self.total else ""
        return f"{self.title}: {self.rows:,}{of} rows" if self.rows else self.title


@contextmanager
def stage(title: str) -> Iterator[Stage]:
    """Shows the progress of the stage while the block runs."""
    work = Stage(title)
    show = _show_spinner if sys.stderr.isatty() else _print_lines
    ended = threading.Event()
    display = threading.Thread(target=show, args=(work, ended), daemon=True)
    display.start()
    try:
        yield work
    finally:
        ended.set()
        display.join()


def _show_spinner(work: Stage, ended: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task(work.title, total=None)
        while not ended.wait(0.2):
            line.update(task, description=str(work))


def _print_lines(work: Stage, ended: threading.Event) -> None:
    started = time.monotonic()
    while not ended.wait(LINE_EVERY_S):
        print(f"{work} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)
