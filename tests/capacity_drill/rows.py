"""One climb as a row of the table; a function for each kind, which a process of its own can call."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.capacity_drill import checks, climb, work
from tests.capacity_drill.scenario import Scenario

#: How much longer the times are than those of the stand-in, of which most is the import of torch.
SLOW = {"standin": 1.0, "training": 3.0}


def played(seed: int, kind: str, folder: Path, speed: float) -> dict[str, Any]:
    """A row of the table: the climb of a seed."""
    began, task = time.monotonic(), work.made(kind, folder.parent)
    scenario = Scenario.drawn(seed, slow=SLOW[kind])
    found = climb.climbed(folder, task, scenario, speed=speed)
    problems = checks.problems(found, task, task.plan(scenario.deadline_s))
    return row(f"seed {seed}", found, task, problems, time.monotonic() - began)


def told(story: Callable[[Path, float], list[str]], folder: Path, speed: float) -> dict[str, Any]:
    """A row of the table: a story, which looks at its climb itself."""
    began = time.monotonic()
    problems = story(folder, speed)
    figures = dict.fromkeys(("attempts", "launchers", "steps", "lost", "hours", "machine_hours", "usd"), 0)
    seconds = time.monotonic() - began
    return {"name": story.__name__, **figures, "outcomes": {}, "seconds": seconds, "problems": problems, "said": ""}


def row(name: str, found: climb.Evidence, task: work.Work, problems: list[str], seconds: float) -> dict[str, Any]:
    attempts = found.ladder.get("attempts", [])
    counts = {kind: sum(each["outcome"] == kind for each in attempts) for kind in {a["outcome"] for a in attempts}}
    return {
        "name": name, "code": found.code, "attempts": len(attempts), "launchers": found.launchers, "outcomes": counts,
        "steps": len(found.steps), "lost": max(0, len(found.steps) - task.steps),
        "hours": (found.over - found.began).total_seconds() / 3600, "machine_hours": sum(a["hours"] for a in attempts),
        "usd": sum(a["usd"] or 0 for a in attempts), "seconds": seconds, "problems": problems,
        "said": found.said if problems else "", "ladder": found.ladder,
        "gcp_resources": found.gcp_resources,
    }  # fmt: skip
