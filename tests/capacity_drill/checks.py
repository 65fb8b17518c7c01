"""What must be true of every climb, whatever happened: held against what the cloud and the programs saw."""

import json
from collections.abc import Iterator
from itertools import groupby

from tests.capacity_drill.climb import Evidence
from tests.capacity_drill.work import Work
from tests.loopback.working_job import WorkingJob
from vgp.inside.capacity.plan import Plan

#: What the launcher may call the end of a job, by why its machines were gone last; "" = it never had any.
TRUTH = {
    "succeeded": ("succeeded",), "preempted": ("preempted", "moved", "lost"), "lost": ("lost", "moved"),
    "cancelled": ("moved", "cancelled", "timeout", "wait_expired", "lost"), "timeout": ("timeout", "moved"),
    "failed": ("preempted", "user_error", "moved", "lost"),
    "": ("stockout", "wait_expired", "quota", "moved", "lost", "preempted", "cancelled"),
}  # fmt: skip
#: Hours that times with milliseconds may differ by.
HOURS = 1e-3


def problems(found: Evidence, work: Work, plan: Plan) -> list[str]:
    """In words; nothing where all is well."""
    return [
        *finished(found, work),
        *in_time(found, plan),
        *one_at_a_time(found),
        *little_lost(found, work),
        *told(found, plan),
        *left(found),
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


def one_at_a_time(found: Evidence) -> Iterator[str]:
    """The steps of a job lie together: no other one took a step between them."""
    blocks = [job for job, _ in groupby(found.steps, key=lambda step: step.job)]
    for job in sorted({job for job in blocks if blocks.count(job) > 1}):
        yield f"job {job} took steps before and after another one"


def little_lost(found: Evidence, work: Work) -> Iterator[str]:
    """Each job goes on at most one interval before the last step of the one before it."""
    blocks = [list(steps) for _, steps in groupby(found.steps, key=lambda step: step.job)]
    for before, after in zip(blocks, blocks[1:], strict=False):
        lost = before[-1].number - after[0].number + 1
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
    if attempt["outcome"] not in TRUTH[why]:
        yield f"attempt {number} is told as {attempt['outcome']}, and its machines ended: {why or 'there were none'}"
    assert job.ended or not job.over
    hours = job.hours(job.ended or job.created)
    if job.over and attempt["words"] != "fenced" and abs(attempt["hours"] - hours) > HOURS:
        yield f"attempt {number} is told to have had machines for {attempt['hours']:.4f} h, and had {hours:.4f} h"
    if attempt["usd"] is None or abs(attempt["usd"] - attempt["hours"] * price) > 0.01:
        yield f"attempt {number} is told to cost {attempt['usd']}: {attempt['hours']:.4f} h at {price}"


def left(found: Evidence) -> Iterator[str]:
    """Nothing goes on, and every job is an attempt's or was cancelled."""
    known = {attempt["job"] for attempt in found.ladder.get("attempts", [])}
    for name, job in found.region.jobs.items():
        if not job.over and job.state != 6:
            yield f"{name} still goes on"
        if name not in known and any(step.job == name.rpartition("/")[2] for step in found.steps):
            yield f"{name} took steps, and no attempt names it"
