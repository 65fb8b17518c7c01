"""Everything that may go wrong on the way, and nothing that was not asked for."""

import time

import pytest
import requests
from google.api_core import exceptions

from tests.tools.emulator.conftest import PARENT
from tools.emulator.cloud import lose_response, reset, slow, status

CREATE = "aiplatform.projects.locations.pipelineJobs.create"


@pytest.fixture
def without_lookups():
    """Here google-auth asks for itself, as it does everywhere outside the tests."""


@pytest.fixture
def create(pipelines, job):
    return lambda job_id: pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job, pipeline_job_id=job_id)


def test_faults_meet_the_next_calls_one_each_and_in_order(cloud, create):
    cloud.fail(CREATE, status(429, retry_after=7), status(503), reset(), lose_response())
    with pytest.raises(exceptions.TooManyRequests) as raised:
        create("a")
    assert raised.value.response.headers["Retry-After"] == "7"
    with pytest.raises(exceptions.ServiceUnavailable):
        create("a")
    with pytest.raises(requests.ConnectionError, match="reset by peer"):
        create("a")
    assert not cloud.jobs
    with pytest.raises(requests.ConnectionError, match="reset by peer"):
        create("b")
    assert [name.rpartition("/")[2] for name in cloud.jobs] == ["b"]
    assert create("c").name
    assert [call.status for call in cloud.requests] == [429, 503, 0, 200, 200]


def test_a_reason_travels_in_the_details(cloud, create):
    cloud.fail("aiplatform.*", status(403, "no", reason="SERVICE_DISABLED", metadata={"service": "aiplatform"}))
    with pytest.raises(exceptions.Forbidden) as raised:
        create("a")
    assert (raised.value.reason, raised.value.metadata) == ("SERVICE_DISABLED", {"service": "aiplatform"})


def test_a_slow_call_takes_its_time(cloud, create):
    cloud.fail(CREATE, slow(0.2))
    before = time.monotonic()
    create("a")
    assert time.monotonic() - before > 0.2


def test_a_fault_may_stay(cloud, create):
    cloud.fail(CREATE, status(500), forever=True)
    for job_id in "abc":
        with pytest.raises(exceptions.InternalServerError):
            create(job_id)


def test_other_methods_do_not_meet_it(cloud, create, pipelines):
    cloud.fail("*.cancel", status(500))
    name = create("a").name
    with pytest.raises(exceptions.InternalServerError):
        pipelines.cancel_pipeline_job(name=name)


def test_hooks_are_called_before_and_after_a_request_was_handled(cloud, create):
    seen = []
    cloud.on(CREATE, lambda call: seen.append(("before", len(cloud.jobs))), before=True)
    cloud.on(CREATE, lambda call: seen.append((call.status, len(cloud.jobs))))
    create("a")
    assert seen == [("before", 0), (200, 1)]


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic eA=="])
def test_without_a_token_of_ours_nothing_is_answered(cloud, header):
    url = f"{cloud.endpoint('aiplatform')}/v1/{PARENT}/pipelineJobs"
    answer = requests.get(url, headers={"Authorization": header}, timeout=60)
    assert (answer.status_code, answer.json()["error"]["status"]) == (401, "UNAUTHENTICATED")


def test_what_google_auth_asks_by_itself_is_answered_here_and_counted_apart(cloud, create):
    cloud.fail("*", status(503))
    with pytest.raises(exceptions.ServiceUnavailable):
        create("a")
    deadline = time.monotonic() + 60
    while not cloud.sign_ins and time.monotonic() < deadline:
        time.sleep(0.01)
    assert {call.method for call in cloud.sign_ins} == {"iamcredentials.projects.serviceAccounts.getAllowedLocations"}
    assert [call.method for call in cloud.requests] == [CREATE]


def test_nothing_leaves_the_machine(cloud):
    with pytest.raises(requests.exceptions.ProxyError):
        requests.get("https://example.com/", timeout=60)
    assert cloud.tunnel.strays == ["example.com"]
