"""Spot is looked at by small jobs while the training goes on on demand."""

from dataclasses import replace

import pytest
from loopback.cloud import lost_response, repeated, status
from loopback.faults import Fault

from vgp.launch.capacity import attempt, probes
from vgp.launch.capacity.jobs import probe_body
from vgp.launch.capacity.probes import may_send
from vgp.protocol.capacity.plan import filled

from .conftest import CREATE, QUOTA, STOCKOUT, ladder_of, rung

LONG = {"seconds": 6600}
PROBING = {"probe_s": 180.0, "probes_an_hour_s": 300.0}


@pytest.fixture
def on_demand(launcher, monkeypatch):
    """Spot refuses the first job, so the training goes on on demand."""
    monkeypatch.setattr(attempt, "POLL_S", 30.0)
    standard = rung("standard", strategy="standard", usd_per_hour=9.0)
    launcher.plan = ladder_of(rung("spot"), standard, **PROBING)
    launcher.cloud.fail(CREATE, status(429, QUOTA))
    launcher.jobs_do(LONG, {"seconds": 60})
    launcher.probes_do({"seconds": 5})
    return launcher


def told(launcher):
    return launcher.ladder["probes"]


def test_the_training_moves_once_a_probe_got_its_machines_and_not_before(on_demand, capsys):
    assert on_demand.run() == 0
    assert on_demand.outcomes == ["quota", "moved", "succeeded"]
    (probe,) = told(on_demand)
    stopped, moved = on_demand.ladder["attempts"][1:]
    assert (probe["outcome"], probe["rung"], moved["rung"]) == ("granted", "spot", "spot")
    assert stopped["started"] < probe["created"] < probe["ended"] < stopped["ended"] < moved["created"]
    assert probe["hours"] == pytest.approx(5 / 3600) and probe["usd"] == pytest.approx(probe["hours"] * 3.6)
    said = capsys.readouterr().err
    assert "probe 1 of spot: granted: it got its machines" in said and "a cheaper rung has machines again" in said
    assert "train succeeded: 3 attempts, 1 probe, " in said


def test_a_probe_has_the_machines_of_its_rung_and_nothing_of_the_training(on_demand):
    assert on_demand.run() == 0
    names = [each["job"] for each in (*told(on_demand), on_demand.ladder["attempts"][2])]
    probe, job = (on_demand.cloud.custom_jobs.jobs[name].message for name in names)
    labels = dict(probe.labels)
    assert labels.pop("training-probe") == told(on_demand)[0]["token"] and "training-attempt" not in labels
    assert labels == {key: value for key, value in job.labels.items() if key != "training-attempt"}
    assert probe.display_name == "train: probe, is there capacity?"
    spec, own = probe.job_spec, job.job_spec
    assert spec.scheduling.disable_retries and spec.scheduling.timeout.seconds == 180
    (pool,), (theirs,) = spec.worker_pool_specs, own.worker_pool_specs
    assert (pool.machine_spec, pool.replica_count) == (theirs.machine_spec, theirs.replica_count)
    container = pool.container_spec
    assert container.image_uri == theirs.container_spec.image_uri and list(container.command) == ["sh", "-c", "exit 0"]
    assert not container.args and not container.env


def test_what_machines_are_got_by_is_kept_and_what_the_work_needs_is_left_out():
    spec = rung().job["jobSpec"]
    scheduling = {"strategy": "SPOT", "disableRetries": True, "timeout": "7200s"}
    got = {"network": "n", "serviceAccount": "a@b", "pscInterfaceConfig": {"networkAttachment": "x"}}
    work = {"tensorboard": "t", "enableWebAccess": True, "baseOutputDirectory": {"outputUriPrefix": "gs://b"}}
    chief = {**spec["workerPoolSpecs"][0], "diskSpec": {"bootDiskSizeGb": 200}, "nfsMounts": [{"server": "s"}]}
    workers = {"machineSpec": {"machineType": "m"}, "replicaCount": "3", "containerSpec": {"imageUri": "i", "env": [1]}}
    job = {"displayName": "train", "labels": {"a": "b"}, "encryptionSpec": {"kmsKeyName": "k"}}
    job["jobSpec"] = {**got, **work, "scheduling": scheduling, "workerPoolSpecs": [chief, workers]}
    made = probe_body(filled(job, "{}"))
    command = ["sh", "-c", "exit 0"]
    assert made == {
        "displayName": "train: probe, is there capacity?", "labels": {"a": "b"}, "encryptionSpec": {"kmsKeyName": "k"},
        "jobSpec": {
            **got, "scheduling": {"strategy": "SPOT", "disableRetries": True},
            "workerPoolSpecs": [
                {"machineSpec": {"machineType": "g2-standard-4"}, "replicaCount": 1,
                 "diskSpec": {"bootDiskSizeGb": 200}, "containerSpec": {"imageUri": "image", "command": command}},
                {"machineSpec": {"machineType": "m"}, "replicaCount": "3",
                 "containerSpec": {"imageUri": "i", "command": command}},
            ],
        },
    }  # fmt: skip


