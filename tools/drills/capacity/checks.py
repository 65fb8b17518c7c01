"""What must be true of every climb, whatever happened: held against what the cloud and the programs saw."""

import json
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise
from math import ceil
from typing import Any

from tools.drills.capacity import waiting
from tools.drills.capacity.climb import Evidence, Step
from tools.drills.capacity.work import Work
from tools.emulator.working_job import SUCCEEDED, WorkingJob
from vgp.protocol.capacity.plan import Plan

#: What the launcher may call the end of a job, by why its machines were gone last; "" = it never had any.
TRUTH = {
    "succeeded": ("succeeded",), "preempted": ("preempted", "moved", "lost"), "lost": ("lost", "moved"),
    "cancelled": ("moved", "cancelled", "timeout", "wait_expired", "lost"), "timeout": ("timeout", "moved"),
    "failed": ("preempted", "user_error", "moved", "lost"),
    "": ("stockout", "wait_expired", "quota", "moved", "lost", "preempted", "cancelled"),
}  # fmt: skip
#: How often a job tells how far it is, seconds; what it does after its last word nobody hears of.
TOLD_S = 30.0


def problems(found: Evidence, work: Work, plan: Plan) -> list[str]:
    """In words; nothing where all is well."""
    return [
        *finished(found, work),
        *in_time(found, plan),
        *one_at_a_time(found),
        *little_lost(found, work),
        *told(found, plan),
        *told_of_steps(found, work),
        *left(found),
        *waiting.problems(found, plan),
    ]


def finished(found: Evidence, work: Work) -> Iterator[str]:
    if found.code != 0:
        yield f"the launcher ended with {found.code}"
    elif found.model != work.expected():
        yield f"the model has other bits: {(found.model or b'none')[:20]!r}"


def in_time(found: Evidence, plan: Plan) -> Iterator[str]:
    took_s = (found.over - found.began).total_seconds()
    if plan.deadline_s is not None and took_s > plan.deadline_s:
        yield f"it took {took_s:.0f} s, and the deadline is after {plan.deadline_s:.0f} s"


def blocks(found: Evidence) -> list[list[Step]]:
    """The steps by job, in the order of their times."""
    return [list(steps) for _, steps in groupby(found.steps, key=lambda step: step.job)]


def one_at_a_time(found: Evidence) -> Iterator[str]:
    """The steps of a job lie together: no other one took a step between them."""
    jobs = [steps[0].job for steps in blocks(found)]
    for job in sorted({job for job in jobs if jobs.count(job) > 1}):
        yield f"job {job} took steps before and after another one"


def losses(found: Evidence) -> list[int]:
    """Steps that were done again, for each job that went on after another."""
    return [before[-1].number - after[0].number + 1 for before, after in pairwise(blocks(found))]


def little_lost(found: Evidence, work: Work) -> Iterator[str]:
    """Each job goes on at most one interval before the last step of the one before it."""
    for (before, after), lost in zip(pairwise(blocks(found)), losses(found), strict=True):
        if lost > work.every or lost < 0:
            yield f"after step {before[-1].number} came step {after[0].number}: {lost} steps lost, {work.every} may be"


def told(found: Evidence, plan: Plan) -> Iterator[str]:
    """ladder.json and gcp_resources tell what the cloud saw."""
    attempts = found.ladder.get("attempts", [])
    jobs = {name: job for name, job in found.region.jobs.items()}
    prices = {rung.name: rung.usd_per_hour or 0 for rung in plan.rungs}
    for attempt in attempts:
        if attempt["outcome"] is None:
            yield f"attempt {attempt['number']} is not over"
        elif job := jobs.get(attempt["job"] or ""):
            yield from told_of(attempt, job, prices[attempt["rung"]])
    last = next((attempt["job"] for attempt in reversed(attempts) if attempt["job"]), "")
    if found.code == 0 and not json.loads(found.gcp_resources or '{"resources": [{"resourceUri": ""}]}')["resources"][
        0
    ]["resourceUri"].endswith(last):
        yield f"gcp_resources names {found.gcp_resources}, and the last job is {last}"


def told_of(attempt: dict, job: WorkingJob, price: float) -> Iterator[str]:  # type: ignore[type-arg]
    number, why = attempt["number"], job.spells[-1].why if job.spells else ""
    if job.state == SUCCEEDED:  # told to end while it ended by itself
        why = "succeeded"
    if attempt["outcome"] not in TRUTH[why]:
        yield f"attempt {number} is told as {attempt['outcome']}, and its machines ended: {why or 'there were none'}"
    assert job.ended or not job.over
    hours = job.hours(job.ended or job.created)
    if job.over and attempt["words"] != "fenced" and abs(attempt["hours"] - hours) > waiting.HOURS:
        yield f"attempt {number} is told to have had machines for {attempt['hours']:.4f} h, and had {hours:.4f} h"
    if attempt["usd"] is None or abs(attempt["usd"] - attempt["hours"] * price) > 0.01:
        yield f"attempt {number} is told to cost {attempt['usd']}: {attempt['hours']:.4f} h at {price}"


def told_of_steps(found: Evidence, work: Work) -> Iterator[str]:
    """ladder.json tells which step a job had saved and how many were lost with it, as far as its last word reaches."""
    attempts = {(attempt["job"] or "").rpartition("/")[2]: attempt for attempt in found.ladder.get("attempts", [])}
    for before, after in pairwise(blocks(found)):
        if attempt := attempts.get(before[0].job):
            yield from told_of_step(attempt, before[-1].number, after[0].number - 1, work)
    for attempt in attempts.values():
        if attempt["outcome"] == "succeeded" and (attempt["steps_lost"] or attempt["step_to"] != work.steps):
            yield f"attempt {attempt['number']} is told to have succeeded at step {attempt['step_to']} of {work.steps}"


def told_of_step(attempt: Mapping[str, Any], last: int, saved: int, work: Work) -> Iterator[str]:
    """Of a job whose last step was `last`, and after which another went on behind `saved`."""
    number, step_to, lost = attempt["number"], attempt["step_to"] or 0, attempt["steps_lost"]
    if step_to > saved:
        yield f"attempt {number} is told to have saved step {step_to}, and what followed went on behind step {saved}"
    silent = ceil(TOLD_S / work.seconds) + 1
    least, most = max(0, last - saved - silent), last - saved if step_to == saved else work.every + silent
    if lost is None and last - saved <= silent:  # it may have had no time to tell anything
        return
    if lost is None or not least <= lost <= most:
        yield f"attempt {number} is told to have lost {lost} steps: it came to {last}, and step {saved} was saved"


def left(found: Evidence) -> Iterator[str]:
    """Nothing goes on, and every job that took steps is an attempt's, or the twin of one: of a request for it that was
    handled twice, the job that comes first is the one that works, until the launcher sweeps away the one it does not
    follow."""
    attempts = [attempt for attempt in found.ladder.get("attempts", []) if attempt["job"]]
    known, tokens = {attempt["job"] for attempt in attempts}, {attempt["token"] for attempt in attempts}
    for name, job in found.region.jobs.items():
        if not job.over and job.state != 6:
            yield f"{name} still goes on"
        is_twin = job.message.labels.get("training-attempt") in tokens
        if name not in known and not is_twin and any(step.job == name.rpartition("/")[2] for step in found.steps):
            yield f"{name} took steps, and no attempt names it"
