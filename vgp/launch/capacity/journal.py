"""`ladder.json`: every attempt at a step's work, written by its launcher alone, before and after each thing it does.

An attempt is written down before its job is created. Its token is a label of the job, and no second
job is ever created for it: a creation of which nobody knows whether it succeeded is searched for, and if nothing is
found, the next one has a token of its own. So the job that appears later is known to be nobody's.

Each start of a launcher is a term. One that finds a later term than its own has been replaced and changes nothing.

`heartbeat.json`: which attempt may run, which one is next, and that its launcher lives; written by a thread of its own.

A job reads it before its first step, waits while it is the next one, and ends if another attempt is named there.
One that sees no new generation of it for `orphan_s` saves and ends. So what a launcher lost sight of stops by itself.
"""

import threading
from collections.abc import Callable
from dataclasses import replace

from vgp.base import clock
from vgp.base.clock import Clock
from vgp.launch.capacity.patience import Patience, Superseded, reason
from vgp.protocol import file_names
from vgp.protocol.capacity.folder import Changed, ControlFolder, Json
from vgp.protocol.capacity.ladder import Creation, Ladder

NAME = file_names.LADDER


class Journal:
    """Reads and changes the ladder; every change is a compare-and-swap that holds in this launcher's term alone.

    Args:
        launcher: A name for this launcher that no other has.
    """

    def __init__(self, folder: ControlFolder, patience: Patience, launcher: str) -> None:
        self.folder, self.patience, self.launcher = folder, patience, launcher
        self.term = 0
        #: As it was last read or written.
        self.ladder: Ladder

    def begin(self, first: Ladder, again: bool = False) -> Ladder:
        """The ladder at the beginning of a term of this launcher; `first` where there is none yet.

        Args:
            again: It had a term before.

        Raises:
            Superseded: that term is over, since a newer launcher is at work.
        """

        def taken_over(ladder: Ladder) -> Ladder:
            if ladder.launcher == self.launcher:
                return ladder
            if again:
                raise Superseded("another launcher of this step has taken over.")
            return replace(ladder, term=ladder.term + 1, launcher=self.launcher)

        ladder = self._swap(lambda there: taken_over(there or first))
        self.term = ladder.term
        return ladder

    def change(self, alter: Callable[[Ladder], Ladder]) -> Ladder:
        """The ladder with a change; `alter` may be called again with what is there then.

        Raises:
            Superseded: a newer launcher is at work.
        """

        def altered(there: Ladder | None) -> Ladder:
            if there is None or there.launcher != self.launcher:
                raise Superseded("another launcher of this step has taken over.")
            return alter(there)

        return self._swap(altered)

    def read(self) -> Ladder:
        """The ladder as it is. Raises as `change`."""
        return self.change(lambda ladder: ladder)

    def there(self) -> Ladder | None:
        """The ladder, whoever's it is; None if there is none."""
        document = self.patience("read the ladder", lambda: self.folder.read(NAME))
        return Ladder.from_json(document.content) if document else None

    def write(self, new: Creation) -> Ladder:
        """The ladder with this state of an attempt or a waiting job. Raises as `change`."""
        return self.change(lambda ladder: ladder.with_creation(new))

    def _swap(self, alter: Callable[[Ladder | None], Ladder]) -> Ladder:
        self.ladder = self.patience("change the ladder", lambda: self._swapped(alter))
        return self.ladder

    def _swapped(self, alter: Callable[[Ladder | None], Ladder]) -> Ladder:
        """One try. Read anew at the next, an own change whose answer was lost is seen to be there."""
        there = self.folder.read(NAME)
        before = Ladder.from_json(there.content) if there else None
        after = alter(before)
        if after == before:
            return after
        content = after.to_json()
        self.folder.write(NAME, content, there.generation if there else 0)
        return Ladder.from_json(content)


HEARTBEAT_NAME = "heartbeat.json"
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
        self.attempt, self.next = NOBODY, NOBODY
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
            if self.next == attempt:
                self.next = NOBODY
        self.patience("write the heartbeat", self.beat)

    def expect(self, attempt: str) -> None:
        """From now on this attempt waits for its turn if it is there already; written and raised as by `allow`."""
        with self._lock:
            self.next = attempt
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
                there = self.folder.read(HEARTBEAT_NAME)
                if there and int(there.content.get("term", 0)) > self.term:
                    self._superseded.set()
                    raise Superseded("another launcher of this step has taken over.") from None
                if self._ended.is_set():  # meanwhile: what is there may be of the launcher's next heartbeat
                    return
                self._generation = there.generation if there else 0
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
            except Exception as error:  # a job saves and stops where this goes on for long: nothing else is lost
                if not failing:
                    self.tell(f"the heartbeat cannot be written: {reason(error)}; trying again")
                failing = True
