"""Runs one climb to its end: the loopback cloud, the launcher as a process, and the kills of the scenario."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tools.drills.capacity import work as works
from tools.drills.capacity.scenario import NodeLoss, Scenario
from tools.drills.capacity.standin import TRACE_VARIABLE
from tools.drills.capacity.work import Work
from tools.emulator.cloud import Cloud
from tools.emulator.region import Region
from tools.emulator.working_job import RUNNING, WorkingJob
from vgp.protocol.capacity.plan import Plan

#: Real seconds between two polls; limit of a climb in real seconds, and in the cloud's seconds if that is later.
LOOK_S, MOST_S, MOST_CLOUD_S = 0.01, 900.0, 20_000.0
#: Real seconds to end all processes of a climb after its limit.
LAST_S = 20.0


@dataclass
class Step:
    """A step of the work, as recorded by its program."""

    token: str
    job: str
    number: int
    at_ns: int


@dataclass
class Evidence:
    """The records of a finished climb."""

    code: int | None
    said: str
    began: datetime
    over: datetime
    region: Region
    ladder: dict[str, Any]
    steps: list[Step]
    model: bytes | None
    gcp_resources: str
    launchers: int
    #: The kills of the drill: launcher, node, silent node, job.
    kills: Counter[str] = field(default_factory=Counter)


class Climb:
    """A climb, which starts one launcher at a time until one ends by itself, as Vertex AI does."""

    def __init__(self, cloud: Cloud, folder: Path, work: Work, scenario: Scenario, plan: Plan | None = None) -> None:
        self.cloud, self.folder, self.work, self.scenario = cloud, folder, work, scenario
        self.plan = plan or work.plan(scenario.deadline_s)
        self.region = cloud.custom_jobs.works(folder, scenario.world)
        self.region.quotas, self.region.error_late_s = scenario.quotas, scenario.error_late_s
        self.region.machines.gpus_as_processes = True
        work.lay(self.region.machines.mount)
        self.region.machines.environment[TRACE_VARIABLE] = str(folder / "trace")
        cloud.custom_jobs.list_lag_s = scenario.list_lag_s
        for method, faults in scenario.faults.items():
            cloud.fail(method, *faults)
        self.task, self.launchers = 4_000_000_000, 0
        self.kills: Counter[str] = Counter()
        self.began = cloud.clock.now()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def now_s(self) -> float:
        return (self.cloud.clock.now() - self.began).total_seconds()

    def start(self) -> "subprocess.Popen[bytes]":
        self.launchers += 1
        words = ["--plan", self.plan.to_json(), "--executor_input", works.executor_input(self.work, self.task)]
        with open(self.folder / f"launcher-{self.launchers}.log", "wb") as log:
            self.process = subprocess.Popen(
                [*self.work.launcher, *words], env=self.region.machines.variables,
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        return self.process

    def kill(self) -> None:
        assert self.process
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.kills["launcher"] += 1

    def run(self, again_s: float = 0) -> int | None:
        """Returns the exit code of the launcher that ended by itself, or None if none did in time.

        Args:
            again_s: Seconds until a launcher that a test killed is restarted.
        """
        kills = list(zip(self.scenario.launcher_kills, self.scenario.moves, strict=True))
        losses, jobs = list(self.scenario.node_losses), list(self.scenario.job_kills)
        process, until, again = self.start(), time.monotonic() + MOST_S, None
        while time.monotonic() < until or self.now_s < MOST_CLOUD_S:
            if again is not None and self.now_s >= again:
                process, again = self.start(), None
            if again is None and (code := process.poll()) is not None:
                if code != -signal.SIGKILL:
                    return code
                again = self.now_s + again_s
            if again is None and kills and self.now_s >= kills[0][0][0]:
                (_, pause_s), moves = kills.pop(0)
                self.kill()
                self.task += moves
                again = self.now_s + pause_s
            if losses and self.now_s >= losses[0].at_s:
                self.lose(losses.pop(0))
            if jobs and self.now_s >= jobs[0]:
                jobs.pop(0)
                self.kill_job()
            time.sleep(LOOK_S)
        self.kill()
        return None

    def lose(self, loss: NodeLoss) -> None:
        """Removes a machine of the running job."""
        for job in self.at_work():
            noticed = loss.noticed or len(job.machines) == 1
            job.lose(job.machines[loss.node].name, self.cloud.clock.now(), noticed=noticed)
            self.kills["node" if noticed else "silent node"] += 1

    def kill_job(self) -> None:
        """Removes all machines of the running Spot job at once."""
        for job in self.at_work():
            if job.place.strategy == "spot":
                job.take(self.cloud.clock.now())
                self.kills["job"] += 1

    def at_work(self) -> Iterator[WorkingJob]:
        with self.cloud.lock:
            yield from [job for job in self.region.jobs.values() if job.state == RUNNING and not job.ending]

    def read(self, uri: str) -> bytes | None:
        """Reads an object without the faults of the cloud."""
        from urllib.parse import quote

        bucket, _, name = uri.removeprefix("gs://").partition("/")
        self.cloud.storage.upstream()
        status, _, body = self.cloud.storage.ask("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media")
        return body if status == 200 else None

    def control(self, name: str) -> dict[str, Any]:
        """Reads a document of the control folder."""
        from vgp.launch.capacity.step_run import StepRun

        given = StepRun.read(works.executor_input(self.work, self.task))
        return json.loads(self.read(f"{given.control_folder(works.STEP)}/{name}") or b"{}")

    def evidence(self, code: int | None) -> Evidence:
        folder = works.output_folder(self.task)
        return Evidence(
            code, self.read_logs(), self.began, self.cloud.clock.now(), self.region, self.control("ladder.json"),
            self.steps(),
            self.work.find_model(self.read, self.region.machines.mount, f"{folder}/model"),
            (self.read(f"{folder}/gcp_resources") or b"").decode(), self.launchers, self.kills,
        )  # fmt: skip

    def read_logs(self) -> str:
        logs = (self.folder / f"launcher-{number}.log" for number in range(1, self.launchers + 1))
        return "\n".join(f"--- {log.stem}\n{log.read_text(errors='replace')}" for log in logs)

    def steps(self) -> list[Step]:
        return steps_in(self.folder / "trace")


def steps_in(trace: Path) -> list[Step]:
    """Returns the recorded steps in order of time."""
    lines = [line.rsplit(" ", 3) for line in trace.read_text().splitlines()] if trace.exists() else []
    return sorted(
        (Step(token, job, int(number), int(at)) for token, job, number, at in lines), key=lambda step: step.at_ns
    )


def end_with_the_drill() -> None:
    """Ends this process and its children when the parent process ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    threading.Thread(target=_end_after, args=(os.getppid(),), daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    while True:  # the pool catches the first signal, which ends the climb; the next one ends the process
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(LAST_S)


def run_climb(folder: Path, work: Work, scenario: Scenario, *, speed: float, plan: Plan | None = None) -> Evidence:
    """Runs a climb to its end in its own cloud, and returns its records."""
    with open_climb(folder, work, scenario, speed=speed, plan=plan) as climb:
        return climb.evidence(climb.run())


@contextmanager
def open_climb(
    folder: Path, work: Work, scenario: Scenario, *, speed: float, plan: Plan | None = None
) -> Iterator[Climb]:
    """Yields a climb in its own cloud, before its first launcher; empties the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with Cloud() as cloud:
        cloud.clock.run(speed)
        climb = Climb(cloud, folder, work, scenario, plan)
        try:
            yield climb
        finally:
            if climb.process and climb.process.poll() is None:
                climb.kill()
        if cloud.crashed:
            raise cloud.crashed
