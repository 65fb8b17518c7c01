"""`kill -9` of submit after every single request, and a repetition: one run, with the pins that it should have."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from killing import Victim, forks

from tools.emulator.cloud import Cloud
from vgp.settings import Settings
from vgp.vertex.runs import pipeline_job
from vgp.vertex.runs.attempts import start

from .forks import policy
from .pinning import BUCKET, HOUR, SPEC, night, over, read_pins

FIRST = f"{BUCKET}/1.json"
RETRY, KEY = {"retry": True}, {"key": "2026-11-21"}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    with forks(Path(__file__).with_name("forks.py"), tmp_path_factory.mktemp("forks")) as process:
        yield process


def begun(settings: Settings, options: dict[str, Any]) -> Any:
    body = pipeline_job.build_body(settings, SPEC, {}, key=options.get("key", ""))
    return start(settings, body, policy(**options))[0]


def never(cloud: Cloud, settings: Settings, options: dict[str, Any]) -> None:
    pass


def failed(cloud: Cloud, settings: Settings, options: dict[str, Any]) -> None:
    over(cloud, begun(settings, options), "failed")


def cancelled(cloud: Cloud, settings: Settings, options: dict[str, Any]) -> None:
    job = begun(settings, options)
    cloud.clock.advance(45)
    over(cloud, job, "cancelled")


def succeeded_last_night(cloud: Cloud, settings: Settings, options: dict[str, Any]) -> None:
    night(cloud, FIRST)
    over(cloud, begun(settings, options), "succeeded", 24 * HOUR)


@pytest.mark.parametrize(
    ("before", "options", "attempt", "pins"),
    [
        (never, {}, "1", None),
        (succeeded_last_night, {}, "2", None),
        (failed, RETRY, "2", FIRST),
        (cancelled, {**RETRY, **KEY}, "2", FIRST),
    ],
    ids=["first", "after a success", "retry", "retry of a key"],
)
def test_killed_after_any_request_and_repeated(
    cloud: Cloud,
    settings: Settings,
    process: subprocess.Popen[str],
    before: Callable[..., None],
    options: dict[str, Any],
    attempt: str,
    pins: str | None,
) -> None:
    victim = Victim(cloud, process)
    for requests in range(1, 12):
        cloud.pipeline_jobs.jobs.clear()
        night(cloud, FIRST, train="no memory")
        before(cloud, settings, options)
        cloud.clock.advance(1)
        lived = victim.work(spec=SPEC, options=options, requests=requests)
        job = begun(settings, options)
        assert read_pins(job)[::2] == (attempt, pins) and len(cloud.jobs) == int(attempt)
        if lived:
            assert requests > 2, "too few requests: nothing was killed"
            return
    raise AssertionError("submit never came to its end")
