"""Custom jobs with real processes, capacity that comes and goes, and Vertex AI's own restarts."""

import json
import sys
import time
from datetime import timedelta

import pytest
from google.api_core import exceptions

from tests.tools.emulator.conftest import PARENT
from tools.emulator.__main__ import main
from tools.emulator.capacity import FOREVER, Place, World
from tools.emulator.cloud import late, repeat_request
from tools.emulator.job_errors import JobError
from tools.emulator.working_job import RUNNING

#: Prints its variables, and waits for a file or for SIGTERM, which it logs.
PROGRAM = """
import os, pathlib, signal, sys, time
def stop(*_):
    print("asked to end", flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, stop)
print(os.environ["CLUSTER_SPEC"], flush=True)
print("a warning", file=sys.stderr, flush=True)
pathlib.Path("started").touch()
end = pathlib.Path("end")
while not (end.exists() and end.read_text()):
    time.sleep(0.01)
sys.exit(int(end.read_text()))
"""
SPOT, FLEX, STANDARD = 4, 6, 3


@pytest.fixture
def world():
    world = World(seed=1)
    world.always("*", "*", "*")
    return world


@pytest.fixture
def work(cloud, world, tmp_path):
    return cloud.custom_jobs.works(tmp_path, world)


@pytest.fixture
def jobs(client):
    from google.cloud.aiplatform_v1 import JobServiceClient

    return client(JobServiceClient, "aiplatform")


@pytest.fixture
def create(cloud, jobs):
    def send(*replicas, region="us-central1", strategy=STANDARD, program=PROGRAM, labels=None, **scheduling):
        pools = [
            {
                "machine_spec": {
                    "machine_type": "a3-highgpu-8g",
                    "accelerator_type": "NVIDIA_H100_80GB",
                    "accelerator_count": 8,
                },
                "replica_count": count,
                "container_spec": {"image_uri": "i", "command": [sys.executable, "-IS", "-c"], "args": [program]},
            }
            for count in (replicas or (1,))
        ]
        spec = {"worker_pool_specs": pools, "scheduling": {"strategy": strategy, **scheduling}}
        parent = PARENT.replace("us-central1", region)
        return jobs.create_custom_job(
            parent=parent, custom_job={"display_name": "train", "job_spec": spec, "labels": labels or {}}
        )

    return send


def wait(condition):
    """Until what happens in real time has happened."""
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.fixture
def at_work(cloud, work, jobs):
    """Moves to where the job's machines run its program; returns its folder and what reads its state."""

    def begin(job):
        known = work.jobs[job.name]
        if not known.machines:
            cloud.clock.advance(work.provisioning_s)
        wait(lambda: known.machines and all((machine.folder / "started").exists() for machine in known.machines))
        return known.machines[0].folder, lambda: jobs.get_custom_job(name=job.name)

    return begin


def ended(get):
    wait(lambda: get().state.name in ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"))
    job = get()
    return job.state.name.removeprefix("JOB_STATE_"), job.error.code, job.error.message


def test_every_replica_runs_its_containers_program_and_the_chief_ends_the_job(cloud, work, create, at_work):
    job = create(1, 2)
    assert job.state.name == "JOB_STATE_PENDING"
    folder, get = at_work(job)
    assert get().state.name == "JOB_STATE_RUNNING"
    (folder / "end").write_text("0")
    assert ended(get) == ("SUCCEEDED", 0, "")
    specs = {e["resource"]["labels"]["task_name"]: json.loads(e["textPayload"])
             for e in cloud.logs.entries if e["textPayload"].startswith("{")}  # fmt: skip
    assert {name: spec["task"] for name, spec in specs.items()} == {
        "workerpool0-0": {"type": "workerpool0", "index": 0},
        "workerpool1-0": {"type": "workerpool1", "index": 0},
        "workerpool1-1": {"type": "workerpool1", "index": 1},
    }
    assert len({spec["cluster"]["workerpool0"][0] for spec in specs.values()}) == 1
    assert {e["severity"] for e in cloud.logs.entries if e["textPayload"] == "a warning"} == {"ERROR"}


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [(2, 3, "The replica workerpool0-0 exited with a non-zero status of 2"), (137, 8, "Replicas low on memory")],
)
def test_a_programs_error_ends_the_job_and_is_reported_a_little_later(cloud, work, create, at_work, code, error, words):
    work.error_late_s = 60
    folder, get = at_work(create())
    (folder / "end").write_text(str(code))
    assert ended(get) == ("FAILED", 0, "")
    cloud.clock.advance(61)
    state, code_seen, message = ended(get)
    assert (state, code_seen) == ("FAILED", error) and message.startswith(words)


