"""`kill -9` of apply after every single request, and a repetition: one schedule, as declared."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from killing import Victim, forks

from tools.emulator.cloud import Cloud
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.schedules import schedule_fields, schedule_list
from vgp.vertex.schedules.reconcile import apply

from .conftest import NIGHTLY, SMALL, make


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    with forks(Path(__file__).with_name("applying.py"), tmp_path_factory.mktemp("forks")) as process:
        yield process


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
            parent=resource_names.location(settings), schedule=make(settings).message
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
    cloud: Cloud,
    settings: Settings,
    process: subprocess.Popen[str],
    tmp_path: Path,
    before: Callable[[Settings], None],
    declared: dict[str, Any],
) -> None:
    spec, victim = tmp_path / "spec.json", Victim(cloud, process)
    spec.write_text(json.dumps(SMALL))
    wanted = make(settings, **declared)
    for requests in range(1, 30):
        cloud.live_schedules.live.clear()
        before(settings)
        lived = victim.work(declared={**NIGHTLY, **declared}, spec=str(spec), requests=requests)
        apply(settings, wanted)
        (schedule,) = schedule_list.existing_schedules(settings)
        assert schedule_fields.list_changes(wanted.message, schedule) == []
        assert schedule_list.read_state(schedule) == ("paused" if wanted.declared.paused else "active")
        if lived:
            assert requests > 3, "too few requests: nothing was killed"
            return
    raise AssertionError("apply never came to its end")
