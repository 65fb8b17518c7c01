"""What is sent for a declared schedule: everything that was asked for, and nothing that was not."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf import json_format

from vgp.base.errors import RequestError
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Schedule, Settings
from vgp.vertex.schedules import declared_schedule, schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration

from .conftest import make

Declare = Callable[..., Declaration]


def test_everything_declared_is_sent(settings: Settings) -> None:
    rich = settings.model_copy(
        update={
            "environment": "prod",
            "service_account": "runner@test-project.iam.gserviceaccount.com",
            "network": "projects/123456789012/global/networks/private",
            "encryption_key": "projects/test-project/locations/us-central1/keyRings/r/cryptoKeys/k",
            "labels": {"team": "flights"},
            "failure_policy": "fast",
        }
    )
    start, end = datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
    made = make(
        rich, start=start, end=end, max_runs=9, max_concurrent_runs=2, queueing=True, parameters={"epochs": 2.5}
    ).message
    job = schedule_list.job_of_schedule(made)
    assert made.cron == "CRON_TZ=Europe/Berlin 30 3 * * *"
    assert (made.display_name, job.display_name) == ("nightly (prod)", "nightly (prod)")
    assert (made.start_time.year, made.end_time.year, made.max_run_count) == (2030, 2031, 9)
    assert (made.max_concurrent_run_count, made.max_concurrent_active_run_count, made.allow_queueing) == (2, 2, True)
    assert job.service_account == rich.service_account
    assert job.network == rich.network
    assert job.encryption_spec.kms_key_name == rich.encryption_key
    assert job.runtime_config.failure_policy.name == "PIPELINE_FAILURE_POLICY_FAIL_FAST"
    assert job.runtime_config.gcs_output_directory == "gs://test-bucket/runs"
    assert dict(job.runtime_config.parameter_values) == {"epochs": 2.5}
    assert made.create_pipeline_job_request.parent == "projects/test-project/locations/us-central1"
    assert not made.create_pipeline_job_request.pipeline_job_id  # a second run could not have it
    expected = {"managed-by": "vertex-gpu-pipelines", "schedule": "nightly", "environment": "prod", "team": "flights"}
    assert expected.items() <= dict(job.labels).items()
    assert schedule_list.read_mark(made) == schedule_list.Mark("nightly", "prod")


def test_a_start_that_has_passed_is_left_out(declare: Declare) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    assert declare(start=past).message.start_time is None


@pytest.mark.parametrize(
    ("weekday", "sent"),
    [
        ("7", "0"),
        ("5-7", "0,5,6"),
        ("1,7", "0,1"),
        ("0-7", "0,1,2,3,4,5,6"),
        ("1-5", "1-5"),
        ("*/7", "*/7"),
        ("SUN", "SUN"),
    ],
)
def test_sunday_is_sent_as_0(declare: Declare, weekday: str, sent: str) -> None:
    assert declare(cron=f"0 3 * * {weekday}").message.cron == f"CRON_TZ=Europe/Berlin 0 3 * * {sent}"


def test_marks_of_others_are_no_marks(declare: Declare) -> None:
    made = declare().message
    schedule_list.job_of_schedule(made).labels["managed-by"] = "terraform"
    assert schedule_list.read_mark(made) is None
    schedule_list.job_of_schedule(made).labels.clear()
    assert schedule_list.read_mark(made) is None


@pytest.mark.parametrize("text", ['"; rm -rf /', "${x}", "\x1b[31m", "{{$.inputs.parameters['x']}}", "a\nb", "é\u2028"])
def test_a_parameter_is_only_a_value(declare: Declare, text: str) -> None:
    made = declare(parameters={"champion": text}).message
    sent = json_format.MessageToDict(type(made).pb(made))
    job = sent["createPipelineJobRequest"]["pipelineJob"]
    assert job["runtimeConfig"]["parameterValues"] == {"champion": text}
    assert text not in str({**job, "runtimeConfig": None})


@pytest.mark.parametrize("name", ["Nightly", "a b", "x" * 41, "../x", "ni\nght", ""])
def test_a_name_that_is_no_label_is_refused_by_the_settings(name: str) -> None:
    from pydantic import ValidationError

    from .conftest import NIGHTLY

    with pytest.raises(ValidationError):
        Settings.model_validate({"schedules": {name: NIGHTLY}})


def test_labels_of_the_settings_cannot_take_the_mark_away(settings: Settings) -> None:
    sly = settings.model_copy(update={"labels": {"managed-by": "me", "schedule": "other", "environment": "x"}})
    assert schedule_list.read_mark(make(sly).message) == schedule_list.Mark("nightly", None)
    assert schedule_list.job_of_schedule(make(sly).message).labels["environment"] == "x"


def test_a_label_that_would_hide_a_schedule_from_us_is_refused(settings: Settings) -> None:
    with pytest.raises(RequestError, match="schedule-environment: this label is reserved"):
        make(settings.model_copy(update={"labels": {"schedule-environment": "x"}}))


def test_without_a_bucket_nothing_is_made(settings: Settings) -> None:
    with pytest.raises(RequestError, match="no bucket is set"):
        make(settings.model_copy(update={"bucket": None}))


def spec(*names: str) -> PipelineSpec:
    parameters = {name: {"parameterType": "STRING"} for name in names}
    return PipelineSpec({"root": {"inputDefinitions": {"parameters": parameters}}})


@pytest.mark.parametrize(
    ("cron", "nights"),
    [("30 2 * * *", 365), ("30 2 * * 1-5", 261), ("0 4 * * 1", 52), ("0 0 1 * *", 12), ("0 0 29 2 *", 1),
     ("0 */6 * * *", 1460)],
)  # fmt: skip
def test_a_year_has_as_many_nights_as_the_schedule_falls_due(cron: str, nights: int) -> None:
    assert (
        declared_schedule.count_yearly_runs(Schedule(pipeline="training", cron=cron, time_zone="Europe/Berlin"))
        == nights
    )


def test_what_was_given_counts_and_a_workflow_without_the_parameter_gets_none() -> None:
    schedule = Schedule(pipeline="training", cron="0 4 * * 1")
    assert declared_schedule.add_derived(spec("champion", "nights"), schedule, {}) == {"champion": "auto", "nights": 52}
    given = {"champion": "", "nights": 10}
    assert declared_schedule.add_derived(spec("champion", "nights"), schedule, given) == given
    assert declared_schedule.add_derived(spec("data"), schedule, {"data": "x"}) == {"data": "x"}


def test_a_schedule_has_no_persistent_resource_and_a_note_about_it(settings: Settings, declare: Declare) -> None:
    boxed = make(settings.model_copy(update={"persistent_resource": "dev-box"}))
    assert boxed.message == declare().message
    [note] = [note for note in boxed.notes if note not in declare().notes]
    assert note.startswith("persistent_resource counts for submit and rerun only")
