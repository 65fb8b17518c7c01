"""`kill -9` of submit after every single request, and a repetition: one run, with the pins that it should have."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback.cloud import Cloud

from vgp.settings import Settings
from vgp.vertex.runs import pipeline_job
from vgp.vertex.runs.attempts import start

from .forks import policy
from .pinning import BUCKET, HOUR, SPEC, night, over, told

REPOSITORY = Path(__file__).parents[4]
FIRST = f"{BUCKET}/1.json"
RETRY, KEY = {"retry": True}, {"key": "2026-11-21"}


class Victim:
    """Submits in a process of its own, which dies after its n-th request was handled."""

    def __init__(self, cloud: Cloud, forks: subprocess.Popen[str]) -> None:
        self.cloud, self.forks = cloud, forks
        self.left = 0
        self.known = threading.Event()
        cloud.on("aiplatform.*", self.strike)

    def submit(self, options: dict[str, Any], *, requests: int) -> bool:
        """Whether it lived to its end."""
        assert self.forks.stdin and self.forks.stdout
        self.left = requests
        self.known.clear()
        call = {"environment": self.cloud.environment, "spec": SPEC, "options": options}
        self.forks.stdin.write(json.dumps(call) + "\n")
        self.forks.stdin.flush()
        self.id = int(self.forks.stdout.readline())
        self.known.set()
        code = int(self.forks.stdout.readline())
        self.left = 0
        assert code in (0, -signal.SIGKILL)
        return code == 0

    def strike(self, _: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.known.wait()
            os.kill(self.id, signal.SIGKILL)


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(Path(__file__).with_name("forks.py"))]
    folder, path = tmp_path_factory.mktemp("forks"), {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=path, cwd=folder
    ) as process:
        yield process


def begun(settings: Settings, options: dict[str, Any]) -> Any:
    body = pipeline_job.body(settings, SPEC, {}, key=options.get("key", ""))
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
    forks: subprocess.Popen[str],
    before: Callable[..., None],
    options: dict[str, Any],
    attempt: str,
    pins: str | None,
) -> None:
    victim = Victim(cloud, forks)
    for requests in range(1, 12):
        cloud.pipeline_jobs.jobs.clear()
        night(cloud, FIRST, train="no memory")
        before(cloud, settings, options)
        cloud.clock.advance(1)
        lived = victim.submit(options, requests=requests)
        job = begun(settings, options)
        assert told(job)[::2] == (attempt, pins) and len(cloud.jobs) == int(attempt)
        if lived:
            assert requests > 2, "too few requests: nothing was killed"
            return
    raise AssertionError("submit never came to its end")
