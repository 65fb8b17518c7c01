"""Climbs with one fault each; every function describes the violated conditions.

orphaned     after a lost answer, a preemption and a stockout the launcher is killed, and not restarted for a while: the
             job saves and stops by itself
cancelled    the run is cancelled: the launcher gets SIGTERM, and the job ends with it
evicted      the launcher's machine is removed during the run: SIGTERM, SIGKILL half a minute later, another machine
mistaken     the program fails: the step fails at once, with the program's last lines
paused       a launcher stops for twenty minutes while another one takes over, then resumes and gets SIGTERM
twins        Google creates two jobs for one request: one of them works
restarted    a plain job on Spot, without a ladder: Vertex AI restarts it (restarts.py)
replaced     a plain job on Spot, without a ladder: only the lost machine is replaced (restarts.py)
"""

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tools.drills.capacity import checks, restarts, work
from tools.drills.capacity.calls import is_launchers
from tools.drills.capacity.climb import Climb, open_climb
from tools.drills.capacity.scenario import Scenario
from tools.emulator.call import Call
from tools.emulator.capacity import World
from tools.emulator.faults import lose_response, repeat_request
from tools.emulator.working_job import CANCELLED, FAILED, RUNNING
from vgp.protocol.capacity.plan import Plan

CREATE = "aiplatform.*.customJobs.create"
#: The most real seconds of any wait.
PATIENCE_S = 120.0


def wait(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def wait_for_step(climb: Climb, number: int) -> bool:
    return wait(lambda: any(step.number >= number for step in climb.steps()))


def orphaned(folder: Path, speed: float) -> list[str]:
    task = work.StandIn(steps=18, every=8, seconds=20)
    whole = work.plan(task, orphan_s=120)
    plan = replace(whole, rungs=(whole.rungs[0], whole.rungs[3]))
    with open_climb(folder, task, make_hard_scenario(), speed=speed, plan=plan) as climb:
        killed_at = kill_after(climb, 7)
        climb.start()
        if not wait(lambda: bool(killed_at)):
            return ["no job took seven steps"]
        token, number = killed_at[0]
        job = next(job for job in climb.region.jobs.values() if job.message.labels["training-attempt"] == token)
        if not wait(lambda: job.over):
            return ["the job goes on without a launcher"]
        # Measured in steps, because seconds depend on the speed of this machine.
        stopped, most = climb.steps()[-1].number, number + plan.orphan_s / task.seconds + 2
        wrong = [] if stopped <= most else [f"killed after step {number}: the job stopped after step {stopped}"]
        found = climb.evidence(climb.run())
        after = next((step.number for step in found.steps if step.number > number and step.token != token), None)
        if after != stopped + 1:
            wrong.append(f"it stopped after step {stopped}, and went on with {after}: nothing was saved")
        return [*wrong, *checks.list_problems(found, task, plan)]


def make_hard_scenario() -> Scenario:
    """Returns a scenario with Spot for a while, on demand always, and a lost first answer."""
    world = World(0)
    world.never("*", "*", "*")
    world.once("us-central1", "*", "spot", lasts_s=70)
    world.always("us-east4", "*", "standard")
    return Scenario(0, world, faults={CREATE: [lose_response()]})


def kill_after(climb: Climb, number: int) -> list[tuple[str, int]]:
    """Kills the launcher during a request of a job that has reached step `number`; records the job's token and step."""
    kills: list[tuple[str, int]] = []

    def strike(call: Call) -> None:
        steps = [] if kills or is_launchers(call) else climb.steps()
        if steps and steps[-1].number >= number:
            climb.kill()
            kills.append((steps[-1].token, steps[-1].number))

    climb.cloud.on("storage.*", strike, before=True)
    return kills


def cancelled(folder: Path, speed: float) -> list[str]:
    task = work.StandIn()
    with open_climb(folder, task, Scenario.calm(), speed=speed, plan=plan_in_run(task)) as climb:
        run = climb.cloud.pipeline_jobs.going_on(work.RUN, work.STEP)
        process = climb.start()
        wait_for_step(climb, 2)
        climb.cloud.pipeline_jobs.stop(run)
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE_S)
        found, states = climb.evidence(code), [job.state for job in climb.region.jobs.values()]
        outcomes = [attempt["outcome"] for attempt in found.ladder["attempts"]]
        wrong = [] if code == 143 else [f"the launcher ended with {code}"]
        wrong += [] if states == [CANCELLED] else [f"the jobs are {states}"]
        return wrong + ([] if outcomes == ["cancelled"] else [f"the ladder has {outcomes}"])


