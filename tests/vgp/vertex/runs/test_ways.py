"""`show` tells the way up a ladder: text that fits 80 columns, JSON, and its money in the cost of the run."""

import io
import json
from pathlib import Path
from typing import Any

from google.cloud.aiplatform_v1.types import PipelineJob
from rich.console import Console

from vgp.inside.capacity.way import read as told
from vgp.settings import Settings
from vgp.vertex.runs import cost, report
from vgp.vertex.runs.state import Run, read
from vgp.vertex.runs.ways import job_link, page

from .test_show import NOW

DOCUMENT = json.loads((Path(__file__).parents[3] / "data/ladder.json").read_text())
SETTINGS = Settings(project="my-project")


def run(**changes: Any) -> Run:
    job = PipelineJob(name="projects/1/locations/us-central1/pipelineJobs/a", state="PIPELINE_STATE_SUCCEEDED")
    found = read(job)
    way = told({**DOCUMENT, **changes})
    assert way is not None
    return Run(**{**vars(found), "ways": (way,)})


def shown(run: Run, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(page(SETTINGS, run.ways[0]))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_every_attempt_has_a_line_of_its_own_at_80_columns() -> None:
    lines = [line.rstrip() for line in shown(run()).splitlines()]
    assert "1  spot-8xH100  us-central1   2h 00m   $40.00  0 to 480, 37 lost  preempted" in lines
    assert "2: no machines within 2h" in lines


def test_hostile_words_of_a_ladder_are_only_text() -> None:
    attempts = [{**DOCUMENT["attempts"][0], "rung": "[red]\x1b[2J", "words": "a\nb\x07", "outcome": "x\x1b["}]
    text = shown(run(attempts=attempts))
    assert "\x1b" not in text and "\x07" not in text and "[red]" in text


def test_the_job_of_the_moment_has_its_page() -> None:
    going = {**DOCUMENT["attempts"][2], "outcome": None}
    link = "https://console.cloud.google.com/ai/platform/locations/europe-west4/training/5003?project=my-project"
    assert link in shown(run(attempts=[going]), 200) and job_link(SETTINGS, "") == ""


def test_its_machines_count_in_the_cost_and_stand_in_the_json() -> None:
    rows = cost.machines(run())
    assert cost.so_far(run(), rows, NOW).usd == 280
    document = report.as_json(SETTINGS, run(), rows, NOW)
    assert document["usd"] == 280 and document["ladders"][0]["steps_lost"] == 37
    unpriced = [{**DOCUMENT["attempts"][0], "usd": None}]
    assert report.as_json(SETTINGS, run(attempts=unpriced), rows, NOW)["unpriced"] == ["train"]
