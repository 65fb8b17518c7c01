"""Runs are found by whatever a person has at hand, and listed with filters that no value can escape from."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.emulator.cloud import Cloud, lose_response, status
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.runs.run_search import Filter, filter_expression, find, list_runs, parse_since, quote_literal

LIST = "aiplatform.projects.locations.pipelineJobs.list"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
OTHER = {
    "pipelineInfo": {"name": "other"},
    "root": {"dag": {"tasks": {"a": {"componentRef": {"name": "c"}, "taskInfo": {"name": "a"}}}}},
    "components": {"c": {"executorLabel": "x"}},
    "deploymentSpec": {"executors": {"x": {"container": {"image": "python"}}}},
    "schemaVersion": "2.1.0", "sdkVersion": "kfp-2.17.0",
}  # fmt: skip


@pytest.fixture
def history(cloud: Cloud, start: Callable[..., str]) -> list[str]:
    """Three runs, the newest last: one that failed, one of another pipeline, one that runs."""
    cloud.script("prepare", fail="no data")
    names = [start(id="training-aaa1", labels={"team": "red"})]
    cloud.clock.advance(3 * 86400)
    names.append(start(OTHER, id="other-1"))
    cloud.clock.advance(3600)
    cloud.script("prepare", seconds=600)
    names.append(start(id="training-aab2", values={"epochs": 2.0}))
    cloud.clock.advance(30)
    return names


def ids(settings: Settings, cloud: Cloud, *, limit: int = 20, **wanted: Any) -> list[str]:
    return [run.id for run in list_runs(settings, Filter(**wanted), limit=limit, now=cloud.clock.now())]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("training-aaa1", "training-aaa1"),
        ("training-aab", "training-aab2"),
        ("projects/123456789012/locations/us-central1/pipelineJobs/other-1", "other-1"),
        (
            "https://console.cloud.google.com/vertex-ai/locations/us-central1/pipelines/runs/other-1?project=x",
            "other-1",
        ),
        ("latest", "training-aab2"),
        ("latest:other", "other-1"),
        ("o", "other-1"),
    ],
)
def test_a_run_is_found_by(history: list[str], settings: Settings, given: str, found: str) -> None:
    run = find(settings, given)
    assert run.id == found and run.steps[0].state != "waiting", "as it is in full, not as a list has it"


def test_a_beginning_of_several_ids_gives_the_choices(history: list[str], settings: Settings) -> None:
    with pytest.raises(RequestError, match="2 runs have ids that begin with training-aa: training-aab2, training-aaa1"):
        find(settings, "training-aa")


@pytest.mark.parametrize("given", ["nothing", "latest:nothing", "UPPER", "a b", "latest:a\nb", '"', "latest:\x1b[2J"])
def test_what_no_run_is_called_is_refused(history: list[str], settings: Settings, given: str) -> None:
    with pytest.raises(RequestError):
        find(settings, given)


def test_another_regions_link_is_refused(settings: Settings) -> None:
    with pytest.raises(RequestError, match="europe-west4"):
        find(settings, "projects/1/locations/europe-west4/pipelineJobs/x")


def test_the_list_is_newest_first_and_small(cloud: Cloud, history: list[str], settings: Settings) -> None:
    assert ids(settings, cloud) == ["training-aab2", "other-1", "training-aaa1"]
    mask = cloud.requests[-1].query["readMask"]
    assert "pipelineSpec.pipelineInfo" in mask and "jobDetail" not in mask


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"pipeline": "training"}, ["training-aab2", "training-aaa1"]),
        ({"states": ["failed"]}, ["training-aaa1"]),
        ({"states": ["Failed", "running"]}, ["training-aab2", "training-aaa1"]),
        ({"since": "2d"}, ["training-aab2", "other-1"]),
        ({"labels": ["team=red"]}, ["training-aaa1"]),
        ({"labels": ["team"]}, ["training-aaa1"]),
        ({"labels": ["team=blue"]}, []),
        ({"ours": True, "pipeline": "other"}, ["other-1"]),
        ({"pipeline": "training", "states": ["failed"], "since": "1d"}, []),
        ({"pipeline": 'x" OR pipeline_name="training'}, []),
        ({"pipeline": 'x\\" OR state="y'}, []),
    ],
)
def test_google_filters(
    cloud: Cloud, history: list[str], settings: Settings, wanted: dict[str, Any], found: list[str]
) -> None:
    assert ids(settings, cloud, **wanted) == found
    assert cloud.requests[-1].method == LIST


def test_a_limit_is_kept_over_pages_and_none_gives_all(cloud: Cloud, settings: Settings, start: Callable) -> None:
    for number in range(7):
        start(OTHER, id=f"other-{number}")
        cloud.clock.advance(1)
    cloud.pages.longest = 3
    assert ids(settings, cloud, limit=5) == [f"other-{number}" for number in (6, 5, 4, 3, 2)]
    assert len(ids(settings, cloud, limit=0)) == 7
    assert len(ids(settings, cloud, limit=7)) == 7


def test_runs_of_a_schedule_of_an_environment_by_the_name_that_the_settings_have(
    cloud: Cloud, settings: Settings, start: Callable[..., str]
) -> None:
    """Its display name is `nightly (prod)`; another environment's schedule of the name is another one."""
    client = clients.schedule_service(settings)
    for shown in ("nightly (prod)", "nightly (dev)"):
        body = {
            "display_name": shown, "cron": "TZ=UTC 0 3 * * *", "max_concurrent_run_count": 1,
            "create_pipeline_job_request": {
                "parent": f"projects/{settings.project}/locations/us-central1",
                "pipeline_job": {"pipeline_spec": OTHER, "runtime_config": {"gcs_output_directory": "gs://b/runs"}},
            },
        }  # fmt: skip
        client.create_schedule(parent=f"projects/{settings.project}/locations/us-central1", schedule=body)
    cloud.clock.advance(2 * 86400)
    prod = settings.model_copy(update={"environment": "prod"})
    found = ids(prod, cloud, schedule="nightly")
    assert len(found) == 2 and ids(settings, cloud, schedule="nightly (prod)") == found
    assert not set(found) & set(ids(settings.model_copy(update={"environment": "dev"}), cloud, schedule="nightly"))


