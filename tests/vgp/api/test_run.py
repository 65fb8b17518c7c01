"""A run as a value, and as a notebook shows it."""

import json
from pathlib import Path
from typing import Any

import pytest

from vgp.api import load
from vgp.api.run import Run
from vgp.api.run_progress import Notebook
from vgp.workflow.local.process import Event


@pytest.fixture
def ended(tmp_path: Path) -> Run:
    """A run with a model and figures, written as kfp.local and the tool write it, in a folder that was moved."""
    folder = tmp_path / "<moved>"
    for step in ("train", "evaluate"):
        (folder / step).mkdir(parents=True)
    (folder / "steps/train/model").mkdir(parents=True)
    artifacts = {
        "train": {"model": "system.Model"},
        "evaluate": {"metrics": "system.Metrics", "raw": "system.Artifact"},
        "register": {"version": "system.Model"},
    }
    spec = {
        "root": {"dag": {"tasks": {"outer": {"componentRef": {"name": "comp-outer"}}}}},
        "components": {
            "comp-outer": {"dag": {"tasks": {step: {"componentRef": {"name": f"comp-{step}"}} for step in artifacts}}},
            **{
                f"comp-{step}": {"outputDefinitions": {"artifacts": {
                    name: {"artifactType": {"schemaTitle": schema}} for name, schema in names.items()}}}
                for step, names in artifacts.items()
            },
        },
    }  # fmt: skip
    metadata = {"auc": 0.75, "note": "text", "flag": True}
    written = {"artifacts": {name: {"artifacts": [{"name": "7", "uri": "/before", "metadata": metadata}]}
                             for name in ("metrics", "raw")}}  # fmt: skip
    (folder / "evaluate" / "executor_output.json").write_text(json.dumps(written))
    (folder / "pipeline.json").write_text(json.dumps(spec))
    steps = [
        {"step": step, "state": "succeeded", "seconds": 1.0, "parameters": {},
         "artifacts": {name: f"steps/{step}/{name}" for name in names}}
        for step, names in artifacts.items()
    ]  # fmt: skip
    document = {"pipeline": "p", "state": "succeeded", "folder": "/before", "arguments": {}, "steps": steps}
    (folder / "run.json").write_text(json.dumps(document))
    return load(folder)


def test_figures_and_model_are_found_by_what_they_are(ended: Run) -> None:
    assert ended.metrics == {"auc": 0.75}
    assert ended.model == ended.folder / "steps/train/model", "nothing was registered: the other folder is not there"
    assert ended.artifacts["evaluate/raw"] == ended.folder / "steps/evaluate/raw"
    assert (ended.report, ended.decision) == (None, "")


def test_the_model_is_the_registered_one_where_there_is_one_and_none_where_there_is_none(ended: Run) -> None:
    (ended.folder / "steps/register/version").mkdir(parents=True)
    assert ended.model == ended.folder / "steps/register/version"
    (ended.folder / "steps").rename(ended.folder / "gone")
    assert ended.model is None


def test_the_decision_is_what_the_step_decide_gave() -> None:
    step = {"step": "decide", "state": "succeeded", "seconds": 1.0, "parameters": {"Output": "keep"}, "artifacts": {}}
    document = {"pipeline": "p", "state": "succeeded", "folder": "/f", "arguments": {}, "steps": [step]}
    assert Run.of(document).decision == "keep"


def test_a_notebook_shows_figures_and_the_report_in_a_frame_where_nothing_runs(ended: Run) -> None:
    (ended.folder / "report.html").write_text('<!doctype html><p class="a">"quoted" & <b>bold</b></p>')
    html = ended._repr_html_()
    assert "0.75" in html and "&lt;moved&gt;" in html and "<moved>" not in html
    assert "<iframe sandbox srcdoc=" in html
    assert "&lt;p class=&quot;a&quot;&gt;&quot;quoted&quot; &amp; &lt;b&gt;" in html


def test_progress_in_a_notebook_is_one_table_that_replaces_itself() -> None:
    drawn: list[str] = []

    class Handle:
        def update(self, page: Any) -> None:
            drawn.append(page._repr_html_())

    def display(page: Any, display_id: bool) -> Handle:
        drawn.append(page._repr_html_())
        return Handle()

    table = Notebook(["prepare", "train"], display)
    for event in (Event("started", "prepare"), Event("line", "prepare", "<step 1>"), Event("succeeded", "prepare")):
        table(event)
    table.draw()
    assert len(drawn) == 4, "a line that comes at once after a drawing waits for the next"
    assert "✓" in drawn[-1] and "·" in drawn[-1] and "<step 1>" not in "".join(drawn)
