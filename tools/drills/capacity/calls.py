"""Kills the launcher at every call to Google: before the call is handled, and between its handling and its answer.

A climb without a kill records the calls in order; each then gets its own climb. The climb has a preemption, a waiting
job that is refused, one that takes over, and a job that succeeds, so it has every kind of call. Of repeated calls
(polls and heartbeats) the first two after each other kind of call are used.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.drills.capacity import checks, climb, rows, work
from tools.drills.capacity.scenario import Scenario
from tools.emulator.call import Call
from tools.emulator.capacity import World
from tools.emulator.errors import ApiError
from vgp.protocol.capacity.plan import Plan

#: Seconds of the cloud's time after which a killed launcher is started again.
AGAIN_S = 20.0
#: Of calls of one kind that follow one of the same kind, how many are taken.
ALIKE = 2


@dataclass(frozen=True)
class Kill:
    """A kill of the launcher at the n-th call of a kind, before or after the server handles it."""

    kind: str
    number: int
    before: bool

    @property
    def name(self) -> str:
        return f"{'before' if self.before else 'after'}-{self.kind}-{self.number}".replace("/", "_")


def scenario() -> Scenario:
    """Returns a scenario with Spot for one job, then none for a while, and on demand always."""
    world = World(0)
    world.once("us-central1", "*", "spot", lasts_s=70, gone_s=450)
    world.always("us-east4", "*", "standard")
    return Scenario(0, world)


def task() -> work.StandIn:
    return work.Handover(steps=60, every=2)


def plan() -> Plan:
    """Returns a ladder of two rungs: Spot, and on demand."""
    return task().plan(None)


def kind_of(call: Call) -> str:
    """Returns the kind of a call: `create`, or `storage.objects.insert of heartbeat.json`."""
    method = call.method.rpartition(".")[2]
    if not call.method.startswith("storage"):
        return f"{call.method.split('.')[-2]}.{method}"
    name = call.params.get("name") or call.query.get("name") or call.path
    return f"{method}.{name.rpartition('/')[2].rpartition('%2F')[2]}"


def is_launchers(call: Call) -> bool:
    """Whether the launcher made the call, and not a job or the drill."""
    agent = call.headers.get("user-agent", "") + call.headers.get("x-goog-api-client", "")
    return call.method.startswith("aiplatform") or "gcloud" in agent or "gl-python" in agent


def list_kills(folder: Path, speed: float) -> list[Kill]:
    """Lists all kills of a climb."""
    seen: list[str] = []
    lock = threading.Lock()

    def note(call: Call) -> None:
        if is_launchers(call):
            with lock:
                seen.append(kind_of(call))

    found = run_climb(folder, speed, lambda climbing: climbing.cloud.on("*", note, before=True))
    assert not checks.list_problems(found, task(), plan()), found.said
    kills, times = [], Counter[tuple[str, str]]()
    for index, kind in enumerate(seen):
        pair = (seen[index - 1] if index else "", kind)
        times[pair] += 1
        if times[pair] <= ALIKE:
            number = seen[: index + 1].count(kind)
            kills += [Kill(kind, number, before) for before in (True, False)]
    return kills


def run_kill(kill: Kill, folder: Path, speed: float) -> dict[str, Any]:
    """Runs a climb with the kill; returns its row of the table."""
    began = time.monotonic()
    left = [kill.number]
    lock = threading.Lock()

    def arm(climbing: climb.Climb) -> None:
        def strike(call: Call) -> None:
            if not is_launchers(call) or kind_of(call) != kill.kind:
                return
            with lock:
                left[0] -= 1
                struck = left[0] == 0
            if struck and climbing.process:
                os.killpg(climbing.process.pid, signal.SIGKILL)
                climbing.process.wait()
                if kill.before:
                    raise ApiError(499, "The client is gone, and nothing was done.")

        climbing.cloud.on("*", strike, before=kill.before)

    found = run_climb(folder, speed, arm)
    problems = checks.list_problems(found, task(), plan())
    name = kill.name + (" (not reached)" if left[0] > 0 else "")  # the number of polls depends on time
    return rows.row(name, found, task(), problems, time.monotonic() - began)


def run_climb(folder: Path, speed: float, arm: Callable[[climb.Climb], None]) -> climb.Evidence:
    with climb.open_climb(folder, task(), scenario(), speed=speed, plan=plan()) as climbing:
        arm(climbing)
        return climbing.evidence(climbing.run(again_s=AGAIN_S))
