"""A job that its launcher has forgotten saves and stops, so that it costs no more and stands in nobody's way.

What counts is whether the heartbeat changes, by this machine's clock; what any clock says in it does not. A heartbeat
that cannot be read is no silence: the launcher cannot write either to a store that is down.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from vgp.protocol.capacity.control import JOB_VARIABLE, Control, told
from vgp.protocol.capacity.document import Document
from vgp.protocol.capacity.fence import Heartbeat, claim, others, read, require_turn


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
