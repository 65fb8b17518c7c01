"""Runs on the loopback cloud whose jobs are looked at while they go on."""

from collections.abc import Callable

import pytest

from tools.emulator.cloud import Cloud
from vgp.vertex.runs.remote_run import Run


@pytest.fixture
def starts_jobs_itself(cloud: Cloud) -> None:
    cloud.called_by_test.add("aiplatform.projects.locations.customJobs.create")


@pytest.fixture
def running(cloud: Cloud, start: Callable[..., str], look: Callable[[str], Run]) -> Run:
    """Its step train runs."""
    cloud.script("resolve", seconds=0)
    cloud.script("prepare", seconds=60)
    cloud.script("train", seconds=600)
    name = start()
    cloud.clock.advance(120)
    return look(name)
