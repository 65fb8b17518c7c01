"""A launcher on the loopback cloud, whose clock moves as the launcher waits."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import pytest
from google.auth.crypt import RSASigner

from tools.emulator.cloud import Cloud
from tools.emulator.custom_jobs import NAMES
from vgp.base.clock import Clock
from vgp.launch.capacity import attempt
from vgp.launch.capacity.__main__ import main
from vgp.launch.capacity.step_run import StepRun
from vgp.protocol.capacity.control_folder import ControlFolder
from vgp.protocol.capacity.plan import EXECUTOR_INPUT, Plan, PlannedRung

CREATE = "aiplatform.projects.locations.customJobs.create"
GET = "aiplatform.projects.locations.customJobs.get"
LIST = "aiplatform.projects.locations.customJobs.list"
CANCEL = "aiplatform.projects.locations.customJobs.cancel"
STOCKOUT = "Resources are insufficient in region: us-central1. Try a different region or use a different accelerator."
QUOTA = (
    "The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
)
EXITED = "The replica workerpool0-0 exited with a non-zero status of {}. Termination reason: Error."
ROOT = "gs://test-bucket/runs"


def rung(name: str = "spot", **changed: Any) -> PlannedRung:
    container = {"imageUri": "image", "command": ["train"], "args": ["--executor_input", EXECUTOR_INPUT]}
    pool = {"machineSpec": {"machineType": "g2-standard-4"}, "replicaCount": 1, "containerSpec": container}
    job = {"displayName": "train", "labels": {"team": "a"}, "jobSpec": {"workerPoolSpecs": [pool], "network": ""}}
    given = {"name": name, "region": "us-central1", "strategy": "spot", "timeout_s": 7200.0, "usd_per_hour": 3.6}
    return PlannedRung(**{**given, "price_date": "2026-07-30", "job": job, **changed})


def executor_input(task: int = 1234567, run: str = "run-1") -> str:
    """Of one attempt of Vertex AI at the task `train`: each has an id of its own."""
    folder = f"runs/123456789012/{run}/train_-{task}"
    outputs = {
        "artifacts": {"model": {"artifacts": [{"name": f"m-{task}", "uri": f"gs://test-bucket/{folder}/model"}]}},
        "parameters": {"gcp_resources": {"outputFile": f"/gcs/test-bucket/{folder}/gcp_resources"}},
        "outputFile": f"/gcs/test-bucket/{folder}/executor_output.json",
    }
    return json.dumps({"inputs": {"parameterValues": {"epochs": 3}}, "outputs": outputs})


class Killed(BaseException):
    """SIGKILL, as far as one process can do that to itself."""


class CloudClock(Clock):
    """The cloud's clock, moved by every sleep; planned events happen after a sleep, once its time has come."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.planned: list[tuple[float, Callable[[], Any]]] = []

    def now(self) -> float:
        return self.cloud.clock.now().timestamp()

    def sleep(self, seconds: float) -> None:
        self.cloud.clock.advance(seconds)
        for each in [each for each in self.planned if each[0] <= self.now()]:
            self.planned.remove(each)
            each[1]()


def ladder_of(*rungs: PlannedRung, **changed: Any) -> Plan:
    return Plan(**{"step": "train", "rungs": rungs, "project": "test-project", **changed})


