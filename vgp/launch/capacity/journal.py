"""The launcher's two files: `ladder.json`, the journal of all attempts, and `heartbeat.json`.

Only the launcher writes the journal, before and after each action. It enters an attempt before it creates the job. The
attempt's token is a label of the job, and no attempt gets a second job: if a creation gets no answer, the launcher
searches for the job, and if it finds none, starts an attempt with a new token. A job that appears later is an orphan.

Each start of a launcher is a term. A launcher that reads a later term has been replaced and changes nothing.

The heartbeat names the attempt that may run and the next one; a thread writes it. A job reads it before its first step,
waits while it is the next one, and ends if it names another attempt. A job that sees no new generation for `orphan_s`
saves a checkpoint and ends, so a job that no launcher watches stops by itself.
"""

import threading
from collections.abc import Callable
from dataclasses import replace

from vgp.base import clock
from vgp.base.clock import Clock
from vgp.launch.capacity.outage_retry import Patience, Superseded, reason
from vgp.protocol import file_names
from vgp.protocol.capacity.control_folder import Changed, ControlFolder, Json
from vgp.protocol.capacity.ladder import Creation, Ladder

NAME = file_names.LADDER


class Journal:
    """The journal. Every change is a compare-and-swap and fails once this launcher has been replaced.

    Args:
        launcher: A unique name of this launcher.
    """

    def __init__(self, folder: ControlFolder, patience: Patience, launcher: str) -> None:
        self.folder, self.patience, self.launcher = folder, patience, launcher
        self.term = 0
        #: The ladder as last read or written.
        self.ladder: Ladder

    def begin(self, first: Ladder, again: bool = False) -> Ladder:
        """Begins a term of this launcher and returns the ladder; writes `first` if there is none yet.

        Args:
            again: Whether this launcher had a term before.

        Raises:
            Superseded: That term is over, because a newer launcher has taken over.
        """

        def take_over(ladder: Ladder) -> Ladder:
            if ladder.launcher == self.launcher:
                return ladder
            if again:
                raise Superseded("another launcher of this step has taken over.")
            return replace(ladder, term=ladder.term + 1, launcher=self.launcher)

        ladder = self._swap(lambda current: take_over(current or first))
        self.term = ladder.term
        return ladder

    def change(self, alter: Callable[[Ladder], Ladder]) -> Ladder:
        """Changes the ladder and returns it. Calls `alter` again if another write came first.

        Raises:
            Superseded: A newer launcher has taken over.
        """

        def alter_own(current: Ladder | None) -> Ladder:
            if current is None or current.launcher != self.launcher:
                raise Superseded("another launcher of this step has taken over.")
            return alter(current)

        return self._swap(alter_own)

    def read(self) -> Ladder:
        """Reads the ladder. Raises Superseded if a newer launcher has taken over."""
        return self.change(lambda ladder: ladder)

    def read_any(self) -> Ladder | None:
        """Reads the ladder of any launcher; returns None if there is none."""
        document = self.patience("read the ladder", lambda: self.folder.read(NAME))
        return Ladder.from_json(document.content) if document else None

    def write(self, new: Creation) -> Ladder:
        """Writes an attempt or a waiting job into the ladder and returns it. Raises Superseded, like `change`."""
        return self.change(lambda ladder: ladder.with_creation(new))

    def _swap(self, alter: Callable[[Ladder | None], Ladder]) -> Ladder:
        self.ladder = self.patience("change the ladder", lambda: self._try_swap(alter))
        return self.ladder

    def _try_swap(self, alter: Callable[[Ladder | None], Ladder]) -> Ladder:
        """Tries a change once. A retry reads the ladder again, so it sees a change whose answer was lost."""
        document = self.folder.read(NAME)
        before = Ladder.from_json(document.content) if document else None
        after = alter(before)
        if after == before:
            return after
        content = after.to_json()
        self.folder.write(NAME, content, document.generation if document else 0)
        return Ladder.from_json(content)


HEARTBEAT_NAME = "heartbeat.json"
#: The token in the heartbeat while no attempt may run.
NO_ATTEMPT = ""


class Heartbeat:
    """The heartbeat of a launcher: a thread writes it every `every_s` seconds, from `start` to `stop`.

    Args:
        folder: A client for this object alone, because a thread uses it.
        term: The term of the launcher; a heartbeat of a later term is not overwritten.
    """

    def __init__(
        self,
        folder: ControlFolder,
        clock: Clock,
        log: Callable[[str], None],
        term: int,
        every_s: float,
        orphan_s: float,
    ) -> None:
        self.folder, self.clock, self.log = folder, clock, log
        self.term, self.every_s, self.orphan_s = term, every_s, orphan_s
        self.patience = Patience(clock, log)
        self.attempt, self.next = NO_ATTEMPT, NO_ATTEMPT
        self._generation = 0
        self._lock = threading.Lock()
        self._ended, self._superseded = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self, attempt: str) -> None:
        """Writes that this attempt may run, and starts the thread. Raises Superseded, like `allow`."""
        self.allow(attempt)
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread; does not wait for one that hangs in a request."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def allow(self, attempt: str) -> None:
        """Writes a heartbeat that lets only this attempt run.

        Raises:
            Superseded: A newer launcher has taken over.
        """
        with self._lock:
            self.attempt = attempt
            if self.next == attempt:
                self.next = NO_ATTEMPT
        self.patience("write the heartbeat", self.beat)

    def expect(self, attempt: str) -> None:
        """Writes a heartbeat that names the next attempt. Raises Superseded, like `allow`."""
        with self._lock:
            self.next = attempt
        self.patience("write the heartbeat", self.beat)

    def check(self) -> None:
        """Raises Superseded if the thread has seen a newer launcher."""
        if self._superseded.is_set():
            raise Superseded("another launcher of this step has taken over.")

    def beat(self) -> None:
        """Writes one heartbeat. Raises Superseded, Changed if another write came first, and Google's errors."""
        with self._lock:
            if self._ended.is_set():
                return
            try:
                self._write()
            except Changed:
                document = self.folder.read(HEARTBEAT_NAME)
                if document and int(document.content.get("term", 0)) > self.term:
                    self._superseded.set()
                    raise Superseded("another launcher of this step has taken over.") from None
                if self._ended.is_set():  # the document may be of the next Heartbeat object of this launcher
                    return
                self._generation = document.generation if document else 0
                self._write()

    def _write(self) -> None:
        self._generation = self.folder.write(HEARTBEAT_NAME, self._content(), self._generation)

    def _content(self) -> Json:
        at = clock.format_time(self.clock.now())
        return {
            "format": 1, "attempt": self.attempt, "at": at, "every_s": self.every_s, "orphan_s": self.orphan_s,
            "term": self.term, "next": self.next,
        }  # fmt: skip

    def _run(self) -> None:
        failing = False
        while not self.clock.wait(self._ended, self.every_s):
            try:
                self.beat()
                failing = False
            except Superseded:
                return
            except Exception as error:  # retry: if it keeps failing, the job saves a checkpoint and stops
                if not failing:
                    self.log(f"cannot write the heartbeat: {reason(error)}; retrying")
                failing = True
