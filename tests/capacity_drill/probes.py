"""Climbs on which probes look for Spot while a job works on demand, and what must be true of them.

On demand is always there, and Spot comes and goes; kills, faults and lists that lag are those of the seed. The work is
longer than that of the other climbs, so that there is time to look.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.capacity_drill import checks, climb, rows, work
from tests.capacity_drill.climb import Evidence
from tests.capacity_drill.scenario import Scenario
from tests.loopback.working_job import WorkingJob
from vgp.inside.capacity.plan import Plan
from vgp.placement.dearest import PROBE_S, PROBES_AN_HOUR_S

#: What a probe may be told as, by why its machines were gone last; "" = it never had any.
TRUTH = {
    "succeeded": ("granted",), "timeout": ("granted",), "cancelled": ("granted", "lost"), "failed": ("granted",),
    "preempted": ("granted", "preempted", "stockout"), "lost": ("lost", "preempted", "granted"),
    "": ("stockout", "wait_expired", "quota", "lost", "cancelled"),
}  # fmt: skip


@dataclass(frozen=True)
class Probed(work.StandIn):
    """The stand-in on a ladder of Spot and on demand; every step is saved, so that a preemption costs little."""

    steps: int = 90

    def plan(self, deadline_s: float | None) -> Plan:
        whole = super().plan(deadline_s)
        return replace(
            whole, rungs=(whole.rungs[0], whole.rungs[3]), probe_s=PROBE_S, probes_an_hour_s=PROBES_AN_HOUR_S
        )


def scenario(seed: int) -> Scenario:
    """That of the seed, with a Spot that comes and goes, on demand always, and nothing to be in time for."""
    made = Scenario.drawn(seed)
    made.world.habit("spot", 400, 500)
    made.world.always("us-east4", "*", "standard")
    made.deadline_s, made.quotas = None, {}
    return made


def played(seed: int, folder: Path, speed: float) -> dict[str, Any]:
    """A row of the table: the climb of a seed."""
    began, task = time.monotonic(), Probed()
    found = climb.climbed(folder, task, scenario(seed), speed=speed)
    plan = task.plan(None)
    wrong = [*checks.problems(found, task, plan), *problems(found, plan)]
    row = rows.row(f"probed {seed}", found, task, wrong, time.monotonic() - began)
    told = found.ladder.get("probes", [])
    return {**row, "probes": len(told), "granted": sum(probe["outcome"] == "granted" for probe in told)}


def problems(found: Evidence, plan: Plan) -> list[str]:
    """In words; nothing where all is well."""
    return [*one_at_a_time(found), *beside_on_demand(found, plan), *told(found, plan), *none_worked(found)]


def jobs(found: Evidence) -> dict[str, WorkingJob]:
    """All jobs of probes that the cloud saw."""
    return {name: job for name, job in found.region.jobs.items() if "training-probe" in job.message.labels}


def one_at_a_time(found: Evidence) -> Iterator[str]:
    """No probe is intended before the one before it is over."""
    for before, after in pairwise(found.ladder.get("probes", [])):
        if before["ended"] is None or after["intended"] < before["ended"]:
            yield f"probe {after['number']} was sent while probe {before['number']} went on"


def beside_on_demand(found: Evidence, plan: Plan) -> Iterator[str]:
    """Each is sent while a job works on demand."""
    standard = {rung.name for rung in plan.rungs if rung.strategy == "standard"}
    held = [each for each in found.ladder.get("attempts", []) if each["rung"] in standard and each["started"]]
    for probe in found.ladder.get("probes", []):
        if not any(each["started"] <= probe["intended"] <= (each["ended"] or "9") for each in held):
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
                yield f"probe {number} is told as {probe['outcome']}, and its machines ended: {why or 'there were none'}"
            if abs(probe["hours"] - hours) > checks.HOURS or abs(probe["usd"] - hours * prices[probe["rung"]]) > 0.05:
                yield f"probe {number} is told to have had machines for {probe['hours']:.4f} h, and had {hours:.4f} h"


def none_worked(found: Evidence) -> Iterator[str]:
    """No probe takes a step, holds machines for longer than it may, or goes on."""
    for name, job in jobs(found).items():
        if any(step.job == name.rpartition("/")[2] for step in found.steps):
            yield f"{name} is a probe, and took steps"
        if job.hours(job.ended or job.created) * 3600 > PROBE_S + 60:
            yield f"{name} is a probe, and had machines for {job.hours(job.ended or job.created) * 3600:.0f} s"
        if not job.over:
            yield f"{name} is a probe, and still goes on"
