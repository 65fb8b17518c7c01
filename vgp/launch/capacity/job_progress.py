"""`progress.json`: how far the work is, as the first machine of the job tells it. A script of one's own tells none.

What jobs have measured so far, in seconds: how long steps, starts and saves take.

A job tells it in progress.json; what it told last stands in its attempt, so that nothing is forgotten when the next job
begins, or another launcher.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vgp.protocol.capacity.folder import Json
from vgp.protocol.capacity.ladder import Attempt, Ladder
from vgp.protocol.capacity.plan import Plan, PlannedRung

NAME = "progress.json"
#: What a job measures of itself, in seconds; 0 says that it does not know yet.
FIGURES = ("seconds_per_step", "start_s", "checkpoint_every_s", "save_s")


@dataclass(frozen=True)
class Progress:
    """The last that a job told."""

    #: The token of the attempt whose job it was.
    attempt: str
    step: int
    #: Of the whole work.
    steps: int
    #: The step of the newest checkpoint.
    saved_step: int
    #: The step of the checkpoint that the job began with, whichever run wrote it; an older image does not tell.
    from_step: int | None = None
    seconds_per_step: float | None = None
    #: From the first line of the program to its first step.
    start_s: float | None = None
    #: How far apart saves are, and how long one takes until it can be read.
    checkpoint_every_s: float | None = None
    save_s: float | None = None

    @property
    def steps_unsaved(self) -> int:
        return max(0, self.step - self.saved_step)


def progress_of(content: Json) -> Progress | None:
    """The progress that a document tells; None for one that does not, whoever wrote it."""
    step, steps, saved = (content.get(key) for key in ("step", "steps", "saved_step"))
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in (step, steps)):
        return None
    began = content.get("from_step")
    figures = {name: _seconds(content.get(name)) for name in FIGURES}
    return Progress(
        str(content.get("attempt", "")), int(step or 0), int(steps or 0), int(saved or 0),
        began if isinstance(began, int) and not isinstance(began, bool) else None, **figures,
    )  # fmt: skip


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e9 else None


#: From the end of a job until the next one trains, as long as none is measured; and what the launcher's looks add.
CHANGE_OVER_S, POLLS_S = 600.0, 120.0
#: The next change-over may take longer than those that were measured: this times as long.
LONGER = 1.5
#: What is lost when machines go, as long as nobody tells how far apart checkpoints are.
AT_RISK_S = 600.0


def pace_s(plan: Plan, ladder: Ladder, progress: Progress | None) -> float | None:
    """Of a step on a rung of speed 1, by the newest job that knows it."""
    speeds = {rung.name: rung.speed for rung in plan.rungs}
    rungs = {attempt.token: attempt.rung for attempt in ladder.attempts}
    for token, told in _newest_first(ladder, progress):
        if told.seconds_per_step:
            return told.seconds_per_step * speeds.get(rungs.get(token, ""), 1.0)
    return None


def at_risk_s(ladder: Ladder, progress: Progress | None) -> float:
    """What is lost at most when machines go: the time between two checkpoints, and until one can be read."""
    told = (each for _, each in _newest_first(ladder, progress) if each.checkpoint_every_s)
    newest = next(told, None)
    known = (newest.checkpoint_every_s or 0.0) + (newest.save_s or 0.0) if newest else AT_RISK_S
    unsaved = progress.steps_unsaved * (progress.seconds_per_step or 0.0) if progress else 0.0
    return max(known, unsaved)


def change_over_s(rung: PlannedRung, ladder: Ladder, progress: Progress | None) -> float:
    """From the end of another job until one of this rung trains where that stopped.

    A job on Spot or Flex-start may have waited for machines: there the shortest start counts, else the longest.
    """
    waits = [(each.rung, _provisioning_s(each)) for each in ladder.attempts if each.started]
    own = [seconds for name, seconds in waits if name == rung.name]
    known = own or [seconds for _, seconds in waits]
    queued = rung.strategy in ("spot", "flex_start") or not own
    provisioning = (min if queued else max)(known, default=0.0)
    starts = [each.start_s for _, each in _newest_first(ladder, progress) if each.start_s]
    ends = [each.ended - each.ending_at for each in ladder.attempts if each.ended and each.ending_at]
    seconds = LONGER * (provisioning + max(starts, default=0.0)) + max(ends, default=0.0) + POLLS_S
    return seconds if own and starts else max(CHANGE_OVER_S, seconds)


def _provisioning_s(attempt: Attempt) -> float:
    return max(0.0, (attempt.started or 0.0) - (attempt.created or attempt.intended))


def _newest_first(ladder: Ladder, progress: Progress | None) -> Iterator[tuple[str, Progress | Attempt]]:
    """What jobs told of themselves, by the tokens of their attempts."""
    if progress:
        yield progress.attempt, progress
    for attempt in reversed(ladder.attempts):
        yield attempt.token, attempt
