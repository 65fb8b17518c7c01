"""What the policy goes by, from the plan, the journal and the progress of the job. Pure functions."""

from collections.abc import Sequence
from typing import cast

from vgp.inside.capacity.journal import Attempt, Ladder
from vgp.inside.capacity.plan import Plan, PlannedRung
from vgp.inside.capacity.policy import Offer, Record, Situation, Strategy
from vgp.inside.capacity.progress import Progress

#: A task of a pipeline ends after seven days; the last job ends so much before, seconds.
SEVEN_DAYS_S, LAST_S = 7 * 86400.0, 1800.0
#: A rung with less than this left of its timeout is not tried any more, seconds.
LEAST_S = 60.0
#: How long is waited for machines where a rung does not say: Google's default for Flex-start, and ours.
WAIT_S = {"flex_start": 86400.0}
OTHER_WAIT_S = 3600.0
#: From the end of a job until the next one trains, before any is measured; and what the launcher's looks add.
CHANGE_OVER_S, POLLS_S = 600.0, 120.0
#: The work between two checkpoints, before any is known.
AT_RISK_S = 600.0
REFUSALS = ("stockout", "wait_expired", "quota")


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


def held_s(attempt: Attempt, now: float) -> float:
    """How long an attempt had its machines."""
    return max(0.0, (attempt.ended or now) - attempt.started) if attempt.started else 0.0


def open_rungs(plan: Plan, ladder: Ladder, now: float) -> list[PlannedRung]:
    """The rungs that have time left, and that of the attempt that goes on."""
    on = ladder.open.rung if ladder.open else None
    return [rung for rung in plan.rungs if rung.name == on or time_left_s(rung, ladder, now) >= LEAST_S]


def offers_of(rungs: Sequence[PlannedRung], progress: Progress | None) -> list[Offer]:
    """The rungs as the policy sees them, numbered from 0."""
    change_over_s = max(CHANGE_OVER_S, 1.5 * progress.start_s + POLLS_S) if progress else CHANGE_OVER_S
    return [
        Offer(
            index=index,
            strategy=cast(Strategy, rung.strategy),
            usd_per_hour=rung.usd_per_hour,
            speed=rung.speed,
            max_wait_s=rung.max_wait_s,
            change_over_s=change_over_s,
        )
        for index, rung in enumerate(rungs)
    ]


def situation(
    plan: Plan, ladder: Ladder, rungs: Sequence[PlannedRung], progress: Progress | None, now: float, at_risk_s: float
) -> Situation:
    """What is known now; `rungs` are those that are offered, `at_risk_s` is the work between two checkpoints."""
    attempt = ladder.open
    return Situation(
        now_s=now,
        deadline_s=ladder.deadline,
        work_left_s=work_left_s(plan, ladder, progress),
        on=next((index for index, rung in enumerate(rungs) if attempt and rung.name == attempt.rung), None),
        running=bool(attempt and attempt.started),
        asked_s=(attempt.created or attempt.intended) if attempt else None,
        records=tuple(_record(rung, ladder, now) for rung in rungs),
        at_risk_s=at_risk_s,
        can_probe=False,
    )


def unsaved_s(plan: Plan, ladder: Ladder, progress: Progress | None) -> float:
    """The work that is lost if the machines go now, in seconds at speed 1."""
    pace = progress.seconds_per_step or 0.0 if progress else 0.0
    return progress.steps_unsaved * pace * _speed(plan, ladder, progress) if progress else 0.0


def work_left_s(plan: Plan, ladder: Ladder, progress: Progress | None) -> float:
    """The work from the newest checkpoint to the end, in seconds at speed 1; the whole where nobody tells."""
    first = plan.rungs[0]
    told = next((rung for rung in plan.rungs if rung.work_hours), None)
    whole = told.work_hours * 3600 * told.speed if told and told.work_hours else first.timeout_s * first.speed
    if progress is None or progress.steps <= 0:
        return whole
    steps = max(0, progress.steps - progress.saved_step)
    if progress.seconds_per_step is None:
        return whole * steps / progress.steps
    return steps * progress.seconds_per_step * _speed(plan, ladder, progress)


def _speed(plan: Plan, ladder: Ladder, progress: Progress | None) -> float:
    """Of the rung on which the steps took as long as the progress says."""
    name = next((each.rung for each in ladder.attempts if progress and each.token == progress.attempt), None)
    return next((rung.speed for rung in plan.rungs if rung.name == name), 1.0)


def _record(rung: PlannedRung, ladder: Ladder, now: float) -> Record:
    attempts = [attempt for attempt in ladder.attempts if attempt.rung == rung.name]
    ended = [(attempt, attempt.ended) for attempt in attempts if attempt.ended is not None]
    refused = [at for each, at in ended if each.outcome in REFUSALS or not (each.started or each.outcome == "lost")]
    return Record(
        refused_s=tuple(refused),
        granted_s=tuple(attempt.started for attempt in attempts if attempt.started is not None),
        preempted_s=tuple(at for each, at in ended if each.outcome == "preempted" and each.started),
        held_s=sum(held_s(attempt, now) for attempt in attempts),
    )
