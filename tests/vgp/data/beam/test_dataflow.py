"""Preparations on Dataflow: Beam's own runner and Google's clients, against a server that runs what they stage."""

import os
import random
import signal
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from google.cloud import storage as client

from tools.emulator.cloud import late, lose_response, reset, slow, status
from tools.emulator.dataflow import Job
from tools.emulator.errors import ApiError
from vgp.base.exits import Preempted, ProcessFailed, UserError
from vgp.base.storage.dataflow import Jobs, explain_errors
from vgp.base.storage.storage import File
from vgp.data import tasks
from vgp.data.beam import dataflow as runner
from vgp.data.beam import dataflow_job
from vgp.data.beam.dataflow import job_name
from vgp.data.beam.dataflow_job import follow
from vgp.data.beam.worker_functions import write_file
from vgp.data.prepare import prepare

OUT = "gs://test-bucket/out/data"
#: Kills of the step that follows a job, in a drill.
KILLS = int(os.environ.get("TRAINING_TEST_KILLS", 0))


def objects(prefix: str) -> dict[str, bytes]:
    bucket = client.Client().bucket("test-bucket")
    return {blob.name.removeprefix(prefix): blob.download_as_bytes() for blob in bucket.list_blobs(prefix=prefix)}


def contents(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def called(cloud, verb: str) -> int:
    return sum(call.method == f"dataflow.projects.locations.jobs.{verb}" for call in cloud.requests)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """What processes of this machine prepare."""

    def made(data="", **options) -> dict[str, bytes]:
        with monkeypatch.context() as patch:
            patch.delenv("PREPARE_ENGINES")
            prepare("letters:Letters", data, tmp_path / "here", options=options, workers=1)
        return contents(tmp_path / "here")

    return made


@pytest.fixture
def words(dataflow) -> str:
    """Two files of a bucket."""
    for number in range(2):
        blob = client.Client().bucket("test-bucket").blob(f"words/{number}.txt")
        blob.upload_from_string("anna otto lagerregal nebel regen hannah kajak sand radar wolke " * 12)
    return "gs://test-bucket/words/*.txt"


def test_a_job_writes_what_processes_here_write_whatever_answer_is_lost(dataflow, words, here, capsys):
    dataflow.fail("dataflow.projects.locations.jobs.create", lose_response())
    dataflow.fail("dataflow.projects.locations.jobs.get", status(503), reset(), lose_response())
    dataflow.fail("dataflow.projects.locations.jobs.messages.list", status(503))
    made = prepare("letters:Letters", words, OUT)
    assert objects("out/data/") == here(words) and (made.rows("train"), made.rows("test")) == (160, 80)
    (job,) = dataflow.dataflow.jobs.values()
    link = f"https://console.cloud.google.com/dataflow/jobs/us-central1/{job.message['id']}?project=test-project"
    printed = capsys.readouterr().err
    assert link in printed and "dataflow: running, 2 workers" in printed and "note: Letters were counted." in printed
    kept = {name.rpartition("/")[2] for name in objects("temp/") if "/beam/" not in name}
    assert kept == {"place.json", "manifest.json", "notes.json"}

    again, submitted = prepare("letters:Letters", words, OUT), called(dataflow, "create")
    assert again == made and len(dataflow.dataflow.jobs) == 1 and "is already done" in capsys.readouterr().err
    client.Client().bucket("test-bucket").blob("out/data/train-00001.parquet").delete()
    dataflow.dataflow.runs = lambda job: job.end("CANCELLED")
    with pytest.raises(ProcessFailed, match="was cancelled, not by this step"):
        prepare("letters:Letters", words, OUT)
    assert called(dataflow, "create") == submitted + 1


def test_what_is_wrong_with_the_input_ends_the_job_at_once_and_leaves_a_dataset_that_was_there(
    dataflow, here, tmp_path
):
    for name, data in here(shards=2).items():
        client.Client().bucket("test-bucket").blob(f"out/data/{name}").upload_from_string(data)
    before = objects("out/data/")
    with pytest.raises(UserError, match=r"row_id \d+ occurs in shard \d .* and in shard \d"):
        prepare("letters:Letters", "", OUT, options={"wrong": "ids", "shards": 2})
    assert objects("out/data/") == before and not [name for name in objects("temp/") if name.endswith(".arrow")]
    prepare("letters:Letters", "", OUT, options={"shards": 1})
    assert objects("out/data/") == here(shards=1) != before


def test_a_job_is_requested_with_the_values_of_the_settings_also_after_a_refusal(dataflow, allow):
    dataflow.accounts.add("worker@test-project.iam.gserviceaccount.com")
    dataflow.dataflow.runs = lambda job: job.end("CANCELLED")
    dataset = "gs://test-bucket/1234/training-20260301/prepare_-4567890/dataset"
    allow(
        machine="n2-highmem-8", max_workers=7, disk_gb=120, subnetwork="regions/us-central1/subnetworks/s", max_hours=2,
        service_account="worker@test-project.iam.gserviceaccount.com",
    )  # fmt: skip
    dataflow.dataflow.refusal = ApiError(403, "Permission denied.")
    with pytest.raises(UserError, match=r"refuses: .* Fix: the step's account needs dataflow.jobs.create"):
        prepare("letters:Letters", "", dataset)
    dataflow.dataflow.refusal = None
    with pytest.raises(ProcessFailed, match="was cancelled, not by this step"):
        prepare("letters:Letters", "", dataset)
    (job,) = dataflow.dataflow.jobs.values()
    environment, name = job.message["environment"], job.message["name"]
    (pool,) = environment["workerPools"]
    image = "us-central1-docker.pkg.dev/test-project/images/training@sha256:1"
    assert (pool["machineType"], pool["diskSizeGb"], pool["autoscalingSettings"]["maxNumWorkers"]) == (
        "n2-highmem-8", 120, 7,
    )  # fmt: skip
    assert pool["sdkHarnessContainerImages"][0]["containerImage"] == image and not environment.get("packages")
    assert pool["subnetwork"] == "regions/us-central1/subnetworks/s" and pool["ipConfiguration"] in (
        2,
        "WORKER_IP_PRIVATE",
    )
    assert environment["serviceAccountEmail"] == "worker@test-project.iam.gserviceaccount.com"
    assert "max_workflow_runtime_walltime_seconds=7200" in environment["serviceOptions"]
    assert job.options["sdk_location"] == "container" and job.options["temp_location"].startswith(
        "gs://test-bucket/temp/"
    )
    assert job.message["labels"] == {"run": "training-20260301", "step": "prepare", "attempt": "0"}
    assert name.startswith("training-20260301-prepare-")


def test_another_attempt_takes_over_the_job_of_the_first_and_its_shards(dataflow, here):
    first, second = (f"gs://test-bucket/1234/run-1/prepare_-{n}/data" for n in (1111111, 2222222))
    begun, may_run, run = threading.Event(), threading.Event(), dataflow.dataflow.runs

    def waiting(job):
        begun.set()
        may_run.wait(20)
        run(job)

    dataflow.dataflow.runs = waiting
    pid = forked(lambda: prepare("letters:Letters", "", first))
    assert begun.wait(20)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    may_run.set()
    prepare("letters:Letters", "", second)
    assert called(dataflow, "create") == 1
    assert objects("1234/run-1/prepare_-2222222/data/") == here()


def forked(work) -> int:
    """Returns the process id of a fork that does the work; the exit code of the fork is the outcome."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        except Preempted:
            code = 75
        except BaseException as error:
            print(error)
        finally:
            os._exit(code)
    return pid


@pytest.mark.skipif(not KILLS, reason="a drill")
def test_killed_at_any_moment_the_step_ends_up_with_one_job_and_all_rows(dataflow, here):
    draw = random.Random()
    for _ in range(KILLS):
        pid = forked(lambda: prepare("letters:Letters", "", OUT, options={"wait_s": 0.2}))
        time.sleep(draw.uniform(0, 2))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    prepare("letters:Letters", "", OUT, options={"wait_s": 0.2})
    assert objects("out/data/") == here(wait_s=0.2)
    assert len(dataflow.dataflow.jobs) == 1


def test_a_step_that_is_cancelled_cancels_its_job(dataflow):
    def runs(job):
        os.kill(os.getpid(), signal.SIGTERM)
        job.ended.wait(20)

    dataflow.dataflow.runs = runs
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(Preempted, match="was cancelled because"):
            prepare("letters:Letters", "", OUT)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [job.state for job in dataflow.dataflow.jobs.values()] == ["CANCELLED"]


def test_a_job_whose_creation_is_answered_too_late_is_found_by_its_name(dataflow):
    dataflow.fail("dataflow.projects.locations.jobs.create", late(40))
    began = time.monotonic()
    prepare("letters:Letters", "", OUT)
    assert time.monotonic() - began < 40 and "manifest.json" in objects("out/data/")


def test_a_step_that_is_cancelled_while_google_does_not_answer_ends(dataflow, monkeypatch):
    dataflow.fail("dataflow.projects.locations.jobs.create", slow(40))
    monkeypatch.setattr(dataflow_job, "STOPS_WITHIN_S", 0.1)

    def stops():
        while not called(dataflow, "create"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stops).start()
    with pytest.raises(Preempted, match="cancelled before Dataflow confirmed"):
        prepare("letters:Letters", "", OUT)


def test_a_job_that_an_earlier_try_still_cancels_is_waited_for(dataflow, here, capsys):
    """The service has no two jobs of a name, and takes minutes to cancel one."""
    server, run = dataflow.dataflow, dataflow.dataflow.runs
    server.cancels_at_once = False
    server.runs = lambda job: (os.kill(os.getpid(), signal.SIGTERM), job.ended.wait(60))
    with pytest.raises(Preempted):
        prepare("letters:Letters", "", OUT)
    (first,) = server.jobs.values()
    assert first.state == "CANCELLING"
    looks = called(dataflow, "list")

    def ends_while_it_is_waited_for():
        while called(dataflow, "list") < looks + 4:
            time.sleep(0.01)
        first.state = "CANCELLED"
        first.ended.set()

    server.runs = run
    threading.Thread(target=ends_while_it_is_waited_for).start()
    prepare("letters:Letters", "", OUT)
    assert [job.state for job in server.jobs.values()] == ["CANCELLED", "DONE"] and objects("out/data/") == here()
    assert "is still being cancelled: waiting for its end" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("killed", r"died while scanning \(words-1.txt, record 7\), most likely for lack of memory.*scanning shard 1"),
        ("ends", r"scanning of words-1.txt, record 7, shard 1, .*SystemExit: 4 \(letters.py, line \d+, in go_wrong\)"),
    ],
)
def test_a_record_that_ends_its_process_is_named_with_its_file(dataflow, monkeypatch, wrong, message):
    monkeypatch.setattr(runner, "SEPARATE_PROCESSES", True)
    with pytest.raises(ProcessFailed, match=message):
        prepare("letters:Letters", "", OUT, options={"wrong": wrong})
    assert objects("out/data/") == {}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Startup of the worker pool failed to bring up any workers. QUOTA_EXCEEDED: Quota 'CPUS' exceeded.",
            "Quota 'CPUS' exceeded.* Request more quota, or lower max_workers",
        ),
        ("Error syncing pod: ErrImagePull", "image needs Beam's boot program: docs/how-to/dataflow.md"),
        (
            "Workflow failed. Causes: Permissions verification for controller service account failed.",
            "roles/dataflow.work",
        ),
        (
            "Traceback (most recent call last):\n  File x\nOSError: disk is full\n\nnote",
            "failed: OSError: disk is full",
        ),
        (None, "the service gave no reason"),
    ],
)
def test_why_a_job_failed_is_explained(dataflow, message, expected):
    job = begun(dataflow)
    if message:
        job.log(message)
        job.log("Workflow failed. Causes: S01: a work item was attempted 4 times without success.")
    job.end("FAILED")
    with pytest.raises(ProcessFailed, match=expected):
        followed(job)


def test_a_cancelled_job_is_reported_as_cancelled_though_a_worker_has_failed_before(dataflow):
    job = begun(dataflow)
    write_file("gs://test-bucket/temp/1/failures/scanning-1.json", b'{"words": "a process died", "final": false}')
    job.end("CANCELLED")
    with pytest.raises(ProcessFailed, match=r"cancelled, not by this step: http.* A worker had failed.*a process died"):
        followed(job)


def begun(cloud) -> Job:
    """A running job whose state was never requested."""
    message = {"id": "j1", "name": "prepare-1", "projectId": "test-project", "location": "us-central1"}
    return cloud.dataflow.jobs.setdefault("j1", Job(message, datetime.now(UTC) - timedelta(minutes=1)))


def followed(job: Job, max_hours: float = 1) -> None:
    jobs = Jobs("test-project", "us-central1")
    follow(jobs, jobs.get(job.message["id"]), "gs://test-bucket/temp/1", 3, max_hours, threading.Event())


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (
            ApiError(403, "Not you."),
            r"test-project refuses: Not you\. Fix: the step's account needs dataflow.jobs.create",
        ),
        (ApiError(403, "Dataflow API has not been used in project 1 before"), "gcloud services enable dataflow"),
        (
            ApiError(429, "Too many jobs: 25 run."),
            r"has no quota left for the job: .* Wait until other jobs have ended",
        ),
        (ApiError(400, "(a1): The subnetwork is in another region."), "refuses the job: .*subnetwork is in another"),
    ],
)
def test_why_no_job_could_be_started_is_explained(dataflow, refusal, message):
    from google.cloud.dataflow_v1beta3 import CreateJobRequest

    dataflow.dataflow.refusal = refusal
    jobs = Jobs("test-project", "us-central1")
    request = CreateJobRequest(project_id=jobs.project, location=jobs.region, job={"name": "prepare-1"})
    with pytest.raises(UserError, match=message), explain_errors(jobs.project, jobs.region, "dataflow.jobs.create"):
        jobs._jobs.create_job(request=request)


def test_a_job_that_takes_too_long_is_cancelled(dataflow):
    with pytest.raises(UserError, match="cancelled after 0.0002 hours, the limit max_hours"):
        followed(job := begun(dataflow), max_hours=0.0002)
    assert job.state == "CANCELLED"


@pytest.mark.parametrize(
    ("data", "output", "settings", "message"),
    [
        ("{tmp}/words.txt", OUT, {}, r"words.txt is on this machine, where Dataflow's workers cannot read it"),
        ("", "{tmp}/data", {}, "is on this machine, where Dataflow's workers cannot write"),
        ("", "gs://test-bucket/other", {}, r"holds other files \(mine.txt\): choose an empty or new folder"),
        ("", "gs://nobodys/data", {}, "there is no such bucket"),
        ("", OUT, {"region": ""}, "Dataflow needs region: .*pipelines.toml"),
        ("", OUT, {"image": ""}, "Dataflow needs image: .*pipelines.toml"),
    ],
)
def test_what_cannot_work_is_refused_before_a_job_is_started(
    dataflow, allow, tmp_path, data, output, settings, message
):
    (tmp_path / "words.txt").write_text("anna otto")
    client.Client().bucket("test-bucket").blob("other/mine.txt").upload_from_string("mine")
    allow(**settings)
    with pytest.raises(UserError, match=message):
        prepare("letters:Letters", data.format(tmp=tmp_path), output.format(tmp=tmp_path))
    assert not dataflow.dataflow.jobs


# ---- names of Dataflow jobs


def test_the_name_follows_from_run_step_and_data_and_not_from_the_attempt():
    def name(run="run-1", step=1111111, inputs=(), image="image@sha256:1", **options):
        output = f"gs://test-bucket/1234/{run}/prepare_-{step}/data"
        return job_name("letters:Letters", tasks.load("letters:Letters", options), inputs, output, image)

    assert name() == name(step=2222222) and name().startswith("run-1-prepare-")
    of_file, of_other = ([File("gs://b/words.txt", 120, generation)] for generation in (1, 2))
    others = [
        name(run="run-2"),
        name(shards=4),
        name(image="image@sha256:2"),
        name(inputs=of_file),
        name(inputs=of_other),
    ]
    assert len({name(), *others}) == 6
