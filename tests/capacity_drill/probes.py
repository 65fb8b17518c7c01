"""What must be true of the probes of every climb: small jobs that look for Spot while a job works on demand."""

from collections.abc import Iterator
from itertools import pairwise

from tests.capacity_drill.climb import Evidence
from tests.loopback.capacity import FOREVER
from tests.loopback.working_job import WorkingJob
from vgp.base.clock import parse_time
from vgp.machines.placement.dearest import PROBE_S
from vgp.protocol.capacity.plan import Plan

#: Hours that times with milliseconds may differ by.
HOURS = 1e-3
#: For so long a launcher may not know that a job has ended, seconds: it looks every 20, and answers late or not at all.
UNSEEN_S = 90.0
#: What a probe may be told as, by why its machines were gone last; "" = it never had any.
TRUTH = {
    "succeeded": ("granted",), "timeout": ("granted",), "cancelled": ("granted", "lost"), "failed": ("granted",),
    "preempted": ("granted", "preempted", "stockout"), "lost": ("lost", "preempted", "granted"),
    "": ("stockout", "wait_expired", "quota", "lost", "cancelled"),
}  # fmt: skip


def problems(found: Evidence, plan: Plan) -> list[str]:
    """In words; nothing where all is well."""
    return [*one_at_a_time(found), *beside_on_demand(found, plan), *told(found, plan), *none_worked(found)]


def jobs(found: Evidence) -> dict[str, WorkingJob]:
    """All jobs of probes that the cloud saw."""
    return {name: job for name, job in found.region.jobs.items() if "training-probe" in job.message.labels}


def one_at_a_time(found: Evidence) -> Iterator[str]:
    """No probe is intended before the one before it is over, and no two have machines at once, but for twins: jobs of
    one request that was handled twice."""
    for before, after in pairwise(found.ladder.get("probes", [])):
        if before["ended"] is None or after["intended"] < before["ended"]:
            yield f"probe {after['number']} was sent while probe {before['number']} went on"
    tokens = {name: job.message.labels["training-probe"] for name, job in jobs(found).items()}
    held = [(spell.began, spell.ended, name) for name, job in jobs(found).items() for spell in job.spells]
    for (_, ended, one), (began, _, other) in pairwise(sorted(held, key=lambda each: each[0])):
        if tokens[one] != tokens[other] and (ended is None or began < ended):
            yield f"{one} and {other}, both probes, had machines at once"


def beside_on_demand(found: Evidence, plan: Plan) -> Iterator[str]:
    """Each is sent while a job works on demand, as far as its launcher can know."""
    standard = {rung.name for rung in plan.rungs if rung.strategy == "standard"}
    attempts = [each for each in found.ladder.get("attempts", []) if each["rung"] in standard and each["started"]]
    time = parse_time
    held = [(time(each["started"]) or 0.0, (time(each["ended"]) or FOREVER) + UNSEEN_S) for each in attempts]
    for probe in found.ladder.get("probes", []):
        sent = parse_time(probe["intended"]) or 0.0
        if not any(began <= sent <= ended for began, ended in held):
            yield f"probe {probe['number']} was sent while nothing worked on demand"


def told(found: Evidence, plan: Plan) -> Iterator[str]:
    """ladder.json tells what the cloud saw of them."""
    prices = {rung.name: rung.usd_per_hour or 0 for rung in plan.rungs}
    for probe in found.ladder.get("probes", []):
        number, job = probe["number"], found.region.jobs.get(probe["job"] or "")
        if probe["outcome"] is None:
            yield f"probe {number} is not over"
        elif job:
            why, hours = job.spells[-1].why if job.spells else "", job.hours(job.ended or job.created)
            if probe["outcome"] not in TRUTH[why]:
                yield f"probe {number} is told as {probe['outcome']}, and its machines ended: {why or 'none'}"
            if abs(probe["hours"] - hours) > HOURS or abs(probe["usd"] - hours * prices[probe["rung"]]) > 0.05:
                yield f"probe {number} is told to have had machines for {probe['hours']:.4f} h, and had {hours:.4f} h"


def none_worked(found: Evidence) -> Iterator[str]:
    """No probe knows where the checkpoints are, takes a step, holds machines for longer than it may, or goes on."""
    for name, job in jobs(found).items():
        told = {variable for machine in job.machines for variable in machine.environment}
        if told & {"TRAINING_CAPACITY", "TRAINING_ATTEMPT"}:
            yield f"{name} is a probe, and was told where the work is"
        if any(step.job == name.rpartition("/")[2] for step in found.steps):
            yield f"{name} is a probe, and took steps"
        if job.hours(job.ended or job.created) * 3600 > PROBE_S + 60:
            yield f"{name} is a probe, and had machines for {job.hours(job.ended or job.created) * 3600:.0f} s"
        if not job.over:
            yield f"{name} is a probe, and still goes on"
