"""The shells of a step at work: found while it runs, of the job of the moment, and never promised where none can be."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from google.cloud.aiplatform.utils.console_utils import custom_job_console_uri

from tools.emulator.cloud import Cloud
from vgp.base.errors import RequestError, WorkFailed
from vgp.protocol.capacity.ladder_view import LAUNCHER
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.runs.job_shell import wait_for_shells
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.step_jobs import BILLING

BUCKET = "test-bucket"


pytestmark = pytest.mark.usefixtures("starts_jobs_itself")


def started(settings: Settings, run: Run, region: str = "us-central1", *, web_access: bool = True) -> str:
    container = {"image_uri": "python"}
    pools = [
        {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": count, "container_spec": container}
        for count in (1, 2)
    ]
    spec = {"worker_pool_specs": pools, "enable_web_access": web_access}
    job = {"display_name": "train", "labels": {BILLING: run.labels[BILLING]}, "job_spec": spec}
    client = clients.job_service(settings.model_copy(update={"region": region}))
    parent = f"projects/{settings.project}/locations/{region}"
    return str(client.create_custom_job(parent=parent, custom_job=job).name)


def test_a_shell_of_every_machine_is_waited_for(settings: Settings, running: Run, clock: Any) -> None:
    job, lines = started(settings, running), []
    found = wait_for_shells(settings, running.id, "train", log=lines.append, clock=clock)
    assert list(found.uris) == ["workerpool0-0", "workerpool1-0", "workerpool1-1"]
    assert found.job == job and found.link == custom_job_console_uri(job.replace("123456789012", "test-project"))
    assert lines == [f"job {job.rpartition('/')[2]} of train is pending; waiting for its shells"]
    assert found.as_json()["shells"]["workerpool1-1"].startswith("https://")


def test_of_several_jobs_of_a_step_the_newest_counts(
    cloud: Cloud, settings: Settings, running: Run, clock: Any
) -> None:
    started(settings, running)
    cloud.clock.advance(5)
    newest = started(settings, running)
    assert wait_for_shells(settings, running.id, "train", clock=clock).job == newest


def test_the_error_for_a_job_without_web_access_names_the_setting(settings: Settings, running: Run, clock: Any) -> None:
    started(settings, running, web_access=False)
    with pytest.raises(RequestError, match=r"web_access = true"):
        wait_for_shells(settings, running.id, "train", clock=clock)


def test_a_job_that_does_not_come_ends_the_waiting(settings: Settings, running: Run, clock: Any) -> None:
    with pytest.raises(WorkFailed, match="train is running; waiting for its job; no shell after 20s"):
        wait_for_shells(settings, running.id, "train", timeout_s=20, clock=clock)


def test_a_step_that_is_over_or_unknown_is_reported_at_once(settings: Settings, running: Run, clock: Any) -> None:
    with pytest.raises(RequestError, match="prepare of .* is succeeded: it has ended"):
        wait_for_shells(settings, running.id, "prepare", clock=clock)
    with pytest.raises(RequestError, match="has no step trian. Did you mean train"):
        wait_for_shells(settings, running.id, "trian", clock=clock)


def test_a_step_that_ends_while_it_is_waited_for_is_reported(settings: Settings, running: Run, clock: Any) -> None:
    with pytest.raises(RequestError, match="train of .* is succeeded: it has ended"):
        wait_for_shells(settings, running.id, "train", clock=clock)


def test_of_a_ladder_it_is_the_job_of_the_moment_wherever_it_is(
    cloud: Cloud, settings: Settings, start: Callable[..., str], look: Callable[[str], Run], clock: Any, ladder: Any
) -> None:
    cloud.script("train", seconds=6000)
    name = start(ladder)
    cloud.clock.advance(60)
    run = look(name)
    started(settings, run)  # of an attempt that is over
    job = started(settings, run, "europe-west4")
    attempts = [
        {"number": 1, "rung": "a", "region": "us-central1", "outcome": "preempted", "job": None},
        {"number": 2, "rung": "b", "region": "europe-west4", "outcome": None, "job": job},
    ]
    document = {"format": 1, "run": run.id, "step": "train", "rungs": [], "attempts": attempts}
    root = run.job.runtime_config.gcs_output_directory.removeprefix("gs://")
    bucket, _, folder = root.partition("/")
    blob = clients.storage(settings).bucket(bucket).blob(f"{folder}/capacity/{run.id}/train-0123456789ab/ladder.json")
    blob.upload_from_string(json.dumps(document))
    found = wait_for_shells(settings, run.id, "train", clock=clock)
    assert found.job == job and "europe-west4" in found.link


@pytest.fixture
def ladder() -> dict[str, Any]:
    """A pipeline of one step, whose container is the launcher of a ladder."""
    container = {"image": "python", "command": ["python3", "-m", LAUNCHER]}
    return {
        "pipelineInfo": {"name": "small"},
        "root": {"dag": {"tasks": {"train": {"componentRef": {"name": "comp-train"}, "taskInfo": {"name": "train"}}}}},
        "components": {"comp-train": {"executorLabel": "exec-train"}},
        "deploymentSpec": {"executors": {"exec-train": {"container": container}}},
        "schemaVersion": "2.1.0", "sdkVersion": "kfp-2.17.0",
    }  # fmt: skip
