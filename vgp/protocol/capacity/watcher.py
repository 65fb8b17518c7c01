"""A job that its launcher has forgotten saves and stops, so that it costs no more and stands in nobody's way.

What counts is whether the heartbeat changes, by this machine's clock; what any clock says in it does not. A heartbeat
that cannot be read is no silence: the launcher cannot write either to a store that is down.

A job begins only if it is the one that may run: before its first step, and before it has written anything.

Whoever starts jobs may die between asking for one and hearing of it, so two may come up; the heartbeat names one. Of
two that were made of one request, the first to come up goes on.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from vgp.base.exits import Preempted
from vgp.base.storage import storage
from vgp.base.storage.objects import Folder
from vgp.protocol.capacity.control import JOB_VARIABLE, Control, Document, told

#: How long a heartbeat is waited for that is not there or cannot be read: its launcher writes it before it asks for a
#: job, so only a store that is down makes a job wait.
PATIENCE_S = 120.0
_LOOK_EVERY_S = 2.0


@dataclass(frozen=True)
class Heartbeat:
    """What the launcher says, again and again."""

    #: Which attempt may run.
    attempt: str
    #: How often it says so.
    every_s: float
    #: After how long a silence the job stops.
    orphan_s: float
    #: Which attempt waits until that one has ended.
    next: str = ""


def read(document: Document) -> Heartbeat:
    """What the document says. Raises ValueError if that is no heartbeat, OSError if it cannot be read."""
    values = document.read()
    attempt, every_s, orphan_s = (values.get(name) for name in ("attempt", "every_s", "orphan_s"))
    numbers = [value for value in (every_s, orphan_s) if isinstance(value, int | float) and 0 < value < 1e7]
    if not isinstance(attempt, str) or len(numbers) < 2:
        raise ValueError(f"{document.path} has no attempt, every_s and orphan_s")
    following = values.get("next")
    every, orphan = map(float, numbers)
    return Heartbeat(attempt, every, orphan, following if isinstance(following, str) else "")


def require_turn(control: Control, *, patience_s: float = PATIENCE_S, look_every_s: float = _LOOK_EVERY_S) -> Heartbeat:
    """The heartbeat that lets this job run; where it names this job as the next one, that is waited for.

    Raises:
        Preempted: it names another attempt, or none could be read in time, or the launcher was silent for `orphan_s`
            while this job waited for its turn; nothing was written.
        UserError: it may not be read.
    """
    document, deadline, why = Document(control.heartbeat), time.monotonic() + patience_s, ""
    version: tuple[int, ...] = ()
    while True:
        try:
            heartbeat, seen = read(document), document.version()
            if heartbeat.next != control.attempt or heartbeat.attempt == control.attempt:
                break
            if seen != version:
                version, deadline = seen, time.monotonic() + max(patience_s, heartbeat.orphan_s)
            word = "the attempt before this one has not ended yet"
        except (OSError, ValueError) as error:
            word = str(error)
        if not why:
            print(f"waiting for the launcher's word that this job may run: {word}", file=sys.stderr, flush=True)
        why = word
        if time.monotonic() > deadline:
            raise Preempted(f"the launcher has not said in time that this job may run ({why}). Nothing was written.")
        time.sleep(look_every_s)
    if heartbeat.attempt != control.attempt:
        raise Preempted(f"{others(control, heartbeat)}. Nothing was written.")
    return heartbeat


def claim(control: Control, job: str) -> None:
    """Takes the attempt for this job: Google may make two jobs of one request, and both are told the same.

    Args:
        job: A name that no other job has, and every start of this one.

    Raises:
        Preempted: another job of the attempt came first, or nobody can tell; nothing but this was written.
    """
    folder, name, content = f"{control.folder}/jobs", f"{control.attempt}.txt", job.encode()
    try:
        if storage.is_remote(folder):
            first = Folder(folder).create(name, [memoryview(content)])
        else:
            first = _created(os.path.join(folder, name), content)
    except OSError as error:
        raise Preempted(f"whether this job may run cannot be written down: {error}. Nothing was written.") from None
    if not first:
        raise Preempted(f"another job does this work: attempt {control.attempt} has two, and the other came first.")


def _created(path: str, content: bytes) -> bool:
    """Whether the file is there with this content: made now, or before."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    scratch = f"{path}.{os.getpid()}"
    with open(scratch, "wb") as file:
        file.write(content)
    try:
        os.link(scratch, path)
        return True
    except FileExistsError:
        with open(path, "rb") as file:
            return file.read() == content
    finally:
        os.unlink(scratch)


