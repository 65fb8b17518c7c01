"""The settings with which the tests find the loopback cloud; each test signs in anew."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tools.emulator.cloud import Cloud
from vgp.base.clock import Clock
from vgp.settings import Settings, load
from vgp.vertex import clients
from vgp.vertex.runs import pipeline_job
from vgp.vertex.runs.remote_run import Run, read

TRAINING = json.loads((Path(__file__).parents[2] / "golden/training.json").read_text())


@pytest.fixture
def settings(cloud: Cloud) -> Settings:
    return load()


class CloudClock(Clock):
    """Waiting moves the loopback cloud's time on, and takes none of ours."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.pauses: list[float] = []

    def now(self) -> float:
        return self.cloud.clock.now().timestamp()

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.cloud.clock.advance(seconds)


@pytest.fixture
def clock(cloud: Cloud) -> CloudClock:
    return CloudClock(cloud)


@pytest.fixture
def start(cloud: Cloud, settings: Settings) -> Callable[..., str]:
    """Starts a run, of the training pipeline if no other spec is given, and returns its resource name.

    `changes` are settings of this run.
    """

    def started(
        spec: Mapping[str, Any] = TRAINING,
        values: Mapping[str, Any] | None = None,
        *,
        id: str = "",
        labels: Mapping[str, str] | None = None,
        **changes: Any,
    ) -> str:
        body = pipeline_job.build_body(settings.model_copy(update=changes), spec, values or {}, labels=labels)
        return str(pipeline_job.create(settings, body, id or pipeline_job.job_id(body))[0].name)

    return started


@pytest.fixture
def look(cloud: Cloud) -> Callable[[str], Run]:
    """The run of that name as it is now, as a client reads it."""

    def looked(name: str) -> Run:
        client = clients.pipeline_service(load())
        return read(client.get_pipeline_job(name=name, **clients.reading()))

    return looked
