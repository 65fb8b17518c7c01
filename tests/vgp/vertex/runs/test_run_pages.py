"""The page of a run and the list of runs: readable at 80 columns, and harmless whatever the names are. Runs side by
side: what differs is found and marked, and nothing else."""

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import PipelineJob
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from tools.emulator.cloud import Cloud
from vgp.base.errors import RequestError
from vgp.settings import Settings
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.run_cost import list_machines
from vgp.vertex.runs.run_pages import Row, _digest, print_page, render_comparison
from vgp.vertex.runs.run_pages import comparison_rows as rows
from vgp.vertex.runs.run_view import render_list

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
    print_page(console, Settings(project="my-project"), run(), list_machines(run()), NOW)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())  # type: ignore[attr-defined]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f]", shown)
    for part in ("parameters", "outputs", "artifacts", "failed: "):
        assert part in shown
    assert shown.count("[red]x\\x1b[2J") >= 10


def test_a_page_is_complete_where_google_reports_little() -> None:
    bare = read(PipelineJob(name="projects/1/locations/us-central1/pipelineJobs/x"))
    console = Console(file=io.StringIO(), width=80)
    print_page(console, Settings(project="my-project"), bare, list_machines(bare), NOW)
    assert console.file.getvalue().startswith("x unknown")  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [80, 120])
def test_the_list_has_one_line_for_a_run_and_no_wider(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(render_list([run(), run()], NOW))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 3 and all(len(line) <= width for line in lines)
    assert all("failed" in line and "training-1d11" in line for line in lines[1:])


def test_the_list_shows_the_year_of_runs_of_another_year() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(render_list([run()], NOW.replace(year=2027)))
    assert "Nov 20 2026 " in console.file.getvalue()  # type: ignore[attr-defined]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
)


@pytest.fixture
def two(cloud: Cloud, start: Callable[..., str], look: Callable) -> list[Any]:
    cloud.script("evaluate", metrics={"auc": 0.7}, outputs={"Output": "same"})
    cloud.script("train", seconds=600)
    first = start(values={"epochs": 2.0}, id="first")
    cloud.clock.advance(7200)
    cloud.script("train", seconds=1200)
    second = start(values={"epochs": 4.0, "data": "[red]x\x1b[2J"}, id="second")
    cloud.clock.advance(7200)
    return [look(first), look(second)]


def shown(drawn: Any, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(drawn)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_what_differs_between_two_runs(cloud: Cloud, two: list[Any]) -> None:
    found = rows(two, cloud.clock.now())
    differing = {(row.section, row.name): row.values for row in found if row.differs}
    assert differing[("parameters", "epochs")] == (2, 4)
    assert differing[("parameters", "data")] == ("", "[red]x\x1b[2J")
    assert {name for section, name in differing if section == "run"} == {"seconds", "usd"}
    assert [row for row in found if row.name == "template"][0].values[0] == _digest(two[0].spec.content)
    assert len(found) > len(differing)


def test_the_table_shows_what_differs_and_counts_the_rest(cloud: Cloud, two: list[Any]) -> None:
    found = rows(two, cloud.clock.now())
    text = shown(render_comparison(two, found, all_rows=False))
    assert "\x1b" not in text and "[red]x\\x1b[2J" in text
    assert "seed" not in text and f"{sum(not row.differs for row in found)} rows are equal; to show them: --all" in text
    days = next(row.values for row in found if row.name == "price_dates")
    assert days[0] and all(day in text for day in (days[0][0], "prices of"))
    whole = shown(render_comparison(two, found, all_rows=True))
    assert "seed" in whole and "=" in whole and "rows are equal" not in whole


def test_runs_of_different_pipelines_have_gaps(cloud: Cloud, two: list[Any], start: Callable, look: Callable) -> None:
    from google.cloud.aiplatform_v1.types import PipelineJob

    from vgp.vertex.runs.remote_run import read

    other = read(
        PipelineJob(
            name="projects/1/locations/us-central1/pipelineJobs/o", runtime_config={"parameter_values": {"x": 1}}
        )
    )
    found = {(row.section, row.name): row for row in rows([two[0], other], cloud.clock.now())}
    assert found[("parameters", "x")].values == (None, 1) and found[("parameters", "epochs")].values == (2, None)
    assert found[("run", "template")].differs
    assert "–" in shown(render_comparison([two[0], other], list(found.values()), all_rows=False))


@pytest.mark.parametrize("ids", [[0], [0, 0]])
def test_two_different_runs_are_needed(cloud: Cloud, two: list[Any], ids: list[int]) -> None:
    with pytest.raises(RequestError, match="two or more different runs"):
        rows([two[number] for number in ids], cloud.clock.now())


@example([1, 1.0])
@example([1, True])
@example([None, "null"])
@given(st.lists(json_values, min_size=2, max_size=4))
def test_a_row_differs_exactly_where_its_values_do(values: list[Any]) -> None:
    row = Row("parameters", "x", tuple(values))
    text = shown(render_comparison([_named(number) for number in range(len(values))], [row], all_rows=True), 200)
    assert row.differs == any(not _same(value, values[0]) for value in values)
    assert ("≠" in text) == row.differs


def _named(number: int) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(id=f"run-{number}")


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are, 1 and true are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    return bool(left == right)
