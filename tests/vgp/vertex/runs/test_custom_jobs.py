"""The job that a training step started is found while the step runs, by the run's label and the step's name."""

from collections.abc import Callable
from typing import Any

import pytest
from loopback.cloud import Cloud, status

from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.run_logs import Selection, entries
from vgp.vertex.runs.step_jobs import BILLING, with_started


def started_job(settings: Settings, display_name: str, billing: str) -> str:
    machine, container = {"machine_type": "n1-standard-4"}, {"image_uri": "python"}
    pool = {"machine_spec": machine, "replica_count": 1, "container_spec": container}
    job = {"display_name": display_name, "labels": {BILLING: billing}, "job_spec": {"worker_pool_specs": [pool]}}
    client = clients.job_service(settings)
    parent = f"projects/{settings.project}/locations/us-central1"
    return str(client.create_custom_job(parent=parent, custom_job=job).name.rpartition("/")[2])


pytestmark = pytest.mark.usefixtures("starts_jobs_itself")


def test_the_log_of_training_is_there_while_it_trains(cloud: Cloud, settings: Settings, running: Run) -> None:
    assert [step.state for step in running.steps[:3]] == ["succeeded", "succeeded", "running"]
    job = started_job(settings, "train", running.labels[BILLING])
    other = started_job(settings, "train", "12345")
    cloud.logs.add("epoch 1", job_id=job)
    cloud.logs.add("of another run", job_id=other)
    found = entries(settings, with_started(settings, running), Selection("train"))
    assert [(each.step, each.message) for each in found] == [("train", "epoch 1")]


def test_a_job_goes_to_the_step_of_its_name_only(settings: Settings, running: Run) -> None:
    jobs = [started_job(settings, name, running.labels[BILLING]) for name in ("train", "prepare", "evaluate")]
    steps = with_started(settings, running).steps
    assert steps[2].jobs[-1] == jobs[0]
    assert steps[1] == running.steps[1] and steps[3] == running.steps[3], "one is over, the other has not begun"


def test_a_job_that_could_be_of_several_steps_is_given_to_none(
    cloud: Cloud, settings: Settings, start: Callable[..., str], look: Callable, branching: dict[str, Any]
) -> None:
    cloud.script("flip-2", seconds=600)
    name = start(branching)
    cloud.clock.advance(30)
    run = look(name)
    started_job(settings, "flip-2", run.labels[BILLING])
    assert sum(step.state == "running" and step.task == "flip-2" for step in run.steps) == 2
    assert with_started(settings, run).steps == run.steps


def test_a_run_that_is_done_asks_for_nothing(
    cloud: Cloud, settings: Settings, start: Callable[..., str], look: Callable
) -> None:
    name = start()
    cloud.clock.advance(3600)
    run = look(name)
    before = len(cloud.requests)
    assert with_started(settings, run) is run and len(cloud.requests) == before


def test_the_links_of_a_failure_do_without(cloud: Cloud, settings: Settings, start: Callable, clock: Any) -> None:
    import io

    from rich.console import Console

    from vgp.vertex.runs.follow import follow

    cloud.script("train", fail="broken")
    cloud.fail("aiplatform.projects.locations.customJobs.list", status(403), forever=True)
    console = Console(file=io.StringIO(), width=200)
    assert follow(settings, start(), console, clock=clock).exit_code == 1
    assert "train failed: broken" in console.file.getvalue()  # type: ignore[attr-defined]
