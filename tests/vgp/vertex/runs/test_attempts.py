"""A request has one run at a time; an hour after its end it starts anew, for all callers and after lost answers."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import PipelineState

from tools.emulator.cloud import Cloud, lose_response, reset, status
from vgp.settings import Settings
from vgp.vertex import resource_names
from vgp.vertex.runs import pipeline_job
from vgp.vertex.runs.attempts import start
from vgp.vertex.runs.start_policy import Policy

SPEC = {
    "pipelineInfo": {"name": "small"},
    "root": {"dag": {"tasks": {"only": {"componentRef": {"name": "c"}}}}},
    "components": {"c": {"executorLabel": "x"}},
    "deploymentSpec": {"executors": {"x": {"container": {"image": "python"}}}},
    "schemaVersion": "2.1.0",
}
JOBS = "aiplatform.projects.locations.pipelineJobs"
HOUR = 3600
NEW, RETRY = Policy(if_exists="new"), Policy(retry=True)


@pytest.fixture
def body(cloud: Cloud, settings: Settings) -> dict[str, Any]:
    cloud.script(seconds=50)  # and 10 until it begins
    return pipeline_job.build_body(settings, SPEC, {})


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
def test_of_fifteen_callers_at_once_one_reports_that_it_started_the_run(
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
@pytest.mark.parametrize("fault", [status(503), reset(), lose_response()], ids=str)
def test_a_fault_at_any_request_starts_the_second_attempt_once_and_reports_it(
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


def test_another_run_beside_counts_as_a_run_of_the_request_and_so_does_one_of_an_id(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    first, _ = start(settings, body)
    cloud.clock.advance(2 * HOUR)
    pipeline_job.create(settings, body, "mine")
    assert resource_names.short(start(settings, body)[0].name) == "mine"
    beside, started = start(settings, body, NEW)
    assert started and beside.name == f"{first.name}-a2"
    assert start(settings, body) == (beside, False), "both are open, and the later one answers"
    cloud.clock.advance(2 * HOUR)
    assert start(settings, body)[0].name == f"{first.name}-a3"


def test_a_long_run_is_not_overtaken_because_a_later_one_has_ended(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    cloud.script(seconds=24 * HOUR)
    long, _ = start(settings, body)
    cloud.script(seconds=50)
    start(settings, body, NEW)
    cloud.clock.advance(5 * HOUR)
    assert start(settings, body)[0].name == long.name
    cloud.clock.advance(19.5 * HOUR)
    found, started = start(settings, body)
    assert (found.name, started) == (long.name, False), "it ended half an hour ago"


def test_twelve_who_all_want_a_run_of_their_own_get_it(cloud: Cloud, settings: Settings, body: dict[str, Any]) -> None:
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: start(settings, body, NEW), range(12)))
    assert all(started for _, started in answers)
    assert sorted(int(job.labels["attempt"]) for job, _ in answers) == list(range(1, 13))


@pytest.mark.parametrize("how", ["failed", "cancelled", "succeeded"])
def test_a_retry_does_not_wait_unless_the_run_goes_on_or_succeeded(
    cloud: Cloud, settings: Settings, body: dict[str, Any], how: str
) -> None:
    if how == "failed":
        cloud.script(seconds=50, fail="no memory")
    first, _ = start(settings, body, RETRY)
    assert start(settings, body, RETRY) == (first, False), "it goes on"
    end(cloud, first, how)
    job, started = start(settings, body, RETRY)
    assert (started, job.labels["attempt"]) == ((False, "1") if how == "succeeded" else (True, "2"))
    cloud.clock.advance(2 * HOUR)
    assert start(settings, body, RETRY)[1]


def test_a_retry_reports_another_retry_that_failed_meanwhile(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    """Another command was faster, and its run failed before this command could look at it."""
    cloud.script(seconds=50, fail="no memory")
    end(cloud, start(settings, body)[0], "failed")
    others: list[Any] = []

    def faster(_: Any) -> None:
        if not others:
            others.append(None)
            others[0] = start(settings, body, RETRY)[0]
            end(cloud, others[0], "failed")

    cloud.on(f"{JOBS}.list", faster)
    job, started = start(settings, body, RETRY)
    assert (job.name, started) == (others[0].name, False) and len(cloud.jobs) == 2


@pytest.mark.parametrize(("window", "still"), [(0, False), (10, True), (48, True)])
def test_the_window_limits_how_long_a_run_answers(
    cloud: Cloud, settings: Settings, body: dict[str, Any], window: int, still: bool
) -> None:
    policy = Policy(window=timedelta(hours=window))
    start(settings, body, policy)
    assert start(settings, body, policy)[1] is False, "it goes on"
    cloud.clock.advance(9.5 * HOUR)
    assert start(settings, body, policy)[1] is not still


def test_a_key_has_one_run_until_that_is_deleted(cloud: Cloud, settings: Settings) -> None:
    cloud.script(seconds=50, fail="no memory")
    body, for_ever = pipeline_job.build_body(settings, SPEC, {}, key="2026-11-21"), Policy(window=None)
    first, _ = start(settings, body, for_ever)
    cloud.clock.advance(100 * 24 * HOUR)
    assert start(settings, body, for_ever)[1] is False
    second, started = start(settings, body, Policy(window=None, retry=True))
    assert started and second.name == f"{first.name}-a2"
    cloud.clock.advance(100 * 24 * HOUR)
    assert resource_names.short(start(settings, body, for_ever)[0].name).endswith("-a2")
    cloud.pipeline_jobs.jobs.clear()
    assert start(settings, body, for_ever)[1] is True


def test_what_is_deleted_while_it_is_looked_at_starts_anew(
    cloud: Cloud, settings: Settings, body: dict[str, Any]
) -> None:
    first, _ = start(settings, body)
    cloud.clock.advance(2 * HOUR)
    cloud.on(f"{JOBS}.list", lambda _: cloud.pipeline_jobs.jobs.pop(first.name, None))
    job, started = start(settings, body)
    assert started and job.name == f"{first.name}-a2"


def test_only_the_servers_clock_counts(
    cloud: Cloud, settings: Settings, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's clock stands still here, while the cloud's goes on for hours."""
    first, _ = start(settings, body)
    cloud.clock.advance(HOUR)
    assert start(settings, body)[0].name == first.name
    cloud.clock.advance(HOUR)
    assert start(settings, body)[0].name != first.name
