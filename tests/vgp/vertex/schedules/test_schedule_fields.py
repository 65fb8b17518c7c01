"""Equal schedules are equal in every form that Google may give them; every real difference is seen and sent."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tools.emulator.cloud import Cloud
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.schedules import schedule_fields, schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration
from vgp.vertex.schedules.schedule_fields import list_changes

from .conftest import SMALL, make

Declare = Callable[..., Declaration]
LATER = datetime(2040, 1, 1, tzinfo=UTC)


@pytest.fixture
def created(cloud: Cloud, settings: Settings) -> Callable[[Declaration], Any]:
    """The wanted schedule after a round trip through Google's client and server."""

    def create(wanted: Declaration) -> Any:
        client = clients.schedule_service(settings)
        made = client.create_schedule(parent=resource_names.location(settings), schedule=wanted.message)
        return client.get_schedule(name=made.name)

    return create


def test_what_was_sent_is_what_is_there(declare: Declare, created: Callable[[Declaration], Any]) -> None:
    wanted = declare(parameters={"epochs": 3.0, "seed": 7, "task_options": {"a": [1, 2.5, None]}}, start=LATER)
    assert list_changes(wanted.message, created(wanted)) == []


def test_what_google_fills_in_is_no_difference(declare: Declare) -> None:
    wanted, live_one = declare().message, declare().message
    live_one.cron = "TZ=Europe/Berlin 30  3 * * *"
    live_one.start_time = live_one.create_time = datetime(2039, 1, 1, tzinfo=UTC)  # our clock is slow
    live_one.next_run_time = LATER
    job = schedule_list.job_of_schedule(live_one)
    job.service_account = "123456789012-compute@developer.gserviceaccount.com"
    job.labels["vertex-ai-pipelines-run-billing-id"] = "42"
    job.runtime_config.gcs_output_directory += "/"
    live_one.create_pipeline_job_request.parent = "projects/123456789012/locations/us-central1"
    assert list_changes(wanted, live_one) == []


def test_a_newer_commit_alone_changes_no_schedule(declare: Declare) -> None:
    wanted, live_one = declare().message, declare().message
    (
        schedule_list.job_of_schedule(wanted).labels["code-commit"],
        schedule_list.job_of_schedule(live_one).labels["code-commit"],
    ) = (
        "a" * 40,
        "b" * 40,
    )
    assert list_changes(wanted, live_one) == []


def test_empty_values_that_got_lost_on_the_way_are_no_difference(declare: Declare) -> None:
    wanted, live_one = declare().message, declare().message
    schedule_list.job_of_schedule(live_one).pipeline_spec = schedule_fields._without_empty(SMALL)
    assert list_changes(wanted, live_one) == []
    schedule_list.job_of_schedule(live_one).labels["request"] = "of something else"
    assert {each.field for each in list_changes(wanted, live_one)} == {"pipeline", "labels.request"}


@pytest.mark.parametrize(
    ("declared", "field", "path"),
    [
        ({"cron": "0 4 * * *"}, "cron", "cron"),
        ({"time_zone": "Europe/Paris"}, "cron", "cron"),
        ({"start": LATER}, "start", "start_time"),
        ({"end": LATER}, "end", "end_time"),
        ({"max_runs": 3}, "max_runs", "max_run_count"),
        ({"max_concurrent_runs": 2}, "max_concurrent_runs", "max_concurrent_active_run_count"),
        ({"queueing": True}, "queueing", "allow_queueing"),
        ({"parameters": {"epochs": 2}}, "parameters.epochs", "create_pipeline_job_request"),
    ],
)
def test_every_declared_change_is_seen(declare: Declare, declared: dict[str, Any], field: str, path: str) -> None:
    found = {each.field: each for each in list_changes(declare(**declared).message, declare().message)}
    assert found[field].path == path
    assert found[field].in_place


@pytest.mark.parametrize("key", ["service_account", "network", "encryption_key", "labels", "failure_policy", "bucket"])
def test_every_change_of_the_settings_is_seen(settings: Settings, key: str) -> None:
    values: dict[str, Any] = {
        "service_account": "runner@test-project.iam.gserviceaccount.com",
        "network": "projects/1/global/networks/n",
        "encryption_key": "projects/test-project/locations/us-central1/keyRings/r/cryptoKeys/k",
        "labels": {"team": "x"},
        "failure_policy": "fast",
        "bucket": "gs://other",
    }
    field = {"labels": "labels.team", "bucket": "run_folder"}.get(key, key)
    other = make(settings.model_copy(update={key: values[key]})).message
    found = {each.field: each for each in list_changes(other, make(settings).message)}
    assert found[field].path == "create_pipeline_job_request"


@pytest.mark.parametrize("declared", [{"end": LATER}, {"max_runs": 3}, {"start": LATER}])
def test_what_cannot_be_emptied_in_place_is_known(declare: Declare, declared: dict[str, Any]) -> None:
    (change,) = list_changes(declare().message, declare(**declared).message)
    assert not change.in_place


def test_a_parameter_or_label_that_is_taken_away_is_seen(declare: Declare) -> None:
    before = declare(parameters={"epochs": 2.0}).message
    schedule_list.job_of_schedule(before).labels["by-hand"] = "yes"
    found = {each.field: each for each in list_changes(declare().message, before)}
    assert found["parameters.epochs"].after is None
    assert found["labels.by-hand"].in_place
    assert found["parameters.epochs"].in_place


def test_another_pipeline_is_seen(settings: Settings) -> None:
    other = {**SMALL, "sdkVersion": "kfp-0.0.1"}
    assert "pipeline" in [
        each.field for each in list_changes(make(settings, spec=other).message, make(settings).message)
    ]