def plan_in_run(task: work.StandIn) -> Plan:
    return replace(work.plan(task), location="us-central1")


def evicted(folder: Path, speed: float) -> list[str]:
    task = work.StandIn()
    with open_climb(folder, task, Scenario.calm(), speed=speed, plan=plan_in_run(task)) as climb:
        climb.cloud.pipeline_jobs.going_on(work.RUN, work.STEP)
        for step in (2, 12):
            process = climb.start()
            wait_for_step(climb, step)
            process.send_signal(signal.SIGTERM)
            until_s = climb.now_s + 30
            wait(lambda until_s=until_s: climb.now_s >= until_s)
            climb.kill()
        found = climb.evidence(climb.run())
        outcomes = [attempt["outcome"] for attempt in found.ladder["attempts"]]
        wrong = [] if outcomes == ["succeeded"] else [f"the ladder has {outcomes}"]
        return [*wrong, *checks.list_problems(found, task, climb.plan)]


def mistaken(folder: Path, speed: float) -> list[str]:
    task = work.StandIn(fails_at=2)
    with open_climb(folder, task, Scenario.calm(), speed=speed) as climb:
        found = climb.evidence(climb.run())
        states = [job.state for job in climb.region.jobs.values()]
        wrong = [] if found.code == 1 else [f"the launcher ended with {found.code}"]
        wrong += [] if states == [FAILED] else [f"the jobs are {states}"]
        outcomes = [attempt["outcome"] for attempt in found.ladder["attempts"]]
        wrong += [] if outcomes == ["user_error"] else [f"the ladder has {outcomes}"]
        has_error = "ValueError: a mistake in the program" in found.said
        return wrong + ([] if has_error else ["the launcher does not print the program's last lines"])


def paused(folder: Path, speed: float) -> list[str]:
    task = work.StandIn(steps=60)
    with open_climb(folder, task, Scenario.calm(), speed=speed) as climb:
        older = climb.start()
        wait_for_step(climb, 2)
        older.send_signal(signal.SIGSTOP)
        newer = climb.start()
        until_s = climb.now_s + 1200
        wait(lambda: newer.poll() is not None or climb.now_s >= until_s)
        for number in (signal.SIGTERM, signal.SIGCONT):
            older.send_signal(number)
        codes = older.wait(PATIENCE_S), newer.wait(PATIENCE_S)
        found = climb.evidence(codes[1])
        wrong = [] if codes == (143, 0) else [f"the launchers ended with {codes}"]
        outcomes = [attempt["outcome"] for attempt in found.ladder["attempts"]]
        wrong += [] if outcomes == ["succeeded"] else [f"the ladder has {outcomes}"]
        return [*wrong, *checks.list_problems(found, task, climb.plan)]


def twins(folder: Path, speed: float) -> list[str]:
    task = work.StandIn(steps=12)
    scenario = Scenario.calm()
    scenario.faults = {CREATE: [repeat_request()]}
    with open_climb(folder, task, scenario, speed=speed) as climb:
        found = climb.evidence(climb.run())
        at_work = [job for job in climb.region.jobs.values() if job.state == RUNNING]
        return [*checks.list_problems(found, task, climb.plan), *(["a second job still works"] if at_work else [])]


ALL = (orphaned, cancelled, evicted, mistaken, paused, twins, *restarts.ALL)
