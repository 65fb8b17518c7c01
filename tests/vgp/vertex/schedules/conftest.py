"""Declared schedules over the committed training pipeline, without compiling it."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tools.emulator.cloud import Cloud
from vgp.settings import Schedule, Settings
from vgp.vertex.schedules.declared_schedule import Declaration, declaration

SPEC = json.loads((Path(__file__).parents[3] / "golden/training.json").read_text())
#: One of its steps and the parameters that tests give, where the pipeline is only carried about.
PREPARE = {
    "componentRef": {"name": "comp-prepare"}, "taskInfo": {"name": "prepare"}, "cachingOptions": {},
    "inputs": {"parameters": {"task": {"componentInputParameter": "task"}}},
}  # fmt: skip
PARAMETERS = ("data", "task", "task_options", "epochs", "seed", "champion", "as_of", "pins")
SMALL = {
    **SPEC,
    "components": {"comp-prepare": SPEC["components"]["comp-prepare"]},
    "deploymentSpec": {"executors": {"exec-prepare": SPEC["deploymentSpec"]["executors"]["exec-prepare"]}},
    "root": {
        "dag": {"tasks": {"prepare": PREPARE}},
        "inputDefinitions": {
            "parameters": {name: SPEC["root"]["inputDefinitions"]["parameters"][name] for name in PARAMETERS}
        },
    },
}
NIGHTLY = {"pipeline": "training", "cron": "30 3 * * *", "time_zone": "Europe/Berlin"}


def change_of_clocks(month: int) -> date:
    """The Sunday of next year on which Berlin's clocks change: the last of March, or of October."""
    last = date(datetime.now(UTC).year + 1, month, 31)
    return last - timedelta(days=(last.weekday() + 1) % 7)


def make(settings: Settings, name: str = "nightly", spec: dict[str, Any] = SMALL, **declared: Any) -> Declaration:
    """The schedule `name` of these settings, declared like NIGHTLY but for `declared`."""
    schedule = Schedule.model_validate({**NIGHTLY, **declared})
    known = settings.model_copy(update={"schedules": {**settings.schedules, name: schedule}})
    return declaration(known, name, spec, schedule.parameters)


@pytest.fixture
def cloud(cloud: Cloud) -> Cloud:
    """At noon: nights, and runs that go on over them, fall where they fall at any hour of ours."""
    cloud.clock.wait_for_noon()
    return cloud


@pytest.fixture
def declare(settings: Settings) -> Callable[..., Declaration]:
    return partial(make, settings)


def foreign(cloud: Cloud, settings: Settings, name: str = "made in the console") -> Any:
    """A schedule made through Google's client, not by vgp."""
    from vgp.vertex import clients, resource_names

    message = make(settings).message
    message.display_name = name
    message.create_pipeline_job_request.pipeline_job.labels.clear()
    return clients.schedule_service(settings).create_schedule(
        parent=resource_names.location(settings), schedule=message
    )