def others(control: Control, heartbeat: Heartbeat) -> str:
    """Who may run in this job's place, in words."""
    if not heartbeat.attempt:
        return f"this job, attempt {control.attempt}, is not to run any more: {control.heartbeat} names none"
    return (
        f"another job does this work: {control.heartbeat} names attempt {heartbeat.attempt}, and this is "
        f"{control.attempt}"
    )


class Watcher:
    """Looks at the heartbeat from a thread; `on_stop` says whom to tell."""

    def __init__(self, control: Control, heartbeat: Heartbeat):
        self.control, self.heartbeat = control, heartbeat
        self.document = Document(control.heartbeat)
        #: Why the job is to stop; "" = it may go on.
        self.why = ""
        self._stop: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._version: tuple[int, ...] = ()
        #: For how long the heartbeat was read, and had not changed.
        self._silent_s = 0.0
        #: When it was last read; None if the last look failed.
        self._read_at: float | None = time.monotonic()
        self._has_warned = False
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """No more is told; a look that hangs is left alone."""
        self._ended.set()
        self._thread.join(1)

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Has this called once the job is to stop; at once if so already."""
        with self._lock:
            self._stop = stop
            told = bool(self.why)
        if told:
            stop()

    @property
    def _pause_s(self) -> float:
        return min(self.heartbeat.every_s, self.heartbeat.orphan_s / 8)

    def _watch(self) -> None:
        while not self._ended.wait(self._pause_s):
            if why := self._look():
                print(f"stopping: {why}", file=sys.stderr, flush=True)
                with self._lock:
                    self.why, stop = why, self._stop
                stop()
                return

    def _look(self) -> str:
        """Why the job is to stop; "" = it may go on."""
        try:
            self._count(self._has_changed())
        except Exception as error:  # the store is down, or a client fails
            self._read_at = None
            self._warn(error)
        if self.heartbeat.attempt != self.control.attempt:
            return others(self.control, self.heartbeat)
        if self._silent_s > self.heartbeat.orphan_s:
            return f"the launcher of this job has given no sign of life for {self.heartbeat.orphan_s:g} s (orphan_s)"
        return ""

    def _has_changed(self) -> bool:
        """Whether there is another heartbeat than at the last look, which is taken in; what is none does not count."""
        version = self.document.version()
        if not version or version == self._version:
            return False
        try:
            self.heartbeat = read(self.document)
        except ValueError:
            return False
        self._version = version
        return True

    def _count(self, has_changed: bool) -> None:
        """Takes note of a look that succeeded; only the time between two such looks can be silence."""
        now = time.monotonic()
        since_s = 0.0 if self._read_at is None else now - self._read_at
        self._silent_s = 0.0 if has_changed else self._silent_s + since_s
        self._read_at, self._has_warned = now, False

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            print(
                f"warning: the launcher's heartbeat cannot be read ({error}); the job goes on",
                file=sys.stderr,
                flush=True,
            )


@contextmanager
def followed(environment: Mapping[str, str], *, leads: bool) -> Iterator[Watcher | None]:
    """Lets this job begin if it is the one that may run, and has its first machine look for as long as the block runs.

    Does nothing for a job that nobody follows.

    Raises:
        Preempted, UserError: as `require_turn` and `claim`.
    """
    control = told(environment)
    heartbeat = require_turn(control) if control else None
    if not control or not heartbeat or not leads:
        yield None
        return
    if job := environment.get(JOB_VARIABLE, ""):
        claim(control, job)
    watcher = Watcher(control, heartbeat)
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.close()
