"""While the training goes on on demand, the job that is to follow it waits for Spot machines."""

import pytest

from tools.emulator.cloud import lose_response, repeat_request, status
from tools.emulator.faults import Fault
from vgp.base.clock import parse_time
from vgp.launch.capacity import attempt, waiting_job
from vgp.launch.capacity.waiting_job import may_create
from vgp.protocol.capacity.ladder import Ladder, Waiting

from .conftest import CREATE, QUOTA, STOCKOUT, executor_input, is_waiting, ladder_of, rung

LONG = {"seconds": 6600}
FOR_EVER = {"waits_s": float("inf")}


@pytest.fixture
def on_demand(launcher, monkeypatch):
    """Spot refuses the first job, so the training goes on on demand."""
    monkeypatch.setattr(attempt, "POLL_S", 30.0)
    standard = rung("standard", strategy="standard", usd_per_hour=9.0)
    launcher.plan = ladder_of(rung("spot"), standard)
    launcher.cloud.fail(CREATE, status(429, QUOTA))
    launcher.jobs_do(LONG)
    launcher.waiting_jobs_do({"seconds": 600, "waits_s": 100})
    return launcher


def waiting(launcher):
    return launcher.ladder["waiting"]


def seconds_between(earlier: str, later: str) -> float:
    return (parse_time(later) or 0) - (parse_time(earlier) or 0)


def test_the_training_moves_to_the_job_that_waited_once_that_has_its_machines(on_demand, capsys):
    assert on_demand.run() == 0
    assert on_demand.outcomes == ["quota", "moved", "succeeded"]
    (waited,) = waiting(on_demand)
    stopped, moved = on_demand.ladder["attempts"][1:]
    assert (waited["outcome"], waited["hours"], waited["usd"]) == ("granted", 0, 0)
    assert (moved["rung"], moved["token"], moved["job"]) == ("spot", waited["token"], waited["job"])
    assert stopped["started"] < moved["created"] < moved["started"] < stopped["ended"] < moved["ended"]
    assert seconds_between(moved["started"], stopped["ended"]) <= 120, "two jobs held machines for so long"
    assert moved["hours"] == pytest.approx(seconds_between(moved["started"], moved["ended"]) / 3600)
    assert len(on_demand.jobs) == 2, "no third job was made for the move"
    printed = capsys.readouterr().err
    assert "a cheaper rung has machines again" in printed and "3 attempts, " in printed


def test_the_heartbeat_names_it_next_while_it_waits_and_lets_it_run_after_the_other_has_ended(on_demand):
    seen = []
    on_demand.at(350, lambda: seen.append(on_demand.heartbeat))
    on_demand.at(700, lambda: seen.append(on_demand.heartbeat))
    assert on_demand.run() == 0
    (waited,), demand = waiting(on_demand), on_demand.ladder["attempts"][1]
    during, after = seen
    assert (during["attempt"], during["next"]) == (demand["token"], waited["token"])
    assert (after["attempt"], after["next"]) == (waited["token"], "")


def test_it_is_the_job_of_its_rung_with_the_work_in_it(on_demand):
    assert on_demand.run() == 0
    job = on_demand.cloud.custom_jobs.jobs[waiting(on_demand)[0]["job"]].message
    (pool,) = job.job_spec.worker_pool_specs
    variables = {each.name: each.value for each in pool.container_spec.env}
    assert (
        list(pool.container_spec.command) == ["train"]
        and variables["TRAINING_ATTEMPT"] == waiting(on_demand)[0]["token"]
    )
    assert job.labels["training-attempt"] == variables["TRAINING_ATTEMPT"]
    assert 0 < job.job_spec.scheduling.timeout.seconds <= 7200


def test_one_that_is_refused_leaves_the_training_alone_and_the_next_one_is_asked_for_later(on_demand):
    on_demand.waiting_jobs_do({"seconds": 20, **FOR_EVER, "fail": STOCKOUT}, {"seconds": 60})
    assert on_demand.run() == 0
    assert [each["outcome"] for each in waiting(on_demand)] == ["stockout", "granted"]
    refused, granted = waiting(on_demand)
    assert refused["started"] is None and refused["usd"] == 0 and "Resources are insufficient" in refused["words"]
    assert seconds_between(refused["ended"], granted["intended"]) >= 120