def test_a_stockout_is_tried_again_three_times_unless_retries_are_disabled(cloud, world, work, create, jobs):
    world.never("us-central1", "*", "spot")
    once, often = create(strategy=SPOT, disable_retries=True), create(strategy=SPOT)
    cloud.clock.advance(work.provisioning_s)
    failed = jobs.get_custom_job(name=once.name)
    assert (failed.state.name, failed.error.code) == ("JOB_STATE_FAILED", 8)
    assert failed.error.message.startswith("Resources are insufficient in region: us-central1.")
    for _ in range(3):
        assert jobs.get_custom_job(name=often.name).state.name == "JOB_STATE_PENDING"
        cloud.clock.advance(work.pause_s)
    assert jobs.get_custom_job(name=often.name).state.name == "JOB_STATE_FAILED"
    assert not work.jobs[often.name].spells and not work.jobs[once.name].spells


@pytest.mark.parametrize(("exit_codes", "words"), [(0, "Resources are insufficient"), (1, "The replica workerpool0-0")])
def test_a_preempted_job_is_asked_to_end_and_fails(cloud, world, work, create, at_work, exit_codes, words):
    world.set("us-central1", "*", "spot", up=[(0, 900)])
    work.exit_codes = exit_codes
    job = create(strategy=SPOT, disable_retries=True)
    _, get = at_work(job)
    cloud.clock.advance(900 - work.provisioning_s - 1)
    assert get().state.name == "JOB_STATE_RUNNING"
    cloud.clock.advance(1)
    state, _, message = ended(get)
    assert state == "FAILED" and message.startswith(words)
    assert "asked to end" in [entry["textPayload"] for entry in cloud.logs.entries]
    assert work.jobs[job.name].hours(cloud.clock.now()) == pytest.approx((900 - work.provisioning_s) / 3600)


def test_who_does_not_heed_the_notice_is_killed_with_all_its_children(cloud, world, work, create, at_work):
    world.set("us-central1", "*", "spot", up=[(0, 900)])
    child = "import time; time.sleep(600)"
    deaf = f"""
import signal, subprocess, sys, time, pathlib
signal.signal(signal.SIGTERM, lambda *_: pathlib.Path("asked").touch())
child = subprocess.Popen([sys.executable, "-c", "{child}"], start_new_session=True)
pathlib.Path("child").write_text(str(child.pid))
pathlib.Path("started").touch()
time.sleep(600)
"""
    folder, get = at_work(create(strategy=SPOT, disable_retries=True, program=deaf))
    cloud.clock.advance(900)
    assert get().state.name == "JOB_STATE_RUNNING"
    wait((folder / "asked").exists)
    cloud.clock.advance(work.notice_s)
    assert ended(get)[0] == "FAILED"
    stat = f"/proc/{(folder / 'child').read_text()}/stat"
    wait(lambda: gone(stat))


def gone(stat):
    try:
        with open(stat) as file:
            return file.read().split()[2] == "Z"
    except FileNotFoundError:
        return True


def test_vertex_itself_starts_a_preempted_job_again_six_times(cloud, world, work, create):
    world.set("us-central1", "*", "spot", up=[(1000 * n, 1000 * n + 500) for n in range(1, 8)])
    work.pause_s = 500
    cloud.clock.advance(1000 - work.provisioning_s)
    job = work.jobs[create(strategy=SPOT, program="import time; time.sleep(600)").name]
    cloud.clock.advance(work.provisioning_s)
    for number in range(1, 8):
        assert (job.state, len(job.spells)) == (RUNNING, number)
        cloud.clock.advance(500)
        wait(lambda: job.state != RUNNING)
        cloud.clock.advance(work.pause_s)
    assert [spell.why for spell in job.spells] == ["preempted"] * 7 and job.over


def test_flex_start_waits_as_long_as_it_may(cloud, world, work, create, jobs, at_work):
    world.set("us-central1", "*", "flex_start", up=[(500, FOREVER)])
    short = create(strategy=FLEX, max_wait_duration=timedelta(seconds=400))
    long = create(strategy=FLEX, max_wait_duration=timedelta(0))
    cloud.clock.advance(401)
    expired = jobs.get_custom_job(name=short.name)
    assert (expired.state.name, expired.error.message) == ("JOB_STATE_EXPIRED", "")
    cloud.clock.advance(100)
    assert at_work(long)[1]().state.name == "JOB_STATE_RUNNING"


def test_quota_that_never_suffices_is_refused_and_quota_in_use_is_waited_for(cloud, work, create, jobs, at_work):
    work.quotas["custom_model_training_nvidia_h100_80gb_gpus"] = 8
    with pytest.raises(exceptions.TooManyRequests, match="quota metrics exceed quota limits: aiplatform"):
        create(1, 1)
    first, second = create(), create()
    folder, _ = at_work(first)
    assert jobs.get_custom_job(name=second.name).state.name == "JOB_STATE_QUEUED"
    (folder / "end").write_text("0")
    wait(lambda: jobs.get_custom_job(name=second.name).state.name == "JOB_STATE_PENDING")


def test_a_lost_machine_is_replaced_or_ends_the_job_or_starts_all_anew(cloud, work, create, at_work):
    alone, anew, never = (
        create(1, 1),
        create(1, 1, restart_job_on_worker_restart=True),
        create(1, 1, disable_retries=True),
    )
    reads = [at_work(job)[1] for job in (alone, anew, never)]
    for job in (alone, anew, never):
        with cloud.lock:
            work.jobs[job.name].lose("workerpool1-0", cloud.clock.now())
    assert [get().state.name for get in reads] == ["JOB_STATE_RUNNING", "JOB_STATE_RUNNING", "JOB_STATE_FAILED"]
    assert reads[2]().error.message == "Internal error occurred for the current attempt."
    starts = [[machine.starts for machine in work.jobs[job.name].machines] for job in (alone, anew)]
    assert starts == [[1, 2], [2, 2]]


