"""What the policy goes by, from the plan, the journal and the progress of the job. Pure functions.

A job writes in `progress.json` how far it is, and how long steps, starts and saves take; a script of one's own writes
none. What it wrote last stands in its attempt, so that the next job, or another launcher, knows it from the start.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from vgp.launch.capacity.policy import Offer, Record, Situation, Strategy
from vgp.protocol.capacity.folder import Json
from vgp.protocol.capacity.ladder import Attempt, Creation, Ladder
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


#: A task of a pipeline ends after seven days; the last job ends so much before, seconds.
SEVEN_DAYS_S, LAST_S = 7 * 86400.0, 1800.0
#: A rung with less than this left of its timeout is not tried any more, seconds.
LEAST_S = 60.0
#: How long is waited for machines where a rung does not say: Google's default for Flex-start, and ours.
WAIT_S = {"flex_start": 86400.0}
OTHER_WAIT_S = 3600.0
#: Where nobody says how long the work takes: what on demand does in this share of the deadline.
UNKNOWN_WORK = 0.8
REFUSALS = ("stockout", "wait_expired", "quota")
#: After a waiting job that ended like that none is asked for any more: its next one would, too.
FAULTS = ("user_error", "failed")


def wait_s(rung: PlannedRung) -> float:
    """How long a job of a rung may wait for its machines."""
    return rung.max_wait_s if rung.max_wait_s is not None else WAIT_S.get(rung.strategy, OTHER_WAIT_S)


def last_moment(ladder: Ladder) -> float:
    """When no job may run any more: at the deadline, and at the latest shortly before Vertex AI ends the task."""
    last = ladder.began + SEVEN_DAYS_S - LAST_S
    return last if ladder.deadline is None else min(last, ladder.deadline)


def why_over(ladder: Ladder) -> str:
    """Why nothing may run after the last moment."""
    if ladder.deadline is not None and ladder.deadline <= last_moment(ladder):
        return "the deadline has passed"
    return "7 days are over, and a step of a pipeline ends then"


def time_left_s(rung: PlannedRung, ladder: Ladder, now: float) -> float:
    """How long a job of a rung may still run: all jobs of a rung together have its timeout."""
    used = sum(held_s(attempt, now) for attempt in ladder.attempts if attempt.rung == rung.name)
    return min(rung.timeout_s - used, last_moment(ladder) - now)


def held_s(one: Creation, now: float) -> float:
    """How long its job had its machines."""
    return max(0.0, (one.ended or now) - one.started) if one.started else 0.0


def open_rungs(plan: Plan, ladder: Ladder, now: float) -> list[PlannedRung]:
    """The rungs that have time left, and that of the attempt that goes on."""
    on = ladder.open.rung if ladder.open else None
    return [rung for rung in plan.rungs if rung.name == on or time_left_s(rung, ladder, now) >= LEAST_S]


def offers_of(rungs: Sequence[PlannedRung], ladder: Ladder, progress: Progress | None) -> list[Offer]:
    """The rungs as the policy sees them, numbered from 0."""
    return [
        Offer(
            index=index,
            strategy=cast(Strategy, rung.strategy),
            usd_per_hour=rung.usd_per_hour,
            speed=rung.speed,
            max_wait_s=rung.max_wait_s,
            change_over_s=change_over_s(rung, ladder, progress),
        )
        for index, rung in enumerate(rungs)
    ]


def situation(
    plan: Plan, ladder: Ladder, rungs: Sequence[PlannedRung], progress: Progress | None, now: float
) -> Situation:
    """What is known now; `rungs` are those that are offered."""
    attempt, waiting = ladder.open, ladder.next
    return Situation(
        now_s=now,
        deadline_s=ladder.deadline,
        work_left_s=work_left_s(plan, ladder, progress),
        on=next((index for index, rung in enumerate(rungs) if attempt and rung.name == attempt.rung), None),
        running=bool(attempt and attempt.started),
        asked_s=_here(attempt, attempt.created or attempt.intended, now) if attempt else None,
        records=tuple(_record(rung, ladder, now) for rung in rungs),
        at_risk_s=at_risk_s(ladder, progress),
        next_on=next((index for index, rung in enumerate(rungs) if waiting and rung.name == waiting.rung), None),
        next_running=bool(waiting and waiting.started),
        can_ask_beside=not any(each.outcome in FAULTS for each in ladder.waiting),
    )


def work_left_s(plan: Plan, ladder: Ladder, progress: Progress | None) -> float:
    """The work from the newest checkpoint to the end, in seconds at speed 1; the whole where nobody tells."""
    if progress is None or progress.steps <= 0:
        return _whole_s(plan)
    steps = max(0, progress.steps - progress.saved_step)
    pace = pace_s(plan, ladder, progress)
    return _whole_s(plan) * steps / progress.steps if pace is None else steps * pace


def _whole_s(plan: Plan) -> float:
    """All of the work: what somebody said, else the timeout.

    A timeout that is no shorter than the deadline says nothing (by default it is the deadline). Taken for the work it
    would leave no time for Spot; so somewhat less is counted until the first job has measured its steps.
    """
    first, said = plan.rungs[0], next((rung for rung in plan.rungs if rung.work_hours), None)
    if said and said.work_hours:
        return said.work_hours * 3600 * said.speed
    if plan.deadline_s is None or first.timeout_s < plan.deadline_s:
        return first.timeout_s * first.speed
    on_demand = [rung.speed for rung in plan.rungs if rung.strategy in ("standard", "reservation")]
    return UNKNOWN_WORK * plan.deadline_s * max(on_demand, default=first.speed)


def _record(rung: PlannedRung, ladder: Ladder, now: float) -> Record:
    attempts = [attempt for attempt in ladder.attempts if attempt.rung == rung.name]
    waiting = [each for each in ladder.waiting if each.rung == rung.name and each.ended is not None]
    ended = [(each, _here(each, each.ended, now)) for each in attempts if each.ended is not None]
    refused = [at for each, at in ended if _was_refused(each)]
    # One that the launcher ended itself, because the step went on elsewhere, says nothing.
    refused += [
        _here(each, each.ended or now, now)
        for each in waiting
        if each.outcome != "granted" and each.ending != "cancelled"
    ]
    granted = [_here(each, each.started, now) for each in attempts if each.started is not None]
    return Record(
        refused_s=tuple(sorted(refused)),
        granted_s=tuple(sorted(granted)),
        preempted_s=tuple(at for each, at in ended if each.outcome == "preempted" and each.started),
        held_s=sum(held_s(attempt, now) for attempt in attempts),
    )


def _here(one: Creation, at: float, now: float) -> float:
    """A time that Google told, by the clock of this machine: what came of a job is no older than the wish for it.

    Clocks that are minutes apart would else make an answer look stale, or later than what follows it.
    """
    return max(one.intended, min(at, now))


def _was_refused(attempt: Attempt) -> bool:
    """Whether it ended for want of machines: refused, left while it waited for them, or asked for without an answer.

    One whose job was lost, or that gave way to another on the same rung, says nothing of the rung.
    """
    if attempt.outcome in REFUSALS or is_silent(attempt):
        return True
    return not attempt.started and attempt.outcome != "lost" and attempt.next_rung != attempt.rung


def is_silent(attempt: Attempt) -> bool:
    """Whether Google did not answer its creation, and no job was found."""
    return attempt.outcome == "lost" and attempt.job is None
