"""A watch on the launcher's heartbeat: an orphaned job saves and stops, so that it costs no more.

The heartbeat must change within a time measured by this machine's clock; its own times do not count. An unreadable
heartbeat does not count as silence, because a store that is down stops the launcher from writing, too.

A job begins, and writes anything, only if the heartbeat names its attempt, because a launcher that dies after it
requested a job may leave two. Of two jobs from one request, the first to start continues.
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
from vgp.protocol.capacity.control import JOB_VARIABLE, Control, Document, read_control

#: Seconds to wait for a missing or unreadable heartbeat: a launcher writes it before it requests a job, so only a store
#: that is down makes a job wait.
PATIENCE_S = 120.0
_LOOK_EVERY_S = 2.0


@dataclass(frozen=True)
class Heartbeat:
    """The launcher's heartbeat."""

    #: The attempt that may run.
    attempt: str
    #: Seconds between two heartbeats.
    every_s: float
    #: Seconds without a heartbeat after which the job stops.
    orphan_s: float
    #: The attempt that waits until that one has ended.
    next: str = ""


def read(document: Document) -> Heartbeat:
    """Reads a heartbeat. Raises ValueError if it is not one, OSError if it cannot be read."""
    values = document.read()
    attempt, every_s, orphan_s = (values.get(name) for name in ("attempt", "every_s", "orphan_s"))
    numbers = [value for value in (every_s, orphan_s) if isinstance(value, int | float) and 0 < value < 1e7]
    if not isinstance(attempt, str) or len(numbers) < 2:
        raise ValueError(f"{document.path} has no attempt, every_s and orphan_s")
    following = values.get("next")
    every, orphan = map(float, numbers)
    return Heartbeat(attempt, every, orphan, following if isinstance(following, str) else "")


def require_turn(control: Control, *, patience_s: float = PATIENCE_S, look_every_s: float = _LOOK_EVERY_S) -> Heartbeat:
    """Returns the heartbeat that lets this job run, waiting for its turn if it names this job as the next one.

    Raises:
        Preempted: it names another attempt, could not be read in time, or stopped for `orphan_s` while this job waited;
            nothing was written.
        UserError: there is no permission to read it.
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
            reason = "the attempt before this one has not ended yet"
        except (OSError, ValueError) as error:
            reason = str(error)
        if not why:
            print(f"waiting for the launcher's permission to run: {reason}", file=sys.stderr, flush=True)
        why = reason
        if time.monotonic() > deadline:
            raise Preempted(f"the launcher has not permitted this job to run in time ({why}). Nothing was written.")
        time.sleep(look_every_s)
    if heartbeat.attempt != control.attempt:
        raise Preempted(f"{describe_permitted_attempt(control, heartbeat)}. Nothing was written.")
    return heartbeat


def claim(control: Control, job: str) -> None:
    """Claims the attempt for this job, because Google may create two jobs from one request.

    Args:
        job: A unique name that stays when the job restarts.

    Raises:
        Preempted: another job of the attempt came first, or the claim failed; nothing else was written.
    """
    folder, name, content = f"{control.folder}/jobs", f"{control.attempt}.txt", job.encode()
    try:
        if storage.is_remote(folder):
            first = Folder(folder).create(name, [memoryview(content)])
        else:
            first = _create_if_missing(os.path.join(folder, name), content)
    except OSError as error:
        raise Preempted(f"this job cannot claim its attempt: {error}. Nothing was written.") from None
    if not first:
        raise Preempted(
            f"another job does this work: attempt {control.attempt} has two jobs, and the other came first."
        )


def _create_if_missing(path: str, content: bytes) -> bool:
    """Whether the file has this content, created now or earlier."""
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


def describe_permitted_attempt(control: Control, heartbeat: Heartbeat) -> str:
    """Returns a sentence on the attempt that may run instead of this job."""
    if not heartbeat.attempt:
        return f"this job, attempt {control.attempt}, may no longer run: {control.heartbeat} names no attempt"
    return (
        f"another job does this work: {control.heartbeat} names attempt {heartbeat.attempt}, and this is "
        f"{control.attempt}"
    )


class Watcher:
    """A thread that watches the heartbeat and calls `on_stop` when the job must stop."""

    def __init__(self, control: Control, heartbeat: Heartbeat):
        self.control, self.heartbeat = control, heartbeat
        self.document = Document(control.heartbeat)
        #: Why the job must stop; "" = it may continue.
        self.why = ""
        self._stop: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._version: tuple[int, ...] = ()
        #: Seconds for which the heartbeat was readable and did not change.
        self._silent_s = 0.0
        #: Time of the last read; None if it failed.
        self._read_at: float | None = time.monotonic()
        self._has_warned = False
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the watch without waiting for a read that hangs."""
        self._ended.set()
        self._thread.join(1)

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Registers a callback for the stop; calls it now if the job must already stop."""
        with self._lock:
            self._stop = stop
            must_stop = bool(self.why)
        if must_stop:
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
        """Reads the heartbeat; returns why the job must stop, or ""."""
        try:
            self._count(self._has_changed())
        except Exception as error:  # the store is down, or a client fails
            self._read_at = None
            self._warn(error)
        if self.heartbeat.attempt != self.control.attempt:
            return describe_permitted_attempt(self.control, self.heartbeat)
        if self._silent_s > self.heartbeat.orphan_s:
            return f"no heartbeat from the launcher for {self.heartbeat.orphan_s:g} s (orphan_s)"
        return ""

    def _has_changed(self) -> bool:
        """Reads the heartbeat if it has changed, and returns whether it has; ignores invalid documents."""
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
        """Counts a successful read; only the time between two of them can be silence."""
        now = time.monotonic()
        since_s = 0.0 if self._read_at is None else now - self._read_at
        self._silent_s = 0.0 if has_changed else self._silent_s + since_s
        self._read_at, self._has_warned = now, False

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            print(
                f"warning: the launcher's heartbeat cannot be read ({error}); the job continues",
                file=sys.stderr,
                flush=True,
            )


@contextmanager
def followed(environment: Mapping[str, str], *, leads: bool) -> Iterator[Watcher | None]:
    """Requires that this job may run, and watches the heartbeat on the first machine while the block runs.

    Does nothing for a job without a launcher.

    Raises:
        Preempted, UserError: see `require_turn` and `claim`.
    """
    control = read_control(environment)
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