def test_an_error_that_is_not_common_starts_one_program_or_all_anew_five_times_and_then_the_job(
    cloud, work, create, at_work
):
    work.is_common, work.pause_s = lambda code: code != 75, 0
    alone, anew, never = (
        create(1, 1),
        create(1, 1, restart_job_on_worker_restart=True),
        create(1, 1, disable_retries=True),
    )
    reads = [at_work(job)[1] for job in (alone, anew, never)]
    known = [work.jobs[job.name] for job in (alone, anew, never)]
    for job in known:
        (job.machines[1].folder / "end").write_text("75")
    assert [ended(get)[0] for get in reads] == ["FAILED"] * 3
    # Five starts more, three times the whole job, and each of those fails at once.
    assert [[machine.starts for machine in job.machines] for job in known] == [[4, 9], [9, 9], [1, 1]]


def test_a_machine_whose_end_goes_unnoticed_leaves_the_others_to_end_the_job(cloud, work, create, at_work):
    job = create(1, 1, disable_retries=True)
    folder, get = at_work(job)
    with cloud.lock:
        work.jobs[job.name].lose("workerpool0-0", cloud.clock.now(), noticed=False)
    cloud.clock.advance(600)
    assert get().state.name == "JOB_STATE_RUNNING"
    (folder.parent / "workerpool1-0" / "end").write_text("75")
    assert ended(get)[0] == "FAILED"
    assert "The replica workerpool1-0 exited with a non-zero status of 75." in get().error.message


def test_spot_machines_may_be_taken_away_without_a_notice(cloud, work, create, at_work):
    job = create(strategy=SPOT, disable_retries=True)
    _, get = at_work(job)
    with cloud.lock:
        work.jobs[job.name].take(cloud.clock.now())
    state, code, words = ended(get)
    assert (state, words[:27]) == ("FAILED", "Resources are insufficient ")
    assert "asked to end" not in [entry["textPayload"] for entry in cloud.logs.entries]
    assert work.jobs[job.name].spells[-1].why == "preempted"


def test_a_cancelled_job_and_one_whose_time_is_over_may_save(cloud, work, create, jobs, at_work):
    cancelled, late = create(), create(timeout=timedelta(seconds=300))
    reads = [at_work(job)[1] for job in (cancelled, late)]
    jobs.cancel_custom_job(name=cancelled.name)
    assert ended(reads[0]) == ("CANCELLED", 1, "CANCELED")
    cloud.clock.advance(300)
    assert ended(reads[1]) == ("CANCELLED", 1, "CANCELED")
    assert [entry["textPayload"] for entry in cloud.logs.entries].count("asked to end") == 2


def test_a_wrong_image_is_found_out_when_the_job_starts(cloud, work, create, jobs):
    work.refusal = lambda message: JobError(5, "Image not found.")
    job = create()
    cloud.clock.advance(work.provisioning_s)
    assert jobs.get_custom_job(name=job.name).error.message == "Image not found."


def test_what_vertex_would_not_take_is_refused(create):
    with pytest.raises(exceptions.BadRequest, match="Invalid label"):
        create(labels={"training-attempt": "Upper"})
    with pytest.raises(exceptions.BadRequest, match="7 days"):
        create(timeout=timedelta(days=8))
    with pytest.raises(exceptions.BadRequest, match="placeholder"):
        create(program="{{$.pipeline_service_account}}")


def test_a_repeated_request_makes_two_jobs_and_lists_lag(cloud, jobs, create):
    cloud.fail("aiplatform.*.customJobs.create", repeat_request(), late(0.05))
    cloud.custom_jobs.list_lag_s = 30
    for _ in range(2):
        create(labels={"training-attempt": "abc"})
    listed = lambda: list(jobs.list_custom_jobs(request={"parent": PARENT, "filter": 'labels.training-attempt="abc"'}))  # noqa: E731
    assert listed() == []
    cloud.clock.advance(30)
    assert len(listed()) == 3


def test_capacity_is_the_same_for_the_same_seed_and_another_elsewhere():
    def times(seed, region):
        series = World(seed).series(Place(region, "a3-highgpu-8g", "spot"))
        series.reach(86_400)
        return series.changes

    assert times(3, "us-east4") == times(3, "us-east4")
    assert len({tuple(times(seed, region)) for seed in (3, 4) for region in ("us-east4", "us-west1")}) == 4


def test_a_file_where_the_files_of_steps_would_go_is_refused_before_anything_starts(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["loopback", "--work", str(tmp_path / "file"), "--out", str(tmp_path / "env")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "cannot be a folder for the files of steps: File exists" in capsys.readouterr().err
    assert not (tmp_path / "env").exists()