def test_one_whose_error_comes_a_minute_after_its_end_is_judged_by_it(on_demand):
    on_demand.waiting_jobs_do({"seconds": 20, **FOR_EVER, "fail": STOCKOUT, "error_late_s": 70}, {"seconds": 60})
    assert on_demand.run() == 0
    assert [each["outcome"] for each in waiting(on_demand)] == ["stockout", "granted"]


def test_one_whose_error_never_comes_is_the_last(on_demand):
    on_demand.waiting_jobs_do({"seconds": 20, **FOR_EVER, "fail": STOCKOUT, "error_late_s": 1e6})
    on_demand.at(9000, on_demand.kill)
    assert on_demand.run() == 0 and on_demand.outcomes == ["quota", "succeeded"]
    assert [each["outcome"] for each in waiting(on_demand)] == ["failed"]


def test_one_that_waits_too_long_is_cancelled_and_counts_as_refused(on_demand):
    on_demand.waiting_jobs_do({"waits_s": 86_400})
    assert on_demand.run() == 0 and on_demand.outcomes == ["quota", "succeeded"]
    first, *others = waiting(on_demand)
    assert first["outcome"] == "wait_expired" and 900 < seconds_between(first["created"], first["ended"]) <= 960
    assert {on_demand.jobs[each["job"]] for each in (first, *others)} == {"CANCELLED"}
    ends = [("", first["ended"]), *((each["intended"], each["ended"]) for each in others)]
    assert all(before[1] < after[0] for before, after in zip(ends, ends[1:], strict=False)), "one at a time"


def test_one_that_still_waits_when_the_step_ends_is_cancelled(on_demand):
    on_demand.jobs_do({"seconds": 600})
    on_demand.waiting_jobs_do({"waits_s": 86_400})
    assert on_demand.run() == 0 and on_demand.outcomes == ["quota", "succeeded"]
    (waited,) = waiting(on_demand)
    assert waited["outcome"] == "cancelled" and on_demand.jobs[waited["job"]] == "CANCELLED"


def test_sigterm_cancels_both(on_demand):
    on_demand.waiting_jobs_do({"waits_s": 86_400})
    on_demand.at(400, on_demand.stop_once)
    assert on_demand.run() == 143
    assert sorted(on_demand.jobs.values()) == ["CANCELLED", "CANCELLED"]
    assert on_demand.outcomes == ["quota", "cancelled"] and waiting(on_demand)[0]["outcome"] == "cancelled"


def test_one_that_loses_its_machines_before_its_turn_leaves_the_work_to_another_job(on_demand):
    """The job on demand takes minutes to save; the Spot machines that waited for it are gone by then."""
    on_demand.waiting_jobs_do({"seconds": 5, "fail": STOCKOUT}, {"seconds": 600})
    assert on_demand.run() == 0
    assert waiting(on_demand)[0]["outcome"] == "preempted" and on_demand.outcomes[-1] == "succeeded"
    held = waiting(on_demand)[0]
    assert held["usd"] == pytest.approx(held["hours"] * 3.6)


def test_a_job_on_demand_that_does_not_end_is_fenced_sooner_where_machines_wait_for_it(on_demand):
    on_demand.cloud.on(CREATE, lambda call: [
        setattr(job, "cancel", lambda now: None) for job in on_demand.cloud.custom_jobs.jobs.values()
        if not is_waiting(job.message)
    ])  # fmt: skip
    assert on_demand.run() == 0 and on_demand.outcomes == ["quota", "moved", "succeeded"]
    stopped = on_demand.ladder["attempts"][1]
    assert stopped["ending_at"] and 300 <= seconds_between(stopped["ending_at"], stopped["ended"]) <= 360


def test_a_quota_that_refuses_it_is_a_refusal_and_not_the_end_of_the_step(on_demand):
    on_demand.cloud.fail(CREATE, Fault(), status(429, QUOTA))
    assert on_demand.run() == 0
    assert [each["outcome"] for each in waiting(on_demand)] == ["quota", "granted"]


def test_one_that_google_will_not_have_is_the_last_and_the_training_goes_on(on_demand):
    on_demand.cloud.fail(CREATE, Fault(), status(400, "Machine type h1000 is not supported."))
    assert on_demand.run() == 0 and on_demand.outcomes == ["quota", "succeeded"]
    (waited,) = waiting(on_demand)
    assert waited["outcome"] == "user_error" and "h1000" in waited["words"]


