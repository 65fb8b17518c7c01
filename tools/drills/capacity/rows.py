"""One climb as a row of the table; a function for each kind, which a process of its own can call."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.drills.capacity import checks, climb, waiting, work
from tools.drills.capacity.scenario import Scenario

#: What is changed of what a seed gives.
SCENARIOS: dict[str, Callable[[Scenario], Scenario]] = {
    "standin": lambda drawn: drawn, "handover": Scenario.with_on_demand, "training": Scenario.rougher,
}  # fmt: skip


def played(seed: int, kind: str, folder: Path, speed: float) -> dict[str, Any]:
    """A row of the table: the climb of a seed."""
    began, task = time.monotonic(), work.made(kind, folder.parent)
    scenario = SCENARIOS[kind](Scenario.drawn(seed))
    found = climb.climbed(folder, task, scenario, speed=speed)
    problems = checks.problems(found, task, task.plan(scenario.deadline_s))
    return row(f"seed {seed}", found, task, problems, time.monotonic() - began)


def told(story: Callable[[Path, float], list[str]], folder: Path, speed: float) -> dict[str, Any]:
    """A row of the table: a story, which looks at its climb itself."""
    began = time.monotonic()
    problems = story(folder, speed)
    return {**empty(story.__name__, problems), "seconds": time.monotonic() - began}


def empty(name: str, problems: list[str]) -> dict[str, Any]:
    """A row without figures."""
    figures = dict.fromkeys(("attempts", "jobs", "trained", "steps", "lost", "most_lost", "hours", "usd", "seconds"), 0)
    return {"name": name, **figures, "kills": {}, "ends": {}, "outcomes": {}, "waiting": {}, "problems": problems}


def row(name: str, found: climb.Evidence, task: work.Work, problems: list[str], seconds: float) -> dict[str, Any]:
    attempts, jobs = found.ladder.get("attempts", []), found.region.jobs.values()
    return {
        "name": name, "code": found.code, "attempts": len(attempts), "jobs": len(jobs) - len(waiting.jobs(found)),
        "trained": len({step.job for step in found.steps}), "steps": len(found.steps), "every": task.every,
        "lost": max(0, len(found.steps) - task.steps), "most_lost": max([0, *checks.losses(found)]),
        "kills": found.kills, "ends": Counter(spell.why for job in jobs for spell in job.spells),
        "outcomes": Counter(str(attempt["outcome"]) for attempt in attempts),
        "waiting": Counter(str(each["outcome"]) for each in found.ladder.get("waiting", [])),
        "hours": (found.over - found.began).total_seconds() / 3600, "machine_hours": sum(a["hours"] for a in attempts),
        "usd": sum(a["usd"] or 0 for a in attempts), "seconds": seconds, "problems": problems,
        "said": found.said if problems else "", "ladder": found.ladder, "gcp_resources": found.gcp_resources,
    }  # fmt: skip
