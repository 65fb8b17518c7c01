"""Cancelling may be repeated, comes too late without harm, and never meets the wrong run."""

from collections.abc import Callable
from typing import Any

import pytest
from loopback.cloud import Cloud, lost_response, status

from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex.runs.follow import cancel

CANCEL = "aiplatform.projects.locations.pipelineJobs.cancel"


def asked(cloud: Cloud) -> int:
    return sum(call.method == CANCEL for call in cloud.requests)


def test_a_run_is_cancelled_once(cloud: Cloud, settings: Settings, start: Callable[..., str]) -> None:
    name = start(id="training-1")
    cloud.clock.advance(30)
    first, again = cancel(settings, "training-1"), cancel(settings, name)
    assert (first[0].state, first[1]) == ("cancelling", True)
    assert (again[0].state, again[1]) == ("cancelling", False)
    cloud.clock.advance(60)
    over, now = cancel(settings, "training-1")
    assert (over.state, now, asked(cloud)) == ("cancelled", False, 1)


def test_a_run_that_is_over_stays_as_it_is(cloud: Cloud, settings: Settings, start: Callable[..., str]) -> None:
    start(id="training-1")
    cloud.clock.advance(3600)
    run, now = cancel(settings, "training-1")
    assert (run.state, now, asked(cloud)) == ("succeeded", False, 0)


def test_a_run_that_ends_at_that_moment_is_no_error(
    cloud: Cloud, settings: Settings, start: Callable[..., str]
) -> None:
    start(id="training-1")
    cloud.clock.advance(30)
    cloud.on("aiplatform.projects.locations.pipelineJobs.get", lambda call: cloud.clock.advance(3600))
    run, now = cancel(settings, "training-1")
    assert (run.state, now, asked(cloud)) == ("succeeded", False, 1)


@pytest.mark.parametrize("fault", [lost_response(), status(503)], ids=["lost", "503"])
def test_faults_do_not_hide_what_happened(cloud: Cloud, settings: Settings, start: Callable, fault: Any) -> None:
    start(id="training-1")
    cloud.clock.advance(30)
    cloud.fail(CANCEL, fault)
    assert cancel(settings, "training-1")[0].state == "cancelling"


@pytest.mark.parametrize("given", ["latest", "latest:training"])
def test_the_latest_may_be_somebody_elses(settings: Settings, given: str) -> None:
    with pytest.raises(RequestError, match="name the run by its id"):
        cancel(settings, given)


def test_a_refusal_is_explained(cloud: Cloud, settings: Settings, start: Callable[..., str]) -> None:
    start(id="training-1")
    cloud.fail(CANCEL, status(403, "Permission 'aiplatform.pipelineJobs.cancel' denied"))
    with pytest.raises(WorkFailed, match="roles/aiplatform.user"):
        cancel(settings, "training-1")
