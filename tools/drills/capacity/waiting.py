"""The conditions for jobs that wait for Spot beside one on demand, in every climb."""

from collections.abc import Iterator
from itertools import pairwise

from tools.drills.capacity.climb import Evidence
from tools.emulator.capacity import FOREVER
from tools.emulator.working_job import WorkingJob
from vgp.base.clock import parse_time
from vgp.protocol.capacity.plan import Plan

#: The allowed difference of times in hours.
HOURS = 1e-3
#: Seconds after which a launcher knows that a job has ended: it polls every 20 s, and answers may be late or lost.
UNSEEN_S = 90.0
#: The outcomes of a useless job in ladder.json, by the reason of the end of its machines; "" = it never had any.
TRUTH = {
    "timeout": ("timeout", "lost"), "cancelled": ("cancelled", "lost", "wait_expired"),
    "failed": ("preempted", "lost", "cancelled", "stockout"), "preempted": ("preempted", "stockout", "cancelled"),
    "lost": ("lost", "preempted", "cancelled"), "": ("stockout", "wait_expired", "quota", "lost", "cancelled"),
}  # fmt: skip


def problems(found: Evidence, plan: Plan) -> list[str]:
    """Describes the violated conditions; empty if all are met."""
    return [*one_at_a_time(found), *beside_on_demand(found, plan), *check_record(found, plan), *check_turns(found)]


def jobs(found: Evidence) -> dict[str, WorkingJob]:
    """Returns the waiting jobs that the cloud has a record of."""
    tokens = {name: job.message.labels.get("training-attempt", "") for name, job in found.region.jobs.items()}
    return {name: found.region.jobs[name] for name, token in tokens.items() if token.startswith("next-")}


def one_at_a_time(found: Evidence) -> Iterator[str]:
    """Checks that each waiting job is requested after the end of the previous one."""
    for before, after in pairwise(found.ladder.get("waiting", [])):
        if before["ended"] is None or after["intended"] < before["ended"]:
            yield f"waiting job {after['number']} was asked for while {before['number']} waited"


def beside_on_demand(found: Evidence, plan: Plan) -> Iterator[str]:
    """Checks that each is requested while a job runs on demand, as far as its launcher can know."""
    standard = {rung.name for rung in plan.rungs if rung.strategy == "standard"}
    attempts = [each for each in found.ladder.get("attempts", []) if each["rung"] in standard and each["started"]]
    held = [
        (parse_time(each["started"]) or 0.0, (parse_time(each["ended"]) or FOREVER) + UNSEEN_S) for each in attempts
    ]
    for waiting in found.ladder.get("waiting", []):
        asked = parse_time(waiting["intended"]) or 0.0
        if not any(began <= asked <= ended for began, ended in held):
            yield f"waiting job {waiting['number']} was asked for while nothing worked on demand"


def check_record(found: Evidence, plan: Plan) -> Iterator[str]:
    """Checks that ladder.json matches the cloud, and that each granted job became an attempt."""
    prices = {rung.name: rung.usd_per_hour or 0 for rung in plan.rungs}
    attempts = {each["token"]: each["job"] for each in found.ladder.get("attempts", [])}
    for waiting in found.ladder.get("waiting", []):
        number, job = waiting["number"], found.region.jobs.get(waiting["job"] or "")
        if waiting["outcome"] is None:
            yield f"waiting job {number} is not over"
        elif waiting["outcome"] == "granted":
            if attempts.get(waiting["token"]) != waiting["job"] or waiting["hours"]:
                yield f"waiting job {number} was granted, and is no attempt with its hours"
        elif job:
            why, hours = job.spells[-1].why if job.spells else "", job.hours(job.ended or job.created)
            if waiting["outcome"] not in TRUTH.get(why, ()):
                yield f"waiting job {number} is recorded as {waiting['outcome']}, its machines ended: {why or 'none'}"
            if abs(waiting["hours"] - hours) > HOURS or abs(waiting["usd"] - hours * prices[waiting["rung"]]) > 0.05:
                yield f"waiting job {number} is recorded with {waiting['hours']:.4f} h, and had {hours:.4f} h"


def check_turns(found: Evidence) -> Iterator[str]:
    """Checks that a job without an attempt takes no step, and that none is active."""
    tokens = {each["token"] for each in found.ladder.get("attempts", [])}
    for name, job in jobs(found).items():
        is_attempt = job.message.labels["training-attempt"] in tokens
        if not is_attempt and any(step.job == name.rpartition("/")[2] for step in found.steps):
            yield f"{name} waited, and took steps before its turn"
        if not job.over:
            yield f"{name} waited, and still goes on"