def test_one_that_google_makes_without_an_answer_is_found_by_its_token(on_demand):
    on_demand.cloud.fail(CREATE, Fault(), lose_response())
    assert on_demand.run() == 0
    (waited,) = waiting(on_demand)
    assert waited["outcome"] == "granted" and len(on_demand.jobs) == 2


def test_one_that_no_list_has_in_time_is_given_up_and_ended_once_it_is_seen(on_demand):
    on_demand.cloud.fail(CREATE, Fault(), lose_response())
    on_demand.cloud.custom_jobs.list_lag_s = 200
    on_demand.waiting_jobs_do({"waits_s": 86_400}, {"seconds": 60})
    assert on_demand.run() == 0
    lost, granted = waiting(on_demand)
    assert (lost["outcome"], lost["job"], granted["outcome"]) == ("lost", None, "granted")
    assert sorted(on_demand.jobs.values()).count("CANCELLED") == 2, "the training that moved, and the lost job"


def test_of_a_request_that_arrives_twice_one_job_is_followed_and_the_other_ended(on_demand):
    on_demand.cloud.fail(CREATE, Fault(), repeat_request())
    on_demand.waiting_jobs_do({"waits_s": 400})
    assert on_demand.run() == 0
    names = [name for name, job in on_demand.cloud.custom_jobs.jobs.items() if is_waiting(job.message)]
    (followed,) = {each["job"] for each in waiting(on_demand)}
    assert len(names) == 2 and {name: on_demand.jobs[name] for name in names} == {
        name: "SUCCEEDED" if name == followed else "CANCELLED" for name in names
    }


def test_one_whose_job_google_forgets_is_given_up_after_minutes_and_not_before(on_demand):
    def forget(call):
        jobs = on_demand.cloud.custom_jobs.jobs
        if made := [name for name, job in jobs.items() if is_waiting(job.message)][:1]:
            forgotten.append(jobs.pop(made[0])) if not forgotten else None

    forgotten = []
    on_demand.cloud.on(CREATE, forget)
    assert on_demand.run() == 0
    lost, granted = waiting(on_demand)
    assert (lost["outcome"], granted["outcome"]) == ("lost", "granted") and "not know its job anymore" in lost["words"]
    assert waiting_job.UNKNOWN_S < seconds_between(lost["created"], lost["ended"]) <= waiting_job.UNKNOWN_S + 60


def test_one_that_does_not_end_when_it_is_cancelled_is_not_waited_for_for_ever(on_demand):
    on_demand.waiting_jobs_do({"waits_s": 86_400})
    on_demand.cloud.on(CREATE, lambda call: [
        setattr(job, "cancel", lambda now: None) for job in on_demand.cloud.custom_jobs.jobs.values()
        if is_waiting(job.message)
    ])  # fmt: skip
    assert on_demand.run() == 0
    first = waiting(on_demand)[0]
    assert first["outcome"] == "wait_expired" and "has not ended 5m 00s after its cancellation" in first["words"]
    assert 1200 < seconds_between(first["created"], first["ended"]) <= 1320


def test_one_of_another_attempt_of_vertex_at_the_step_is_ended_since_it_would_write_elsewhere(on_demand):
    """The launcher is killed while a job waits, and Vertex AI starts the step anew with outputs elsewhere."""
    on_demand.waiting_jobs_do({"waits_s": 500}, {"seconds": 60})
    on_demand.at(400, on_demand.kill)
    assert on_demand.run() == -9 and waiting(on_demand)[0]["outcome"] is None
    assert on_demand.run(task=7654321) == 0
    first = waiting(on_demand)[0]
    assert first["outcome"] == "cancelled" and on_demand.jobs[first["job"]] == "CANCELLED"
    assert executor_input(7654321) != executor_input() and on_demand.outcomes[-1] == "succeeded"


@pytest.mark.parametrize(("on_demand_s", "took_over", "may"), [
    (1, 0, True), (0, 0, False), (3600, 1, False), (3601, 1, True), (7200, 2, False),
])  # fmt: skip
def test_each_hour_on_demand_that_has_begun_pays_for_one_that_gets_machines(on_demand_s, took_over, may):
    refused = Waiting(number=9, rung="a", region="r", token="z", intended=1.0, outcome="stockout")
    got = [
        Waiting(number=each, rung="a", region="r", token=str(each), intended=1.0, started=2.0, outcome="granted")
        for each in range(took_over)
    ]
    ladder = Ladder(run="r", step="s", began=0.0, deadline=None, rungs=[], waiting=(*got, refused))
    assert may_create(ladder, on_demand_s) is may
