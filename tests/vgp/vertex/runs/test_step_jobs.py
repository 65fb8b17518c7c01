"""The job that a training step started is found while the step runs, by the run's label and the step's name. `show`
reports the way up a ladder: text that fits 80 columns, JSON, and its money in the cost of the run."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import PipelineJob
from rich.console import Console

from tools.emulator.cloud import Cloud, status
from vgp.check.check_finding import RungRow, StepRow
from vgp.protocol.capacity.ladder_view import read as read_ladder
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.runs import outputs, run_cost, step_jobs
from vgp.vertex.runs.remote_run import Run, Step, read
from vgp.vertex.runs.run_logs import Selection, read_entries
from vgp.vertex.runs.step_jobs import BILLING, job_link, render_ladder, with_started_jobs

from .test_run_pages import NOW


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
    found = read_entries(settings, with_started_jobs(settings, running), Selection("train"))
    assert [(each.step, each.message) for each in found] == [("train", "epoch 1")]


def test_a_job_goes_to_the_step_of_its_name_only(settings: Settings, running: Run) -> None:
    jobs = [started_job(settings, name, running.labels[BILLING]) for name in ("train", "prepare", "evaluate")]
    steps = with_started_jobs(settings, running).steps
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
    assert with_started_jobs(settings, run).steps == run.steps


def test_a_run_that_is_done_asks_for_nothing(
    cloud: Cloud, settings: Settings, start: Callable[..., str], look: Callable
) -> None:
    name = start()
    cloud.clock.advance(3600)
    run = look(name)
    before = len(cloud.requests)
    assert with_started_jobs(settings, run) is run and len(cloud.requests) == before


def test_the_links_of_a_failure_do_without(cloud: Cloud, settings: Settings, start: Callable, clock: Any) -> None:
    import io

    from rich.console import Console

    from vgp.vertex.runs.follow import follow

    cloud.script("train", fail="broken")
    cloud.fail("aiplatform.projects.locations.customJobs.list", status(403), forever=True)
    console = Console(file=io.StringIO(), width=200)
    assert follow(settings, start(), console, clock=clock).exit_code == 1
    assert "train failed: broken" in console.file.getvalue()  # type: ignore[attr-defined]


DOCUMENT = json.loads((Path(__file__).parents[3] / "data/ladder.json").read_text())
SETTINGS = Settings(project="my-project")


def run(**changes: Any) -> Run:
    job = PipelineJob(name="projects/1/locations/us-central1/pipelineJobs/a", state="PIPELINE_STATE_SUCCEEDED")
    found = read(job)
    steps = (Step("train", "succeeded", "train", "train", NOW - timedelta(hours=1), NOW),)
    way = read_ladder({**DOCUMENT, **changes})
    assert way is not None
    return Run(**{**vars(found), "ways": (way,), "steps": steps})


def shown(run: Run, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(render_ladder(SETTINGS, run.ways[0]))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_every_attempt_has_a_line_of_its_own_at_80_columns() -> None:
    lines = [line.rstrip() for line in shown(run()).splitlines()]
    assert "1  spot-8xH100  us-central1   2h 00m   $40.00  0 to 480, 37 lost  preempted" in lines
    assert "2: no machines within 2h" in lines


def test_the_days_of_its_prices_stand_below_the_attempts() -> None:
    dated = [{**rung, "price_date": "2026-07-30"} for rung in DOCUMENT["rungs"]]
    assert shown(run(rungs=dated)).count("prices of 2026-07-30") == 1 and "prices of" not in shown(run())


def test_hostile_words_of_a_ladder_are_only_text() -> None:
    attempts = [{**DOCUMENT["attempts"][0], "rung": "[red]\x1b[2J", "words": "a\nb\x07", "outcome": "x\x1b["}]
    text = shown(run(attempts=attempts))
    assert "\x1b" not in text and "\x07" not in text and "[red]" in text


def test_the_job_of_the_moment_has_its_page() -> None:
    going = {**DOCUMENT["attempts"][2], "outcome": None}
    link = "https://console.cloud.google.com/agent-platform/locations/europe-west4/training/5003?project=my-project"
    assert link in shown(run(attempts=[going]), 200) and job_link(SETTINGS, "") == ""


def test_its_machines_count_in_the_cost_of_their_step_and_stand_in_the_json() -> None:
    launcher = StepRow("train", "e2-standard-4", None, 0, 1, "STANDARD", 0.1, rungs=(RungRow("1", (), 3600),))
    whole = run()
    spent = run_cost.step_cost(replace(whole.steps[0], ladder_usd=280.0), {"train": (launcher,)}, NOW)
    assert spent == pytest.approx(280.1) and run_cost.step_cost(whole.steps[0], {"train": (launcher,)}, NOW) is None
    document = outputs.report_json(SETTINGS, whole, {}, NOW)
    assert document["ladders"][0]["steps_lost"] == 37 and document["ladders"][0]["usd"] == 280


def test_a_run_learns_of_its_ladders_from_the_bucket(cloud: Cloud, settings: Settings, monkeypatch: Any) -> None:
    whole = run()
    monkeypatch.setattr(step_jobs, "has_ladder", lambda content: True)
    whole.job.runtime_config.gcs_output_directory = "gs://test-bucket/runs"
    blob = clients.storage(settings).bucket("test-bucket").blob("runs/capacity/a/train-0123456789ab/ladder.json")
    blob.upload_from_string(json.dumps(DOCUMENT))
    found = step_jobs.with_ladders(settings, Run(**{**vars(whole), "ways": ()}))
    assert found.ways == whole.ways and found.steps[0].ladder_usd == 280
    twice = step_jobs.with_ladders(settings, Run(**{**vars(whole), "steps": (whole.steps[0], whole.steps[0])}))
    assert {step.ladder_usd for step in twice.steps} == {None}
