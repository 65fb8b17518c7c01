"""How far a job is, for whoever decides where it goes on: written from a thread, which never holds a step up.

A store that is down is no error of training: what could not be written is written later, or never.
"""

import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from vgp.protocol.capacity.control import Control, Document, told

#: Between two writes of what has changed, and of what was saved: an object takes one change a second.
_EVERY_S, _LEAST_S = 30.0, 2.0
#: What a job that ends waits for its last word.
_LAST_S = 5.0


@dataclass(frozen=True)
class Progress:
    """How far a job is. A step that is not saved counts for nothing elsewhere."""

    #: Steps done, of all; and the step of the newest checkpoint that can be read.
    step: int = 0
    steps: int = 0
    saved_step: int = 0
    #: The step of the checkpoint that this job began with, of whichever run it was; 0 = it began anew.
    from_step: int = 0
    #: Since this job went on, validations and saves counted; 0 = not known yet.
    seconds_per_step: float = 0.0
    #: From the moment of the last save until it could be read; 0 = there was none.
    save_s: float = 0.0
    #: From the start of the program until training went on.
    start_s: float = 0.0
    #: What training loses by a save, and how far apart saves are.
    save_cost_s: float = 0.0
    checkpoint_every_s: float = 0.0


class Reporter:
    """Writes `progress.json`; `tell` only takes note."""

    def __init__(self, control: Control, *, every_s: float = _EVERY_S, least_s: float = _LEAST_S):
        self.control, self.every_s, self.least_s = control, every_s, least_s
        self.document = Document(control.progress)
        self.progress, self._written = Progress(), Progress()
        self._urgent, self._ended, self._warned = threading.Event(), threading.Event(), False
        self._thread = threading.Thread(target=self._write_until_the_end, name="progress", daemon=True)
        self._thread.start()

    def tell(self, progress: Progress) -> None:
        if progress.saved_step != self.progress.saved_step:
            self._urgent.set()
        self.progress = progress

    def close(self) -> None:
        """Writes what is left to say, if the store takes it soon."""
        self._ended.set()
        self._urgent.set()
        self._thread.join(_LAST_S)

    def _write_until_the_end(self) -> None:
        while not self._ended.is_set():
            self._urgent.wait(self.every_s)
            self._urgent.clear()
            self._write()
            self._ended.wait(self.least_s)
        self._write()

    def _write(self) -> None:
        progress = self.progress
        if progress == self._written:
            return
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            self.document.write({"attempt": self.control.attempt, "at": at, **_rounded(progress)})
            self._written = progress
        except Exception as error:  # whatever a client raises: training goes on
            if not self._warned:
                print(f"warning: {self.document.path} cannot be written ({error}); training goes on",
                      file=sys.stderr, flush=True)  # fmt: skip
            self._warned = True


def _rounded(progress: Progress) -> dict[str, float]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(progress).items()}


class Pace:
    """Seconds for each step from the first that was counted on: the first ones, which compile, are left out."""

    def __init__(self) -> None:
        self.step, self.at = -1, 0.0

    def add(self, step: int) -> float:
        """After so many steps; 0 = not known yet."""
        now = time.monotonic()
        if self.step < 0:
            self.step, self.at = step, now
        return (now - self.at) / (step - self.step) if step > self.step else 0.0


def reporter(environment: Mapping[str, str], steps: int, from_step: int, start_s: float) -> Reporter | None:
    """What tells how far this job is; None for one that nobody follows."""
    control = told(environment)
    if not control:
        return None
    made = Reporter(control)
    made.tell(replace(made.progress, steps=steps, from_step=from_step, start_s=start_s))
    return made
