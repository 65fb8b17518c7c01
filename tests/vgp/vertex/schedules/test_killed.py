"""`kill -9` of apply after every single request, and a repetition: one schedule, as declared."""

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
from vgp.vertex import clients, names
from vgp.vertex.schedules import fields, live
from vgp.vertex.schedules.apply import apply

from .conftest import NIGHTLY, SMALL, make

REPOSITORY = Path(__file__).parents[4]


class Victim:
    """Applies a declaration in a process of its own, which dies after its n-th request was handled."""

    def __init__(self, cloud: Cloud, forks: subprocess.Popen[str], spec: Path) -> None:
        self.cloud, self.forks, self.spec = cloud, forks, spec
        self.left = 0
        self.known = threading.Event()
        cloud.on("aiplatform.*", self.strike)

    def apply(self, declared: dict[str, Any], *, requests: int) -> bool:
        """Whether it lived to its end."""
        assert self.forks.stdin
        assert self.forks.stdout
        given = {"environment": self.cloud.environment, "declared": {**NIGHTLY, **declared}, "spec": str(self.spec)}
        self.left = requests
        self.known.clear()
        self.forks.stdin.write(json.dumps(given) + "\n")
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
    """The process that forks for every apply: see applying.py."""
    command = [sys.executable, str(Path(__file__).with_name("applying.py"))]
    folder, path = tmp_path_factory.mktemp("forks"), {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=path, cwd=folder
    ) as process:
        yield process


@pytest.fixture
def victim(cloud: Cloud, forks: subprocess.Popen[str], tmp_path: Path) -> Victim:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(SMALL))
    return Victim(cloud, forks, spec)


def nothing(settings: Settings) -> None:
    pass


def one(settings: Settings) -> None:
    apply(settings, make(settings))


def one_with_an_end(settings: Settings) -> None:
    apply(settings, make(settings, end="2040-01-01", max_runs=7))


def one_that_is_paused(settings: Settings) -> None:
    apply(settings, make(settings, paused=True))


def three(settings: Settings) -> None:
    for _ in range(3):
        clients.schedule_service(settings).create_schedule(
            parent=names.location(settings), schedule=make(settings).message
        )


@pytest.mark.parametrize(
    ("before", "declared"),
    [
        (nothing, {"paused": True}),
        (one, {"cron": "1 1 * * *", "parameters": {"data": "gs://a/b"}, "paused": True}),
        (one_that_is_paused, {"cron": "1 1 * * *"}),
        (one_with_an_end, {}),
        (three, {"queueing": True}),
    ],
    ids=["create", "update and pause", "update and resume", "replace", "duplicates"],
)
def test_killed_after_any_request_and_repeated(
    cloud: Cloud, settings: Settings, victim: Victim, before: Callable[[Settings], None], declared: dict[str, Any]
) -> None:
    wanted = make(settings, **declared)
    for requests in range(1, 30):
        cloud.live_schedules.live.clear()
        before(settings)
        lived = victim.apply(declared, requests=requests)
        apply(settings, wanted)
        (schedule,) = live.schedules(settings)
        assert fields.changes(wanted.message, schedule) == []
        assert live.state(schedule) == ("paused" if wanted.declared.paused else "active")
        if lived:
            assert requests > 3, "too few requests: nothing was killed"
            return
    raise AssertionError("apply never came to its end")
