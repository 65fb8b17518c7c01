"""A request has one run at a time; an hour after its end it starts anew, whoever asks and whatever is lost."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import PipelineState
from loopback.cloud import Cloud, lost_response, reset, status

from vgp.settings import Settings
from vgp.vertex.runs import attempts, pipeline_job
from vgp.vertex.runs.attempts import start

SPEC = {
    "pipelineInfo": {"name": "small"},
    "root": {"dag": {"tasks": {"only": {"componentRef": {"name": "c"}}}}},
    "components": {"c": {"executorLabel": "x"}},
    "deploymentSpec": {"executors": {"x": {"container": {"image": "python"}}}},
    "schemaVersion": "2.1.0",
}
JOBS = "aiplatform.projects.locations.pipelineJobs"
HOUR = 3600


@pytest.fixture
def body(cloud: Cloud, settings: Settings) -> dict[str, Any]:
    cloud.script(seconds=50)  # and 10 until it begins
    return pipeline_job.body(settings, SPEC, {})


def ids(cloud: Cloud) -> list[str]:
    return [name.rsplit("/", 1)[1] for name in cloud.jobs]


def end(cloud: Cloud, job: Any, how: str) -> None:
    """A run that ends so; a minute after its beginning."""
    if how == "cancelled":
        cloud.pipeline_jobs.stop(cloud.pipeline_jobs.jobs[job.name])
    cloud.clock.advance(60)
    assert PipelineState(cloud.jobs[job.name].state).name == f"PIPELINE_STATE_{how.upper()}"


@pytest.mark.parametrize("how", ["succeeded", "failed", "cancelled"])
def test_within_the_hour_nothing_is_started_and_afterwards_the_next_attempt_however_it_ended(
    cloud: Cloud, settings: Settings, body: dict[str, Any], how: str
) -> None:
    if how == "failed":
        cloud.script(seconds=50, fail="no memory")
    first, started = start(settings, body)
    assert started and start(settings, body)[1] is False, "it is running"
    end(cloud, first, how)
    cloud.clock.advance(HOUR - 120)
    again, started = start(settings, body)
    assert (again.name, started) == (first.name, False)
    cloud.clock.advance(180)
    next_, started = start(settings, body)
    assert started and next_.name == f"{first.name}-a2"
    assert start(settings, body)[1] is False


def test_ten_days_are_ten_attempts(cloud: Cloud, settings: Settings, body: dict[str, Any]) -> None:
    cloud.pages.longest = 3
    for _ in range(10):
        assert start(settings, body)[1]
        cloud.clock.advance(24 * HOUR)
    first = pipeline_job.job_id(body)
    assert ids(cloud) == [first, *(f"{first}-a{number}" for number in range(2, 11))]


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_of_fifteen_callers_at_once_one_says_that_it_started_the_run(
    cloud: Cloud, settings: Settings, body: dict[str, Any], attempt: int
) -> None:
    for _ in range(attempt - 1):
        start(settings, body)
        cloud.clock.advance(2 * HOUR)
    with ThreadPoolExecutor(15) as pool:
        found = list(pool.map(lambda _: start(settings, body), range(15)))
    assert sum(started for _, started in found) == 1
    assert len({job.name for job, _ in found}) == 1 and len(cloud.jobs) == attempt


@pytest.mark.parametrize("method", [f"{JOBS}.get", f"{JOBS}.list", f"{JOBS}.create"])
@pytest.mark.parametrize("fault", [status(503), reset(), lost_response()], ids=str)
def test_a_fault_at_any_request_starts_the_second_attempt_once_and_says_so(
    cloud: Cloud, settings: Settings, body: dict[str, Any], method: str, fault: Any
) -> None:
    start(settings, body)
    cloud.clock.advance(2 * HOUR)
    cloud.fail(method, fault)
    job, started = start(settings, body)
    assert started and job.name.endswith("-a2") and len(cloud.jobs) == 2


def test_a_list_that_lags_behind_makes_no_second_run(cloud: Cloud, settings: Settings, body: dict[str, Any]) -> None:
    start(settings, body)
    cloud.clock.advance(2 * HOUR)
    second, _ = start(settings, body)
    cloud.on(f"{JOBS}.list", lambda call: call.query.update(filter='labels.request="stale"'), before=True)
    found, started = start(settings, body)
    assert (found.name, started) == (second.name, False)
    cloud.clock.advance(2 * HOUR)
    assert start(settings, body)[0].name.endswith("-a3")


def test_deleted_attempts_do_not_hide_the_one_that_runs(cloud: Cloud, settings: Settings, body: dict[str, Any]) -> None:
    first, _ = start(settings, body)
    cloud.clock.advance(2 * HOUR)
    second, _ = start(settings, body)
    del cloud.pipeline_jobs.jobs[first.name]
    found, started = start(settings, body)
    assert (found.name, started) == (second.name, False)
    cloud.clock.advance(2 * HOUR)
    assert start(settings, body)[0].name.endswith("-a3")


def test_a_run_of_new_counts_as_a_run_of_the_request(cloud: Cloud, settings: Settings, body: dict[str, Any]) -> None:
    first, _ = start(settings, body)
    cloud.clock.advance(2 * HOUR)
    other, _ = pipeline_job.create(settings, body, pipeline_job.job_id(body, new=True))
    found, started = start(settings, body)
    assert (found.name, started) == (other.name, False)
    cloud.clock.advance(2 * HOUR)
    assert start(settings, body)[0].name == f"{first.name}-a2"


def test_a_long_run_is_not_overtaken_because_a_later_one_has_ended(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    cloud.script(seconds=24 * HOUR)
    long, _ = start(settings, body)
    cloud.script(seconds=50)
    pipeline_job.create(settings, body, pipeline_job.job_id(body, new=True))
    cloud.clock.advance(5 * HOUR)
    assert start(settings, body)[0].name == long.name
    cloud.clock.advance(19.5 * HOUR)
    found, started = start(settings, body)
    assert (found.name, started) == (long.name, False), "it ended half an hour ago"


def test_only_the_servers_clock_counts(
    cloud: Cloud, settings: Settings, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's clock stands still here, while the cloud's goes on for hours."""
    first, _ = start(settings, body)
    cloud.clock.advance(HOUR)
    assert start(settings, body)[0].name == first.name
    cloud.clock.advance(HOUR)
    assert start(settings, body)[0].name != first.name


def test_what_is_paused_is_open() -> None:
    assert "PIPELINE_STATE_PAUSED" not in attempts.ENDED and "PIPELINE_STATE_CANCELLING" not in attempts.ENDED
