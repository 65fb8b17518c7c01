"""A launcher on the loopback cloud, whose clock moves as the launcher waits."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from loopback.cloud import Cloud

from vgp.inside.capacity.__main__ import main
from vgp.inside.capacity.clock import Clock
from vgp.inside.capacity.folder import ControlFolder
from vgp.inside.capacity.plan import EXECUTOR_INPUT, Plan, PlannedRung

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
    return PlannedRung(**{**given, "job": job, **changed})


def executor_input(task: int = 1234567, run: str = "run-1") -> str:
    """Of one attempt of Vertex AI at the task `train`: each has an id of its own."""
    folder = f"runs/123456789012/{run}/train_-{task}"
    outputs = {
        "artifacts": {"model": {"artifacts": [{"name": f"m-{task}", "uri": f"gs://test-bucket/{folder}/model"}]}},
        "parameters": {"gcp_resources": {"outputFile": f"/gcs/test-bucket/{folder}/gcp_resources"}},
        "outputFile": f"/gcs/test-bucket/{folder}/executor_output.json",
    }
    return json.dumps({"inputs": {"parameterValues": {"epochs": 3}}, "outputs": outputs})


class CloudClock(Clock):
    """The cloud's clock, moved by whoever sleeps; `before` is called first, with the time."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.before: Callable[[float], None] = lambda now: None

    def now(self) -> float:
        return self.cloud.clock.now().timestamp()

    def sleep(self, seconds: float) -> None:
        self.before(self.now())
        self.cloud.clock.advance(seconds)


@dataclass
class Launcher:
    """Starts launchers of one step, one after another, and tells what they left."""

    cloud: Cloud
    clock: CloudClock
    plan: Plan = field(default_factory=lambda: Plan(step="train", rungs=(rung(),), project="test-project"))

    def run(self, task: int = 1234567) -> int:
        return main(["--plan", self.plan.to_json(), "--executor_input", executor_input(task)], self.clock)

    def jobs_do(self, *jobs: dict[str, Any]) -> None:
        """What the next jobs do, one after another; those after them what the last does."""
        left = list(jobs)

        def next_job(call: Any) -> None:
            script = left.pop(0) if len(left) > 1 else left[0]
            self.cloud.custom_jobs.seconds = script.get("seconds", 60)
            self.cloud.custom_jobs.fail = script.get("fail")

        self.cloud.on(CREATE, next_job, before=True)

    @property
    def folder(self) -> ControlFolder:
        from vgp.inside.capacity.step_run import StepRun

        return ControlFolder(StepRun.read(executor_input()).control_folder("train"))

    @property
    def ladder(self) -> dict[str, Any]:
        document = self.folder.read("ladder.json")
        assert document
        return document.content

    @property
    def outcomes(self) -> list[str | None]:
        return [attempt["outcome"] for attempt in self.ladder["attempts"]]

    @property
    def jobs(self) -> dict[str, str]:
        """State of every job that was made, by its name."""
        now = self.cloud.clock.now()
        return {name: int_state(job.shown(now)) for name, job in self.cloud.custom_jobs.jobs.items()}

    @property
    def calls(self) -> list[str]:
        return [call.method for call in self.cloud.requests]


def int_state(message: Any) -> str:
    from loopback.custom_jobs import NAMES

    return NAMES[message.state]


@pytest.fixture
def launcher(cloud: Cloud) -> Iterator[Launcher]:
    import signal

    before = signal.getsignal(signal.SIGTERM)
    yield Launcher(cloud, CloudClock(cloud))
    signal.signal(signal.SIGTERM, before)
