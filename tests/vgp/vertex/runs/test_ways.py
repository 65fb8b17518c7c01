"""`show` tells the way up a ladder: text that fits 80 columns, JSON, and its money in the cost of the run."""

import io
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import PipelineJob
from loopback.cloud import Cloud
from rich.console import Console

from vgp.check.check_finding import RungRow, StepRow
from vgp.protocol.capacity.way import read as told
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.runs import outputs, run_cost, step_jobs
from vgp.vertex.runs.remote_run import Run, Step, read
from vgp.vertex.runs.step_jobs import job_link, page

from .test_show import NOW

DOCUMENT = json.loads((Path(__file__).parents[3] / "data/ladder.json").read_text())
SETTINGS = Settings(project="my-project")


def run(**changes: Any) -> Run:
    job = PipelineJob(name="projects/1/locations/us-central1/pipelineJobs/a", state="PIPELINE_STATE_SUCCEEDED")
    found = read(job)
    steps = (Step("train", "succeeded", "train", "train", NOW - timedelta(hours=1), NOW),)
    way = told({**DOCUMENT, **changes})
    assert way is not None
    return Run(**{**vars(found), "ways": (way,), "steps": steps})


def shown(run: Run, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(page(SETTINGS, run.ways[0]))
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
    told = run()
    spent = run_cost.spent(replace(told.steps[0], ladder_usd=280.0), {"train": (launcher,)}, NOW)
    assert spent == pytest.approx(280.1) and run_cost.spent(told.steps[0], {"train": (launcher,)}, NOW) is None
    document = outputs.report_json(SETTINGS, told, {}, NOW)
    assert document["ladders"][0]["steps_lost"] == 37 and document["ladders"][0]["usd"] == 280


def test_a_run_learns_of_its_ladders_from_the_bucket(cloud: Cloud, settings: Settings, monkeypatch: Any) -> None:
    told = run()
    monkeypatch.setattr(step_jobs.ways, "has_ladder", lambda content: True)
    told.job.runtime_config.gcs_output_directory = "gs://test-bucket/runs"
    blob = clients.storage(settings).bucket("test-bucket").blob("runs/capacity/a/train-0123456789ab/ladder.json")
    blob.upload_from_string(json.dumps(DOCUMENT))
    found = step_jobs.with_ways(settings, Run(**{**vars(told), "ways": ()}))
    assert found.ways == told.ways and found.steps[0].ladder_usd == 280
    twice = step_jobs.with_ways(settings, Run(**{**vars(told), "steps": (told.steps[0], told.steps[0])}))
    assert {step.ladder_usd for step in twice.steps} == {None}
