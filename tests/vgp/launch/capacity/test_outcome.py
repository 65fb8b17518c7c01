import pytest

from vgp.launch.capacity.outcome import decide_outcome, describe_state, refusal_outcome

from .conftest import EXITED, QUOTA, STOCKOUT

STARTED = {"startTime": "2026-11-20T10:00:00Z"}
AFTER_AN_HOUR = STARTED | {"endTime": "2026-11-20T11:00:00.5Z"}
MEMORY = "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137."
LOW = "Replicas low on memory: workerpool0. Specify a machine with larger memory and try again."
INTERNAL = "Internal error occurred for the current attempt"
DENIED = "Permission 'artifactregistry.repositories.downloadArtifacts' denied"


def failed(message, code=3, **times):
    return {"state": "JOB_STATE_FAILED", "error": {"code": code, "message": message}, **times}


@pytest.mark.parametrize(
    ("job", "strategy", "kind"),
    [
        ({"state": "JOB_STATE_SUCCEEDED", **AFTER_AN_HOUR}, "spot", "succeeded"),
        (failed(STOCKOUT, 8), "spot", "stockout"),
        (failed(STOCKOUT, 8, **STARTED), "spot", "preempted"),
        (failed(STOCKOUT, 8, **STARTED), "standard", "stockout"),
        (failed("STOCKOUT", 8, **STARTED), "spot", "preempted"),
        (failed(QUOTA, 8), "standard", "quota"),
        (failed(EXITED.format(75), **STARTED), "standard", "preempted"),
        (failed(EXITED.format(69), **STARTED), "standard", "lost"),
        (failed(EXITED.format(143), **STARTED), "spot", "preempted"),
        (failed(EXITED.format(137), **STARTED), "spot", "preempted"),
        (failed(EXITED.format(137), **STARTED), "standard", "user_error"),
        (failed(MEMORY, **STARTED), "spot", "user_error"),
        (failed(LOW, 8, **STARTED), "spot", "user_error"),
        (failed(EXITED.format(1), **AFTER_AN_HOUR), "spot", "user_error"),
        (failed(EXITED.format(2), **STARTED), "spot", "user_error"),
        (failed(DENIED, 7), "spot", "user_error"),
        (failed("The image cannot be pulled.", 5), "spot", "user_error"),
        (failed("Something new.", 8, **STARTED), "spot", "failed"),
        (failed("", 0), "spot", "failed"),
        (failed(INTERNAL, 13, **STARTED), "standard", "lost"),
        (failed("Deadline exceeded.", 4), "flex_start", "wait_expired"),
        (failed("Deadline exceeded.", 4, **AFTER_AN_HOUR), "flex_start", "timeout"),
        (failed("The job was stopped.", 1, **AFTER_AN_HOUR), "spot", "timeout"),
        ({"state": "JOB_STATE_EXPIRED"}, "flex_start", "wait_expired"),
        ({"state": "JOB_STATE_EXPIRED", **AFTER_AN_HOUR}, "flex_start", "timeout"),
        ({"state": "JOB_STATE_CANCELLED", **AFTER_AN_HOUR}, "standard", "timeout"),
        ({"state": "JOB_STATE_CANCELLED", **STARTED}, "standard", "cancelled"),
        ({"state": "JOB_STATE_CANCELLED"}, "spot", "cancelled"),
        ({"state": "JOB_STATE_PARTIALLY_SUCCEEDED", **STARTED}, "spot", "failed"),
    ],
)
def test_the_outcome_of_a_job_follows_from_googles_error(job, strategy, kind):
    ended = decide_outcome(job, strategy, 3600, None)
    assert (ended.kind, bool(ended.words)) == (kind, True)


def test_what_the_launcher_ended_is_what_it_meant_but_for_success_and_a_users_error():
    cancelled = {"state": "JOB_STATE_CANCELLED", **STARTED}
    assert decide_outcome(cancelled, "spot", 3600, "moved").kind == "moved"
    assert decide_outcome(failed(EXITED.format(75), **STARTED), "spot", 3600, "moved").kind == "moved"
    assert decide_outcome(failed(EXITED.format(1), **STARTED), "spot", 3600, "moved").kind == "user_error"
    assert decide_outcome({"state": "JOB_STATE_SUCCEEDED", **STARTED}, "spot", 3600, "cancelled").kind == "succeeded"


def test_a_job_that_google_would_not_create_was_refused_by_quota_or_is_wrong():
    assert refusal_outcome(429, QUOTA).kind == "quota"
    assert refusal_outcome(429, STOCKOUT).kind == "stockout"
    assert refusal_outcome(400, "Machine type is not supported.").kind == "user_error"
    assert refusal_outcome(403, "Permission denied on aiplatform.customJobs.create").kind == "user_error"


def test_states_are_described_in_english():
    words = [
        describe_state(state) for state in ("PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "CANCELLING")
    ]
    assert words == ["is pending", "is running", "has succeeded", "has failed", "was cancelled", "is cancelling"]
    assert describe_state("PARTIALLY_SUCCEEDED") == "has partially succeeded"
