"""The progress of a job, written for its launcher from a thread that never blocks training.

A store that is down does not fail training: the progress is written later or never.
"""

import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from vgp.protocol.capacity.control import Control, Document, read_control

#: Seconds between two writes, and the minimum after a save: an object allows one change per second.
_EVERY_S, _LEAST_S = 30.0, 2.0
#: Seconds that an ending job waits for its last write.
_LAST_S = 5.0


@dataclass(frozen=True)
class Progress:
    """The progress of a job. Only saved steps count when it moves to other machines."""

    #: Steps done, steps in all, and the step of the newest readable checkpoint.
    step: int = 0
    steps: int = 0
    saved_step: int = 0
    #: Step of the checkpoint that this job resumed from, of any run; 0 = none.
    from_step: int = 0
    #: Mean since this job resumed, with validations and saves; 0 = not yet known.
    seconds_per_step: float = 0.0
    #: From the begin of the last save until it was readable; 0 = no save yet.
    save_s: float = 0.0
    #: From the start of the program until training resumed.
    start_s: float = 0.0
    #: Seconds that training loses by a save, and seconds between saves.
    save_cost_s: float = 0.0
    checkpoint_every_s: float = 0.0


class Reporter:
    """A thread that writes `progress.json`; `tell` only updates the values."""

    def __init__(self, control: Control, *, every_s: float = _EVERY_S, least_s: float = _LEAST_S):
        self.control, self.every_s, self.least_s = control, every_s, least_s
        self.document = Document(control.progress)
        self.progress, self._written = Progress(), Progress()
        self._urgent, self._ended, self._warned = threading.Event(), threading.Event(), False
        self._thread = threading.Thread(target=self._write_until_the_end, name="progress", daemon=True)
        self._thread.start()

    def update(self, progress: Progress) -> None:
        if progress.saved_step != self.progress.saved_step:
            self._urgent.set()
        self.progress = progress

    def close(self) -> None:
        """Writes the last progress, if the store answers soon."""
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
        except Exception as error:  # any client error: training continues
            if not self._warned:
                print(f"warning: {self.document.path} cannot be written ({error}); training continues",
                      file=sys.stderr, flush=True)  # fmt: skip
            self._warned = True


def _rounded(progress: Progress) -> dict[str, float]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(progress).items()}


class Pace:
    """The mean seconds per step, from the first added step on, so that steps that compile do not count."""

    def __init__(self) -> None:
        self.step, self.at = -1, 0.0

    def add(self, step: int) -> float:
        """Returns the mean seconds per step after `step` steps; 0 = not yet known."""
        now = time.monotonic()
        if self.step < 0:
            self.step, self.at = step, now
        return (now - self.at) / (step - self.step) if step > self.step else 0.0


def reporter(environment: Mapping[str, str], steps: int, from_step: int, start_s: float) -> Reporter | None:
    """Starts a reporter of this job's progress; None for a job without a launcher."""
    control = read_control(environment)
    if not control:
        return None
    reporter = Reporter(control)
    reporter.update(replace(reporter.progress, steps=steps, from_step=from_step, start_s=start_s))
    return reporter
