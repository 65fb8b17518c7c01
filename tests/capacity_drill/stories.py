"""Climbs with one thing that goes wrong, and what must come of it; each returns what was not as it must be, in words.

orphaned     the launcher is killed, and nobody starts it again for long: the job saves and stops by itself
cancelled    the run is cancelled: the launcher gets SIGTERM, and the job ends with it
mistaken     the program fails: the step fails at once, with its last words
twins        Google makes two jobs of one request: one of them works
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.capacity_drill import checks, work
from tests.capacity_drill.climb import Climb, begun
from tests.capacity_drill.scenario import Scenario
from tests.loopback.faults import repeated
from tests.loopback.working_job import CANCELLED, FAILED, RUNNING

CREATE = "aiplatform.*.customJobs.create"
#: Real seconds that anything may take.
PATIENCE_S = 120.0


def wait(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def at_step(climb: Climb, number: int) -> bool:
    return wait(lambda: any(step.number >= number for step in climb.steps()))


def orphaned(folder: Path, speed: float) -> list[str]:
    task = work.StandIn(steps=16, every=8, seconds=20)
    plan = work.plan(task, orphan_s=120)
    with begun(folder, task, Scenario.calm(), speed=speed, plan=plan) as climb:
        climb.start()
        at_step(climb, 3)
        climb.kill()
        killed_s, (job,) = climb.now_s, climb.region.jobs.values()
        if not wait(lambda: job.over):
            return ["the job goes on without a launcher"]
        ended_s = (job.ended - climb.began).total_seconds() if job.ended else 0
        wrong = [] if ended_s - killed_s < 120 + 60 else [f"it took the job {ended_s - killed_s:.0f} s to stop"]
        stopped = climb.steps()[-1].number
        found = climb.evidence(climb.run())
        after = next((step.number for step in found.steps if step.token != found.steps[0].token), None)
        if after != stopped + 1:
            wrong.append(f"it stopped after step {stopped}, and went on with {after}: nothing was saved")
        return [*wrong, *checks.problems(found, task, plan)]


def cancelled(folder: Path, speed: float) -> list[str]:
    task = work.StandIn()
    with begun(folder, task, Scenario.calm(), speed=speed) as climb:
        process = climb.start()
        at_step(climb, 2)
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE_S)
        found, states = climb.evidence(code), [job.state for job in climb.region.jobs.values()]
        outcomes = [attempt["outcome"] for attempt in found.ladder["attempts"]]
        wrong = [] if code == 143 else [f"the launcher ended with {code}"]
        wrong += [] if states == [CANCELLED] else [f"the jobs are {states}"]
        return wrong + ([] if outcomes == ["cancelled"] else [f"the ladder says {outcomes}"])


def mistaken(folder: Path, speed: float) -> list[str]:
    task = work.StandIn(fails_at=2)
    with begun(folder, task, Scenario.calm(), speed=speed) as climb:
        found = climb.evidence(climb.run())
        states = [job.state for job in climb.region.jobs.values()]
        wrong = [] if found.code == 1 else [f"the launcher ended with {found.code}"]
        wrong += [] if states == [FAILED] else [f"the jobs are {states}"]
        outcomes = [attempt["outcome"] for attempt in found.ladder["attempts"]]
        wrong += [] if outcomes == ["user_error"] else [f"the ladder says {outcomes}"]
        said = "ValueError: a mistake in the program" in found.said
        return wrong + ([] if said else ["the launcher does not say what the program said last"])


def twins(folder: Path, speed: float) -> list[str]:
    task = work.StandIn(steps=12)
    scenario = Scenario.calm()
    scenario.faults = {CREATE: [repeated()]}
    with begun(folder, task, scenario, speed=speed) as climb:
        found = climb.evidence(climb.run())
        at_work = [job for job in climb.region.jobs.values() if job.state == RUNNING]
        return [*checks.problems(found, task, climb.plan), *(["a second job still works"] if at_work else [])]


ALL = (orphaned, cancelled, mistaken, twins)
