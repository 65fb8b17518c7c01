import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.emulator.cloud import Cloud
from tools.emulator.fixture import cloud, without_lookups
from vgp.base.storage import dataflow as jobs
from vgp.data.beam import dataflow as runner
from vgp.data.beam import dataflow_job, worker_functions

__all__ = ["cloud", "without_lookups"]

HERE = str(Path(__file__).parent)
SETTINGS = {
    "project": "test-project", "region": "us-central1", "temp": "gs://test-bucket/temp",
    "image": "us-central1-docker.pkg.dev/test-project/images/training@sha256:1",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def beam_is_quiet():
    """Beam's import warns of missing Google packages; tests take warnings for errors."""
    logging.getLogger().addHandler(handler := logging.NullHandler())
    yield
    logging.getLogger().removeHandler(handler)


@pytest.fixture(autouse=True)
def letters(monkeypatch) -> None:
    """The module of the small task can be imported, by workers that are processes too."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setenv("PYTHONPATH", f"{HERE}:{Path(__file__).parents[4]}", prepend=":")


@pytest.fixture
def allow(monkeypatch):
    """Sets what Dataflow may use."""

    def allowed(**settings):
        monkeypatch.setenv("PREPARE_ENGINES", json.dumps({"dataflow": SETTINGS | settings}))

    return allowed


@pytest.fixture
def dataflow(cloud, allow, monkeypatch) -> Iterator[Cloud]:
    """A Google Cloud in which preparations go to Dataflow, and are looked at often."""
    from apache_beam.internal.gcp import auth
    from apache_beam.utils.retry import Clock

    monkeypatch.setattr(auth._Credentials, "_credentials_init", False)
    monkeypatch.setattr(jobs, "RETRY_AFTER_S", 0.01)
    monkeypatch.setattr(dataflow_job, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(dataflow_job, "LINE_EVERY_S", 0.0)
    monkeypatch.setattr(dataflow_job, "REASON_WITHIN_S", 0.2)
    monkeypatch.setattr(runner, "SEPARATE_PROCESSES", False)  # a process for each test takes more than a second
    monkeypatch.setattr(Clock, "sleep", lambda self, seconds: None)  # between tries at a refusal, half a minute
    allow()
    yield cloud
    if worker_functions._get_child_pool.cache_info().currsize:  # it knows the storage of this cloud
        worker_functions._get_child_pool().__exit__(None, None, None)
        worker_functions._get_child_pool.cache_clear()
