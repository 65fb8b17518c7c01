"""`heartbeat.json`: which attempt may run, and that its launcher lives; written by a thread of its own.

A job reads it before its first step, and ends if another attempt is named there. One that sees no new generation of it
for `orphan_s` saves and ends. So what a launcher lost sight of stops by itself.
"""

import threading
from collections.abc import Callable

from vgp.launch.capacity.errors import Superseded
from vgp.launch.capacity.patience import Patience, reason
from vgp.protocol.capacity import clock
from vgp.protocol.capacity.clock import Clock
from vgp.protocol.capacity.folder import Changed, ControlFolder, Json

NAME = "heartbeat.json"
#: What stands there while no attempt may run.
NOBODY = ""


class Heartbeat:
    """Writes it every `every_s`, from `start` to `stop`.

    Args:
        folder: For this object alone: it is used by a thread.
        term: The launcher's; a heartbeat of a later term is left alone.
    """

    def __init__(
        self,
        folder: ControlFolder,
        clock: Clock,
        tell: Callable[[str], None],
        term: int,
        every_s: float,
        orphan_s: float,
    ) -> None:
        self.folder, self.clock, self.tell = folder, clock, tell
        self.term, self.every_s, self.orphan_s = term, every_s, orphan_s
        self.patience = Patience(clock, tell)
        self.attempt = NOBODY
        self._generation = 0
        self._lock = threading.Lock()
        self._ended, self._superseded = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self, attempt: str) -> None:
        """Writes that this attempt may run, and goes on to. Raises as `allow`."""
        self.allow(attempt)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; one that hangs in a request is left behind."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def allow(self, attempt: str) -> None:
        """From now on this attempt may run and no other; it is written when this returns.

        Raises:
            Superseded: a newer launcher is at work.
        """
        with self._lock:
            self.attempt = attempt
        self.patience("write the heartbeat", self.beat)

    def check(self) -> None:
        """Raises Superseded if the thread has seen a newer launcher."""
        if self._superseded.is_set():
            raise Superseded("another launcher of this step has taken over.")

    def beat(self) -> None:
        """One heartbeat. Raises Superseded, Changed where others write at once, and Google's own errors."""
        with self._lock:
            if self._ended.is_set():
                return
            try:
                self._write()
            except Changed:
                there = self.folder.read(NAME)
                if there and int(there.content.get("term", 0)) > self.term:
                    self._superseded.set()
                    raise Superseded("another launcher of this step has taken over.") from None
                if self._ended.is_set():  # meanwhile: what is there may be of the launcher's next heartbeat
                    return
                self._generation = there.generation if there else 0
                self._write()

    def _write(self) -> None:
        self._generation = self.folder.write(NAME, self._content(), self._generation)

    def _content(self) -> Json:
        at = clock.written(self.clock.now())
        return {
            "format": 1, "attempt": self.attempt, "at": at, "every_s": self.every_s, "orphan_s": self.orphan_s,
            "term": self.term,
        }  # fmt: skip

    def _run(self) -> None:
        failing = False
        while not self.clock.wait(self._ended, self.every_s):
            try:
                self.beat()
                failing = False
            except Superseded:
                return
            except Exception as error:  # a job saves and stops where this goes on for long: nothing else is lost
                if not failing:
                    self.tell(f"the heartbeat cannot be written: {reason(error)}; trying again")
                failing = True
