"""The conditions that every climb must meet, checked by the records of the cloud and of the programs."""

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

#: The outcomes that the launcher may record, by the reason of the end of the last machines; "" = it never had any.
TRUTH = {
    "succeeded": ("succeeded",), "preempted": ("preempted", "moved", "lost"), "lost": ("lost", "moved"),
    "cancelled": ("moved", "cancelled", "timeout", "wait_expired", "lost"), "timeout": ("timeout", "moved"),
    "failed": ("preempted", "user_error", "moved", "lost"),
    "": ("stockout", "wait_expired", "quota", "moved", "lost", "preempted", "cancelled"),
}  # fmt: skip
#: Seconds between two progress reports of a job; later steps are unknown to the launcher.
REPORT_S = 30.0


def list_problems(found: Evidence, work: Work, plan: Plan) -> list[str]:
    """Describes the violated conditions; empty if all are met."""
    return [
        *check_result(found, work),
        *check_deadline(found, plan),
        *check_order(found),
        *check_losses(found, work),
        *check_attempts(found, plan),
        *check_saved_steps(found, work),
        *check_rest(found),
        *waiting.problems(found, plan),
    ]


def check_result(found: Evidence, work: Work) -> Iterator[str]:
    if found.code != 0:
        yield f"the launcher ended with {found.code}"
    elif found.model != work.expected_model():
        yield f"the model has other bits: {(found.model or b'none')[:20]!r}"


def check_deadline(found: Evidence, plan: Plan) -> Iterator[str]:
    took_s = (found.over - found.began).total_seconds()
    if plan.deadline_s is not None and took_s > plan.deadline_s:
        yield f"it took {took_s:.0f} s, and the deadline is after {plan.deadline_s:.0f} s"


def group_by_job(found: Evidence) -> list[list[Step]]:
    """Groups the steps by job, in order of time."""
    return [list(steps) for _, steps in groupby(found.steps, key=lambda step: step.job)]


def check_order(found: Evidence) -> Iterator[str]:
    """Checks that no other job took a step between the steps of a job."""
    jobs = [steps[0].job for steps in group_by_job(found)]
    for job in sorted({job for job in jobs if jobs.count(job) > 1}):
        yield f"job {job} took steps before and after another one"


def count_losses(found: Evidence) -> list[int]:
    """Returns the number of repeated steps for each job that resumed after another."""
    return [before[-1].number - after[0].number + 1 for before, after in pairwise(group_by_job(found))]


def check_losses(found: Evidence, work: Work) -> Iterator[str]:
    """Checks that each job resumes at most one interval before the last step of the previous job."""
    for (before, after), lost in zip(pairwise(group_by_job(found)), count_losses(found), strict=True):
        if lost > work.every or lost < 0:
            yield f"after step {before[-1].number} came step {after[0].number}: {lost} steps lost, {work.every} may be"


def check_attempts(found: Evidence, plan: Plan) -> Iterator[str]:
    """Checks that ladder.json and gcp_resources match the cloud."""
    attempts = found.ladder.get("attempts", [])
    jobs = {name: job for name, job in found.region.jobs.items()}
    prices = {rung.name: rung.usd_per_hour or 0 for rung in plan.rungs}
    for attempt in attempts:
        if attempt["outcome"] is None:
            yield f"attempt {attempt['number']} is not over"
        elif job := jobs.get(attempt["job"] or ""):
            yield from check_attempt(attempt, job, prices[attempt["rung"]])
    last = next((attempt["job"] for attempt in reversed(attempts) if attempt["job"]), "")
    if found.code == 0 and not json.loads(found.gcp_resources or '{"resources": [{"resourceUri": ""}]}')["resources"][
        0
    ]["resourceUri"].endswith(last):
        yield f"gcp_resources names {found.gcp_resources}, and the last job is {last}"


def check_attempt(attempt: dict, job: WorkingJob, price: float) -> Iterator[str]:  # type: ignore[type-arg]
    number, why = attempt["number"], job.spells[-1].why if job.spells else ""
    if job.state == SUCCEEDED:  # it ended by itself after SIGTERM
        why = "succeeded"
    if attempt["outcome"] not in TRUTH[why]:
        reason = why or "there were none"
        yield f"attempt {number} is recorded as {attempt['outcome']}, and its machines ended: {reason}"
    assert job.ended or not job.over
    hours = job.hours(job.ended or job.created)
    if job.over and attempt["words"] != "fenced" and abs(attempt["hours"] - hours) > waiting.HOURS:
        yield f"attempt {number} is recorded with {attempt['hours']:.4f} h of machines, and had {hours:.4f} h"
    if attempt["usd"] is None or abs(attempt["usd"] - attempt["hours"] * price) > 0.01:
        yield f"attempt {number} is recorded with a cost of {attempt['usd']}: {attempt['hours']:.4f} h at {price}"


def check_saved_steps(found: Evidence, work: Work) -> Iterator[str]:
    """Checks the saved and lost steps in ladder.json, as far as the last progress report of each job allows."""
    attempts = {(attempt["job"] or "").rpartition("/")[2]: attempt for attempt in found.ladder.get("attempts", [])}
    for before, after in pairwise(group_by_job(found)):
        if attempt := attempts.get(before[0].job):
            yield from check_saved_step(attempt, before[-1].number, after[0].number - 1, work)
    for attempt in attempts.values():
        if attempt["outcome"] == "succeeded" and (attempt["steps_lost"] or attempt["step_to"] != work.steps):
            yield f"attempt {attempt['number']} is recorded as succeeded at step {attempt['step_to']} of {work.steps}"


def check_saved_step(attempt: Mapping[str, Any], last: int, saved: int, work: Work) -> Iterator[str]:
    """Checks the record of a job whose last step was `last`; the next job resumed after step `saved`."""
    number, step_to, lost = attempt["number"], attempt["step_to"] or 0, attempt["steps_lost"]
    if step_to > saved:
        yield f"attempt {number} is recorded with the saved step {step_to}, and the next job resumed after step {saved}"
    silent = ceil(REPORT_S / work.seconds) + 1
    least, most = max(0, last - saved - silent), last - saved if step_to == saved else work.every + silent
    if lost is None and last - saved <= silent:  # it may have ended before a progress report
        return
    if lost is None or not least <= lost <= most:
        yield f"attempt {number} is recorded with {lost} lost steps: it reached step {last}, and step {saved} was saved"


def check_rest(found: Evidence) -> Iterator[str]:
    """Checks that every job has ended, and that every job with steps is that of an attempt or its twin.

    A twin comes from a request that was handled twice; the first of the two jobs works, until the launcher cancels the
    one that it does not follow.
    """
    attempts = [attempt for attempt in found.ladder.get("attempts", []) if attempt["job"]]
    known, tokens = {attempt["job"] for attempt in attempts}, {attempt["token"] for attempt in attempts}
    for name, job in found.region.jobs.items():
        if not job.over and job.state != 6:
            yield f"{name} is still active"
        is_twin = job.message.labels.get("training-attempt") in tokens
        if name not in known and not is_twin and any(step.job == name.rpartition("/")[2] for step in found.steps):
            yield f"{name} took steps, and no attempt names it"
