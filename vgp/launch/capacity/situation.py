"""The input of the policy, computed from the plan, the journal and the job's progress. Pure functions.

A job writes `progress.json`: its step, and how long steps, starts and saves take. Your own script writes none. The
journal keeps the last figures in the attempt, for the next job or launcher.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from vgp.launch.capacity.policy import Offer, Record, Situation, Strategy
from vgp.protocol.capacity.control_folder import Json
from vgp.protocol.capacity.ladder import Attempt, Creation, Ladder
from vgp.protocol.capacity.plan import Plan, PlannedRung

NAME = "progress.json"
#: Figures that a job measures, in seconds; 0 = not known yet.
FIGURES = ("seconds_per_step", "start_s", "checkpoint_every_s", "save_s")


@dataclass(frozen=True)
class Progress:
    """The last progress of a job."""

    #: The token of the attempt.
    attempt: str
    step: int
    #: All steps of the work.
    steps: int
    #: The step of the newest checkpoint.
    saved_step: int
    #: The step of the checkpoint that the job began with, of any run; None from older images.
    from_step: int | None = None
    seconds_per_step: float | None = None
    #: From the first line of the program to its first step.
    start_s: float | None = None
    #: The interval of checkpoints, and how long one takes until it can be read.
    checkpoint_every_s: float | None = None
    save_s: float | None = None

    @property
    def steps_unsaved(self) -> int:
        return max(0, self.step - self.saved_step)


def parse_progress(content: Json) -> Progress | None:
    """Returns the progress in a document, or None if it is no valid progress."""
    step, steps, saved = (content.get(key) for key in ("step", "steps", "saved_step"))
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in (step, steps)):
        return None
    began = content.get("from_step")
    figures = {name: _to_seconds(content.get(name)) for name in FIGURES}
    return Progress(
        str(content.get("attempt", "")), int(step or 0), int(steps or 0), int(saved or 0),
        began if isinstance(began, int) and not isinstance(began, bool) else None, **figures,
    )  # fmt: skip


def _to_seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e9 else None


#: From the end of a job until the next one trains, until one is measured; and the delay by polling, seconds.
CHANGE_OVER_S, POLLS_S = 600.0, 120.0
#: Factor on measured change-overs, because the next one may take longer.
LONGER = 1.5
#: Work lost by a preemption while the interval of checkpoints is unknown, seconds.
AT_RISK_S = 600.0


def pace_s(plan: Plan, ladder: Ladder, progress: Progress | None) -> float | None:
    """Returns the seconds per step on a rung of speed 1, from the newest job that measured it, or None."""
    speeds = {rung.name: rung.speed for rung in plan.rungs}
    rungs = {attempt.token: attempt.rung for attempt in ladder.attempts}
    for token, measured in _newest_first(ladder, progress):
        if measured.seconds_per_step:
            return measured.seconds_per_step * speeds.get(rungs.get(token, ""), 1.0)
    return None


def at_risk_s(ladder: Ladder, progress: Progress | None) -> float:
    """Returns the most work that a preemption can lose, in seconds: the checkpoint interval plus the time of a save."""
    measured = (figures for _, figures in _newest_first(ladder, progress) if figures.checkpoint_every_s)
    newest = next(measured, None)
    interval_s = (newest.checkpoint_every_s or 0.0) + (newest.save_s or 0.0) if newest else AT_RISK_S
    unsaved_s = progress.steps_unsaved * (progress.seconds_per_step or 0.0) if progress else 0.0
    return max(interval_s, unsaved_s)


def change_over_s(rung: PlannedRung, ladder: Ladder, progress: Progress | None) -> float:
    """Returns the seconds from the end of another job until a job of this rung trains from there.

    On Spot and Flex-start, where starts include waits for machines, the shortest start counts; else the longest.
    """
    waits = [(attempt.rung, _provisioning_s(attempt)) for attempt in ladder.attempts if attempt.started]
    own = [seconds for name, seconds in waits if name == rung.name]
    has_queue = rung.strategy in ("spot", "flex_start") or not own
    provisioning = (min if has_queue else max)(own or [seconds for _, seconds in waits], default=0.0)
    starts = [figures.start_s for _, figures in _newest_first(ladder, progress) if figures.start_s]
    ends = [attempt.ended - attempt.ending_at for attempt in ladder.attempts if attempt.ended and attempt.ending_at]
    seconds = LONGER * (provisioning + max(starts, default=0.0)) + max(ends, default=0.0) + POLLS_S
    return seconds if own and starts else max(CHANGE_OVER_S, seconds)


def _provisioning_s(attempt: Attempt) -> float:
    return max(0.0, (attempt.started or 0.0) - (attempt.created or attempt.intended))


def _newest_first(ladder: Ladder, progress: Progress | None) -> Iterator[tuple[str, Progress | Attempt]]:
    """Yields the figures that jobs measured, with the tokens of their attempts."""
    if progress:
        yield progress.attempt, progress
    for attempt in reversed(ladder.attempts):
        yield attempt.token, attempt


#: The longest time of a pipeline task, and how long before its end the last job ends, seconds.
SEVEN_DAYS_S, LAST_S = 7 * 86400.0, 1800.0
#: A rung with less than this left of its timeout is not tried, seconds.
LEAST_S = 60.0
#: How long to wait for machines if a rung sets no limit: Google's default for Flex-start, else one hour, seconds.
WAIT_S = {"flex_start": 86400.0}
OTHER_WAIT_S = 3600.0
#: The estimate of unknown work: as much as on demand does in this share of the deadline.
UNKNOWN_WORK = 0.8
REFUSALS = ("stockout", "wait_expired", "quota")
#: Outcomes of a waiting job after which no other is created, because it would fail too.
FAULTS = ("user_error", "failed")


def wait_s(rung: PlannedRung) -> float:
    """Returns how long a job of a rung may wait for its machines, in seconds."""
    return rung.max_wait_s if rung.max_wait_s is not None else WAIT_S.get(rung.strategy, OTHER_WAIT_S)


def last_moment(ladder: Ladder) -> float:
    """Returns when the last job must end: at the deadline, or shortly before Vertex AI ends the task."""
    last = ladder.began + SEVEN_DAYS_S - LAST_S
    return last if ladder.deadline is None else min(last, ladder.deadline)


def reason_for_last_moment(ladder: Ladder) -> str:
    """Returns the reason why no job may run after `last_moment`."""
    if ladder.deadline is not None and ladder.deadline <= last_moment(ladder):
        return "the deadline has passed"
    return "the limit of 7 days for a step of a pipeline has passed"


def time_left_s(rung: PlannedRung, ladder: Ladder, now: float) -> float:
    """Returns how long a job of a rung may still run, in seconds: all jobs of a rung share its timeout."""
    used = sum(held_s(attempt, now) for attempt in ladder.attempts if attempt.rung == rung.name)
    return min(rung.timeout_s - used, last_moment(ladder) - now)


def held_s(creation: Creation, now: float) -> float:
    """Returns how long the job had its machines, in seconds."""
    return max(0.0, (creation.ended or now) - creation.started) if creation.started else 0.0


def open_rungs(plan: Plan, ladder: Ladder, now: float) -> list[PlannedRung]:
    """Returns the rungs with time left, and the rung of the open attempt."""
    on = ladder.open.rung if ladder.open else None
    return [rung for rung in plan.rungs if rung.name == on or time_left_s(rung, ladder, now) >= LEAST_S]


def make_offers(rungs: Sequence[PlannedRung], ladder: Ladder, progress: Progress | None) -> list[Offer]:
    """Returns the rungs as offers for the policy, numbered from 0."""
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


def build_situation(
    plan: Plan, ladder: Ladder, rungs: Sequence[PlannedRung], progress: Progress | None, now: float
) -> Situation:
    """Returns the situation for the policy; `rungs` are the offered rungs."""
    attempt, waiting = ladder.open, ladder.next
    return Situation(
        now_s=now,
        deadline_s=ladder.deadline,
        work_left_s=work_left_s(plan, ladder, progress),
        on=next((index for index, rung in enumerate(rungs) if attempt and rung.name == attempt.rung), None),
        running=bool(attempt and attempt.started),
        asked_s=_clamp(attempt, attempt.created or attempt.intended, now) if attempt else None,
        records=tuple(_record(rung, ladder, now) for rung in rungs),
        at_risk_s=at_risk_s(ladder, progress),
        next_on=next((index for index, rung in enumerate(rungs) if waiting and rung.name == waiting.rung), None),
        next_running=bool(waiting and waiting.started),
        can_ask_beside=not any(job.outcome in FAULTS for job in ladder.waiting),
    )


def work_left_s(plan: Plan, ladder: Ladder, progress: Progress | None) -> float:
    """Returns the work after the newest checkpoint, in seconds at speed 1; all work if there is no progress."""
    if progress is None or progress.steps <= 0:
        return _total_work_s(plan)
    steps = max(0, progress.steps - progress.saved_step)
    pace = pace_s(plan, ladder, progress)
    return _total_work_s(plan) * steps / progress.steps if pace is None else steps * pace


def _total_work_s(plan: Plan) -> float:
    """Returns all work in seconds at speed 1: `work_hours` if set, else the timeout.

    A timeout that is not shorter than the deadline (the default) is no estimate of the work and would leave no time for
    Spot, so a share of the deadline counts until the first job has measured its steps.
    """
    first, estimated = plan.rungs[0], next((rung for rung in plan.rungs if rung.work_hours), None)
    if estimated and estimated.work_hours:
        return estimated.work_hours * 3600 * estimated.speed
    if plan.deadline_s is None or first.timeout_s < plan.deadline_s:
        return first.timeout_s * first.speed
    on_demand = [rung.speed for rung in plan.rungs if rung.strategy in ("standard", "reservation")]
    return UNKNOWN_WORK * plan.deadline_s * max(on_demand, default=first.speed)


def _record(rung: PlannedRung, ladder: Ladder, now: float) -> Record:
    attempts = [attempt for attempt in ladder.attempts if attempt.rung == rung.name]
    waiting = [job for job in ladder.waiting if job.rung == rung.name and job.ended is not None]
    ends = [(attempt, _clamp(attempt, attempt.ended, now)) for attempt in attempts if attempt.ended is not None]
    refused = [at for attempt, at in ends if _was_refused(attempt)]
    # A job that the launcher cancelled shows nothing about the rung.
    refused += [
        _clamp(job, job.ended or now, now) for job in waiting if job.outcome != "granted" and job.ending != "cancelled"
    ]
    granted = [_clamp(attempt, attempt.started, now) for attempt in attempts if attempt.started is not None]
    return Record(
        refused_s=tuple(sorted(refused)),
        granted_s=tuple(sorted(granted)),
        preempted_s=tuple(at for attempt, at in ends if attempt.outcome == "preempted" and attempt.started),
        held_s=sum(held_s(attempt, now) for attempt in attempts),
    )


def _clamp(creation: Creation, at: float, now: float) -> float:
    """Returns a time on Google's clock, limited to between the journal entry and now on this machine's clock.

    Otherwise, clocks that differ by minutes would make an answer look stale, or later than its successor.
    """
    return max(creation.intended, min(at, now))


def _was_refused(attempt: Attempt) -> bool:
    """Whether the attempt got no machines: refused, ended while it waited, or created without an answer.

    A lost job, or one replaced by another on its rung, shows nothing about the rung.
    """
    if attempt.outcome in REFUSALS or is_silent(attempt):
        return True
    return not attempt.started and attempt.outcome != "lost" and attempt.next_rung != attempt.rung


def is_silent(attempt: Attempt) -> bool:
    """Whether the creation got no answer and no job was found."""
    return attempt.outcome == "lost" and attempt.job is None
