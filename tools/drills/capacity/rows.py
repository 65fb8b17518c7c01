"""One climb as a row of the table: a function for each kind of climb, which a worker process can call."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.drills.capacity import checks, climb, waiting, work
from tools.drills.capacity.scenario import Scenario

#: The change of a seed's scenario for each kind of work.
SCENARIOS: dict[str, Callable[[Scenario], Scenario]] = {
    "standin": lambda drawn: drawn, "handover": Scenario.with_on_demand, "training": Scenario.rougher,
}  # fmt: skip


def run_seed(seed: int, kind: str, folder: Path, speed: float) -> dict[str, Any]:
    """Runs the climb of a seed; returns its row of the table."""
    began, task = time.monotonic(), work.make_work(kind, folder.parent)
    scenario = SCENARIOS[kind](Scenario.draw(seed))
    found = climb.run_climb(folder, task, scenario, speed=speed)
    problems = checks.list_problems(found, task, task.plan(scenario.deadline_s))
    return row(f"seed {seed}", found, task, problems, time.monotonic() - began)


def run_story(story: Callable[[Path, float], list[str]], folder: Path, speed: float) -> dict[str, Any]:
    """Runs a story, which checks its climb itself; returns its row of the table."""
    began = time.monotonic()
    problems = story(folder, speed)
    return {**empty(story.__name__, problems), "seconds": time.monotonic() - began}


def empty(name: str, problems: list[str]) -> dict[str, Any]:
    """Returns a row without figures."""
    figures = dict.fromkeys(("attempts", "jobs", "trained", "steps", "lost", "most_lost", "hours", "usd", "seconds"), 0)
    return {"name": name, **figures, "kills": {}, "ends": {}, "outcomes": {}, "waiting": {}, "problems": problems}


def row(name: str, found: climb.Evidence, task: work.Work, problems: list[str], seconds: float) -> dict[str, Any]:
    attempts, jobs = found.ladder.get("attempts", []), found.region.jobs.values()
    return {
        "name": name, "code": found.code, "attempts": len(attempts), "jobs": len(jobs) - len(waiting.jobs(found)),
        "trained": len({step.job for step in found.steps}), "steps": len(found.steps), "every": task.every,
        "lost": max(0, len(found.steps) - task.steps), "most_lost": max([0, *checks.count_losses(found)]),
        "kills": found.kills, "ends": Counter(spell.why for job in jobs for spell in job.spells),
        "outcomes": Counter(str(attempt["outcome"]) for attempt in attempts),
        "waiting": Counter(str(each["outcome"]) for each in found.ladder.get("waiting", [])),
        "hours": (found.over - found.began).total_seconds() / 3600, "machine_hours": sum(a["hours"] for a in attempts),
        "usd": sum(a["usd"] or 0 for a in attempts), "seconds": seconds, "problems": problems,
        "said": found.said if problems else "", "ladder": found.ladder, "gcp_resources": found.gcp_resources,
    }  # fmt: skip