def test_one_that_is_refused_leaves_the_training_alone_and_the_next_one_comes_later(on_demand):
    on_demand.probes_do({"seconds": 20, "waits_s": float("inf"), "fail": STOCKOUT}, {"seconds": 5})
    assert on_demand.run() == 0
    assert [probe["outcome"] for probe in told(on_demand)] == ["stockout", "granted"]
    refused, granted = told(on_demand)
    assert refused["started"] is None and refused["usd"] == 0 and "Resources are insufficient" in refused["words"]
    assert seconds_between(refused["ended"], granted["intended"]) >= 120


def test_one_whose_error_comes_a_minute_after_its_end_is_judged_by_it(on_demand):
    on_demand.probes_do({"seconds": 20, "waits_s": float("inf"), "fail": STOCKOUT, "error_late_s": 70}, {"seconds": 5})
    assert on_demand.run() == 0
    assert [probe["outcome"] for probe in told(on_demand)] == ["stockout", "granted"]


def test_one_whose_error_never_comes_ends_all_the_same(on_demand):
    on_demand.probes_do({"seconds": 20, "waits_s": float("inf"), "fail": STOCKOUT, "error_late_s": 1e6})
    on_demand.at(9000, on_demand.kill)
    assert on_demand.run() == 0 and on_demand.outcomes == ["quota", "succeeded"]
    assert [probe["outcome"] for probe in told(on_demand)] == ["failed"], "and no other is sent"


def test_one_that_waits_too_long_is_cancelled_and_counts_as_refused(on_demand, monkeypatch):
    monkeypatch.setattr(probes, "PATIENCE_S", 900.0)
    on_demand.probes_do({"waits_s": 86_400})
    assert on_demand.run() == 0 and on_demand.outcomes == ["quota", "succeeded"]
    first, *others = told(on_demand)
    assert first["outcome"] == "wait_expired" and 900 < seconds_between(first["created"], first["ended"]) <= 960
    assert {on_demand.jobs[probe["job"]] for probe in (first, *others)} == {"CANCELLED"}
    ends = [("", first["ended"]), *((probe["intended"], probe["ended"]) for probe in others)]
    assert all(before[1] < after[0] for before, after in zip(ends, ends[1:], strict=False)), "one at a time"


def test_one_that_still_goes_on_when_the_step_ends_is_cancelled(on_demand):
    on_demand.jobs_do({"seconds": 600})
    on_demand.probes_do({"waits_s": 86_400})
    assert on_demand.run() == 0 and on_demand.outcomes == ["quota", "succeeded"]
    (probe,) = told(on_demand)
    assert probe["outcome"] == "cancelled" and on_demand.jobs[probe["job"]] == "CANCELLED"


def test_sigterm_cancels_the_probe_too(on_demand):
    on_demand.probes_do({"waits_s": 86_400})
    on_demand.at(400, on_demand.stop_once)
    assert on_demand.run() == 143
    assert sorted(on_demand.jobs.values()) == ["CANCELLED", "CANCELLED"]
    assert on_demand.outcomes == ["quota", "cancelled"] and told(on_demand)[0]["outcome"] == "cancelled"


def test_a_quota_that_refuses_it_is_a_refusal_and_not_the_end_of_the_step(on_demand):
    on_demand.cloud.fail(CREATE, Fault(), status(429, QUOTA))
    assert on_demand.run() == 0
    assert [probe["outcome"] for probe in told(on_demand)] == ["quota", "granted"]


def test_one_that_google_will_not_have_is_the_last_and_the_training_goes_on(on_demand, capsys):
    on_demand.cloud.fail(CREATE, Fault(), status(400, "Machine type h1000 is not supported."))
    assert on_demand.run() == 0
    (probe,) = told(on_demand)
    assert probe["outcome"] == "user_error" and "h1000 is not supported" in probe["words"]


def test_one_that_google_makes_without_an_answer_is_found_by_its_token(on_demand):
    on_demand.cloud.fail(CREATE, Fault(), lost_response())
    assert on_demand.run() == 0
    (probe,) = told(on_demand)
    assert probe["outcome"] == "granted" and len(on_demand.jobs) == 3