@dataclass
class Launcher:
    """Starts launchers of one step, one after another, and reads the files they left."""

    cloud: Cloud
    clock: CloudClock
    plan: Plan = field(default_factory=lambda: ladder_of(rung()))
    stopped: bool = False
    #: What jobs do: the first ones, and those that waited beside another.
    scripts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    #: The content of the heartbeat whenever a job was created.
    allowed_at_create: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cloud.on(CREATE, lambda call: self.allowed_at_create.append(self.heartbeat["attempt"]), before=True)

    def run(self, task: int = 1234567) -> int:
        """The exit code; -9 if it was killed."""
        try:
            return main(["--plan", self.plan.to_json(), "--executor_input", executor_input(task)], self.clock)
        except Killed:
            return -9

    def at(self, seconds: float, act: Callable[[], Any]) -> None:
        """So much later than now."""
        self.clock.planned.append((self.clock.now() + seconds, act))

    def kill(self) -> None:
        raise Killed

    def stop_once(self) -> None:
        """SIGTERM to the main thread, in which the launcher is."""
        if not self.stopped:
            self.stopped = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def in_a_run(self, run: str = "run-1") -> Any:
        """Has the step be that of a PipelineJob that goes on, and its launcher know where that is."""
        self.plan = replace(self.plan, location=self.cloud.region)
        return self.cloud.pipeline_jobs.going_on(run, "train")

    def cancel_in_console(self) -> None:
        (job,) = self.cloud.custom_jobs.jobs.values()
        job.cancel(self.cloud.clock.now())

    @property
    def first_job(self) -> Any:
        return next(iter(self.cloud.custom_jobs.jobs.values()))

    def hold(self, job: Any, seconds: float) -> None:
        """Its machines come so much later."""
        job.waits_s = seconds

    def progress(self, *, step: int, saved_step: int, steps: int, **more: int) -> None:
        """Writes the progress of the current job, as its first machine does."""
        token = self.ladder["attempts"][-1]["token"]
        report = {"format": 1, "attempt": token, "step": step, "saved_step": saved_step, "steps": steps, **more}
        self.folder.put("progress.json", json.dumps(report | {"seconds_per_step": 2.0}))

    def jobs_do(self, *jobs: dict[str, Any]) -> None:
        """What the next jobs do, one after another; those after them what the last does."""
        self.scripts["first"] = list(jobs)
        self.cloud.custom_jobs.made = self._script

    def waiting_jobs_do(self, *jobs: dict[str, Any]) -> None:
        """The same of jobs that wait beside another."""
        self.scripts["waiting"] = list(jobs)
        self.cloud.custom_jobs.made = self._script

    def _script(self, message: Any) -> None:
        left = self.scripts.get("waiting" if is_waiting(message) else "first", [{}])
        script = left.pop(0) if len(left) > 1 else left[0]
        self.cloud.custom_jobs.seconds = script.get("seconds", 60)
        self.cloud.custom_jobs.fail = script.get("fail")
        self.cloud.custom_jobs.waits_s = script.get("waits_s", 10)
        self.cloud.custom_jobs.error_late_s = script.get("error_late_s", 0)

    @cached_property
    def folder(self) -> ControlFolder:
        return ControlFolder(StepRun.read(executor_input()).control_folder("train"))

    @property
    def ladder(self) -> dict[str, Any]:
        document = self.folder.read("ladder.json")
        assert document
        return document.content

    @property
    def heartbeat(self) -> dict[str, Any]:
        document = self.folder.read("heartbeat.json")
        assert document
        return document.content

    @property
    def outcomes(self) -> list[str | None]:
        return [each["outcome"] for each in self.ladder["attempts"]]

    @property
    def jobs(self) -> dict[str, str]:
        """State of every job that was made, by its name."""
        now = self.cloud.clock.now()
        return {name: int_state(job.render(now)) for name, job in self.cloud.custom_jobs.jobs.items()}

    @property
    def calls(self) -> list[str]:
        return [call.method for call in self.cloud.requests]


def is_waiting(message: Any) -> bool:
    """Whether a job was asked for beside another, whatever became of it."""
    return str(message.labels["training-attempt"]).startswith("next-")


def int_state(message: Any) -> str:
    return NAMES[message.state]


@pytest.fixture(autouse=True, scope="session")
def one_key() -> Iterator[None]:
    """The cloud's key is read once: a launcher reads it at each start, which takes longer than its requests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RSASigner, "from_string", staticmethod(cache(RSASigner.from_string)))
        yield


@pytest.fixture(autouse=True)
def own_sigterm() -> Iterator[None]:
    """A launcher keeps the handler of SIGTERM: its process ends with it, that of the tests does not."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def launcher(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setattr(attempt, "POLL_S", 150.0)
    return Launcher(cloud, CloudClock(cloud))