def test_runs_of_a_schedule_by_its_name_or_id(cloud: Cloud, settings: Settings, start: Callable[..., str]) -> None:
    start(OTHER, id="by-hand")
    body = {
        "display_name": "nightly", "cron": "TZ=UTC 0 3 * * *", "max_concurrent_run_count": 1,
        "create_pipeline_job_request": {
            "parent": f"projects/{settings.project}/locations/us-central1",
            "pipeline_job": {"pipeline_spec": OTHER, "runtime_config": {"gcs_output_directory": "gs://b/runs"}},
        },
    }  # fmt: skip
    client = clients.schedule_service(settings)
    made = client.create_schedule(parent=f"projects/{settings.project}/locations/us-central1", schedule=body)
    cloud.clock.advance(2 * 86400)
    found = ids(settings, cloud, schedule="nightly")
    assert len(found) == 2 and "by-hand" not in found
    assert ids(settings, cloud, schedule=made.name.rpartition("/")[2]) == found
    assert len(ids(settings, cloud, schedule="nightly", limit=1)) == 1
    with pytest.raises(RequestError, match="no schedule with this name"):
        ids(settings, cloud, schedule="hourly")


def test_a_list_outlasts_faults_and_explains_refusals(cloud: Cloud, history: list[str], settings: Settings) -> None:
    cloud.fail(LIST, status(503), lose_response())
    assert len(ids(settings, cloud)) == 3
    cloud.fail(LIST, status(403, "Permission 'aiplatform.pipelineJobs.list' denied"))
    with pytest.raises(WorkFailed, match="roles/aiplatform"):
        ids(settings, cloud)


@pytest.mark.parametrize("text", ["7", "d7", "yesterday", "-3d", "999999w", "2026-13-01", ""])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="write 90m, 12h, 7d"):
        parse_since(text, NOW)


def test_times_as_people_write_them() -> None:
    assert parse_since("90m", NOW) == datetime(2026, 11, 20, 10, 30, tzinfo=UTC)
    assert parse_since("2w", NOW) == datetime(2026, 11, 6, 12, tzinfo=UTC)
    assert parse_since("2026-11-20T10:00:00+02:00", NOW) == datetime(2026, 11, 20, 8, tzinfo=UTC)


def test_a_state_or_label_that_cannot_be_is_refused() -> None:
    with pytest.raises(RequestError, match="--state fialed: Did you mean failed?"):
        filter_expression(Filter(states=["fialed"]), NOW)
    for label in ('a" OR b', "Team=x", "team=Über", "=x"):
        with pytest.raises(RequestError, match="label"):
            filter_expression(Filter(labels=[label]), NOW)


@given(st.text() | st.text(st.sampled_from('\\"*a ')))
def test_a_quoted_text_is_one_literal(text: str) -> None:
    try:
        literal = quote_literal(text)
    except RequestError:
        assert any(ord(letter) < 32 or ord(letter) == 127 for letter in text)
    else:
        assert json.loads(literal) == text