def test_one_that_no_list_has_in_time_is_given_up_and_ended_once_it_is_seen(on_demand):
    on_demand.cloud.fail(CREATE, Fault(), lost_response())
    on_demand.cloud.custom_jobs.list_lag_s = 200
    on_demand.probes_do({"waits_s": 86_400}, {"seconds": 5})
    assert on_demand.run() == 0
    lost, granted = told(on_demand)
    assert (lost["outcome"], lost["job"], granted["outcome"]) == ("lost", None, "granted")
    assert sorted(on_demand.jobs.values()).count("CANCELLED") == 2, "the training that moved, and the lost probe"


def test_of_a_request_that_arrives_twice_one_probe_is_followed_and_the_other_ended(on_demand):
    on_demand.cloud.fail(CREATE, Fault(), repeated())
    on_demand.probes_do({"waits_s": 400})
    assert on_demand.run() == 0
    names = [name for name, job in on_demand.cloud.custom_jobs.jobs.items() if "training-probe" in job.message.labels]
    (followed,) = {probe["job"] for probe in told(on_demand)}
    assert {name: on_demand.jobs[name] for name in names} == {
        name: "SUCCEEDED" if name == followed else "CANCELLED" for name in names
    } and len(names) == 2  # fmt: skip


def test_one_whose_job_google_forgets_is_given_up_after_minutes_and_not_before(on_demand):
    def forget(call):
        jobs = on_demand.cloud.custom_jobs.jobs
        if made := [name for name, job in jobs.items() if "training-probe" in job.message.labels][:1]:
            forgotten.append(jobs.pop(made[0])) if not forgotten else None

    forgotten = []
    on_demand.cloud.on(CREATE, forget)
    assert on_demand.run() == 0
    lost, granted = told(on_demand)
    assert (lost["outcome"], granted["outcome"]) == ("lost", "granted") and "not know its job any more" in lost["words"]
    assert probes.UNKNOWN_S < seconds_between(lost["created"], lost["ended"]) <= probes.UNKNOWN_S + 60


def test_one_that_does_not_end_when_it_is_cancelled_is_not_waited_for_for_ever(on_demand, monkeypatch):
    monkeypatch.setattr(probes, "PATIENCE_S", 900.0)
    on_demand.probes_do({"waits_s": 86_400})
    on_demand.cloud.on(CREATE, lambda call: [
        setattr(job, "cancel", lambda now: None) for job in on_demand.cloud.custom_jobs.jobs.values()
        if "training-probe" in job.message.labels
    ])  # fmt: skip
    assert on_demand.run() == 0
    first = told(on_demand)[0]
    assert first["outcome"] == "wait_expired" and "has not ended 5m 00s after its cancellation" in first["words"]
    assert 1200 < seconds_between(first["created"], first["ended"]) <= 1320


def test_no_more_machine_time_goes_to_probes_than_the_plan_allows(on_demand):
    """The first one holds its machines for 170 of the 300 seconds, so the next has to wait for the second hour."""
    on_demand.plan = replace(on_demand.plan, probe_s=180.0)
    on_demand.probes_do({"seconds": 170})
    on_demand.jobs_do({"seconds": 3500}, {"seconds": 5, "fail": STOCKOUT}, {"seconds": 6000}, {"seconds": 60})
    assert on_demand.run() == 0
    assert on_demand.outcomes == ["quota", "moved", "preempted", "moved", "succeeded"]
    first, second = told(on_demand)
    standard = [each for each in on_demand.ladder["attempts"] if each["rung"] == "standard"]
    before = seconds_between(standard[0]["started"], standard[0]["ended"])
    assert before + seconds_between(standard[1]["started"], second["intended"]) > 3600


@pytest.mark.parametrize(
    ("on_demand_s", "probed_s", "may"),
    [(1, 0, True), (1, 120, True), (1, 121, False), (3600, 121, False), (3601, 121, True), (0, 0, False)],
)
def test_what_all_of_them_may_hold_grows_with_each_hour_on_demand(on_demand_s, probed_s, may):
    assert may_send(180, 300, on_demand_s, probed_s) is may
    assert not may_send(0, 0, on_demand_s, probed_s)


def test_where_the_plan_has_none_none_is_sent(on_demand):
    on_demand.plan = replace(on_demand.plan, probe_s=0.0, probes_an_hour_s=0.0)
    assert on_demand.run() == 0 and told(on_demand) == []


def seconds_between(earlier: str, later: str) -> float:
    from vgp.base.clock import parse_time

    return (parse_time(later) or 0) - (parse_time(earlier) or 0)
