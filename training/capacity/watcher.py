"""A job that its launcher has forgotten saves and stops, so that it costs no more and stands in nobody's way.

What counts is whether the heartbeat changes, by this machine's clock; what any clock says in it does not.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from training.capacity.control import JOB_VARIABLE, Control, told
from training.capacity.document import Document
from training.capacity.fence import Heartbeat, claim, others, read, require_turn


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
        self._heard_at = time.monotonic()
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
            version = self.document.version()
            if version and version != self._version:
                self.heartbeat = read(self.document)
                self._version, self._heard_at = version, time.monotonic()
        except Exception:  # the store is down, or a client fails: silence, for as long as it lasts
            pass
        if self.heartbeat.attempt != self.control.attempt:
            return others(self.control, self.heartbeat)
        if time.monotonic() - self._heard_at > self.heartbeat.orphan_s:
            return f"the launcher of this job has given no sign of life for {self.heartbeat.orphan_s:g} s (orphan_s)"
        return ""


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
