"""The page of a run and the list of runs: readable at 80 columns, and harmless whatever the names are."""

import io
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import PipelineJob
from rich.console import Console

from vgp.settings import Settings
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.run_cost import machines
from vgp.vertex.runs.run_pages import page
from vgp.vertex.runs.run_view import listing

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
EVIL = "[red]x\x1b[2J\x07\r\ny"
ARTIFACT = {
    "name": f"projects/1/locations/us-central1/metadataStores/default/artifacts/{EVIL}", "uri": f"gs://{EVIL}",
    "schema_title": f"system.{EVIL}", "metadata": {EVIL: EVIL},
}  # fmt: skip


def run(**more: Any) -> Run:
    task = {
        "task_id": 1, "task_name": EVIL, "state": "FAILED", "error": {"message": EVIL},
        "outputs": {EVIL: {"artifacts": [ARTIFACT]}}, "execution": {"metadata": {f"output:{EVIL}": EVIL}},
    }  # fmt: skip
    return read(
        PipelineJob(
            name="projects/1/locations/us-central1/pipelineJobs/training-1d11b64579c6535deaec",
            display_name=EVIL,
            state="PIPELINE_STATE_FAILED",
            create_time=NOW,
            start_time=NOW,
            end_time=NOW,
            error={"message": EVIL},
            labels={"team": EVIL},
            template_uri=EVIL,
            service_account=EVIL,
            job_detail={"task_details": [task]},
            pipeline_spec={"pipelineInfo": {"name": EVIL}},
            runtime_config={"parameter_values": {EVIL: EVIL}},
            **more,
        )  # fmt: skip
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_a_page_full_of_hostile_text_is_only_text(terminal: bool) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=terminal)
    page(console, Settings(project="my-project"), run(), machines(run()), NOW)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())  # type: ignore[attr-defined]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", shown)
    for part in ("parameters", "outputs", "artifacts", "failed: "):
        assert part in shown
    assert shown.count("[red]x\\x1b[2J") >= 10


def test_a_page_is_complete_where_google_tells_little() -> None:
    bare = read(PipelineJob(name="projects/1/locations/us-central1/pipelineJobs/x"))
    console = Console(file=io.StringIO(), width=80)
    page(console, Settings(project="my-project"), bare, machines(bare), NOW)
    assert console.file.getvalue().startswith("x unknown")  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [80, 120])
def test_the_list_has_one_line_for_a_run_and_no_wider(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(listing([run(), run()], NOW))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 3 and all(len(line) <= width for line in lines)
    assert all("failed" in line and "training-1d11" in line for line in lines[1:])


def test_the_list_tells_the_year_of_runs_of_another_one() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(listing([run()], NOW.replace(year=2027)))
    assert "Nov 20 2026 " in console.file.getvalue()  # type: ignore[attr-defined]
