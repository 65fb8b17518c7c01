"""The table of a run fits its lines, keeps what matters, and prints hostile names as they are."""

import io
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import hypothesis
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from vgp.check.check_finding import StepRow
from vgp.settings import Settings
from vgp.vertex.runs import run_view
from vgp.vertex.runs.remote_run import Run, Step

BEGIN = datetime(2026, 11, 20, tzinfo=UTC)
ROWS = {"a": (StepRow("a", "a3-ultragpu-8g", "NVIDIA_H200_141GB", 8, 16, "SPOT", 50.0),), "b": ()}
states = st.sampled_from(["waiting", "pending", "running", "succeeded", "cached", "failed", "not triggered"])


def drawn(table: Any, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def run(steps: list[Step], **more: Any) -> Run:
    return SimpleNamespace(id="training-1", steps=tuple(steps), state="failed", error="", **more,
                           list_failed_steps=lambda: [step for step in steps if step.state == "failed"])  # type: ignore[return-value]  # fmt: skip


def test_the_headline_names_what_its_sums_leave_out() -> None:
    priced = StepRow("a", "m", None, 0, 1, "STANDARD", 3.0, "us-central1", 7200.0)
    unknown = StepRow("b", "a4x-highgpu-4g", "NVIDIA_GB200", 4, 1, "STANDARD", None, "us-central1", 7200.0)
    steps = [Step(name, "running", name, name, BEGIN) for name in "ab"]
    several = run(steps, seconds=lambda now: 3600.0, over=False)
    now = BEGIN + timedelta(hours=1)
    text = run_view.render_headline(several, {"a": (priced,), "b": (unknown,)}, now).plain
    assert "at least $3.00 (no price: b) so far, can cost at least $6.00 (no price: b)" in text
    text = run_view.render_headline(several, {"a": (priced,), "b": (priced,)}, now).plain
    assert ", $6.00 so far, at most $12.00" in text


def test_where_there_is_room_nothing_is_cut() -> None:
    step = Step("for-loop-1/train[11]", "running", "for-loop-1/train", "a", BEGIN)
    lines = drawn(run_view.render_steps(run([step]), ROWS, BEGIN + timedelta(hours=2), width=200), 200)
    assert lines[1].split() == [
        "●", "for-loop-1/train[11]", "running", "2h", "00m", "16", "x", "a3-ultragpu-8g", "(8", "H200-141GB)", "spot",
        "$1,600.00",
    ]  # fmt: skip


def test_a_step_is_at_its_second_try_when_vertex_ai_has_started_it_twice() -> None:
    """Not when it has started jobs of its own, as Google's launcher does, and that of a ladder again and again."""
    for tries, words in ((1, "running"), (2, "running, try 2")):
        step = Step("train", "running", "train", "a", BEGIN, jobs=("1", "2", "3"), tries=tries)
        lines = drawn(run_view.render_steps(run([step]), ROWS, BEGIN + timedelta(hours=2), width=200), 200)
        assert lines[1].split("  ")[2].strip() == words


def test_where_it_is_narrow_a_name_keeps_its_end_and_the_cost_stays() -> None:
    step = Step("exit-handler-1/condition-branches-2/condition-3/for-loop-1/train[11]", "running", "x", "a", BEGIN)
    lines = drawn(run_view.render_steps(run([step]), ROWS, BEGIN + timedelta(hours=2), width=80), 80)
    assert len(lines) == 2 and all(len(line) <= 80 for line in lines)
    assert "/train[11]  running  2h 00m  16 x a3-ultra" in lines[1] and lines[1].endswith("…  $1,600.00")
    assert "…" in lines[1][:5]


@hypothesis.example([("0" * 60, "running"), ("0", "not triggered")], 40, 3)
@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=60), states), min_size=1, max_size=9),
    st.integers(40, 200),
    st.integers(3, 6),
)
def test_lines_are_never_wider_or_more_than_there_is_room(listed: list[tuple[str, str]], width: int, room: int) -> None:
    steps = [Step(name, state, "x", "a", BEGIN) for name, state in listed]
    table = run_view.render_steps(run(steps), ROWS, BEGIN + timedelta(hours=2), width=width, max_lines=room)
    console = Console(file=io.StringIO(), width=width)
    lines = console.render_lines(table, pad=False)
    assert all(sum(piece.cell_length for piece in line) <= width for line in lines)
    assert len(lines) <= 1 + room


def test_a_full_screen_keeps_what_failed_and_what_runs() -> None:
    steps = [Step(f"done-{number}", "succeeded", "b", "b") for number in range(50)]
    steps += [Step("broken", "failed", "b", "b"), Step("busy", "running", "b", "b"), Step("next", "waiting", "b", "b")]
    lines = drawn(run_view.render_steps(run(steps), ROWS, BEGIN, width=80, max_lines=5), 80)
    assert any("broken" in line for line in lines) and any("busy" in line for line in lines)
    assert lines[-1] == "and 48 succeeded, 1 waiting"


def test_names_and_errors_of_others_are_shown_and_not_obeyed() -> None:
    step = Step("[red]x\x1b[2J\n", "failed", "b", "b", BEGIN, error="[link=evil]\x1b]8;;http://e\x07click\r\nnext")
    shown = "\n".join(drawn(run_view.render_steps(run([step]), ROWS, BEGIN, width=80), 80))
    assert "[red]x\\x1b[2J" in shown and "\x1b" not in shown
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    whole: Any = run([step], created=BEGIN)
    run_view.write(console, run_view.render_failures(whole, Settings(project="my-project"), {}))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert (
        "[link=evil]\\x1b]8;;http://e\\x07click\n  next" in printed and "\x1b]" not in printed and "\x07" not in printed
    )


def test_a_long_error_and_many_failures_are_cut() -> None:
    steps = [Step(f"s{number}", "failed", "b", "b", error="line\n" * 100) for number in range(9)]
    console = Console(file=io.StringIO(), width=80)
    run_view.write(console, run_view.render_failures(run(steps, created=BEGIN), Settings(project="my-project"), {}))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert printed.count("… 80 more lines") == 5 and "and 4 more failed steps" in printed


def test_a_step_without_capacity_is_shown_with_the_catalogs_alternatives() -> None:
    error = "Resources are insufficient in region: us-central1. Please try a different region or accelerator."
    row = StepRow("train", "g2-standard-24", "NVIDIA_L4", 2, 1, "STANDARD", 2.3, "us-central1")
    step = Step("train", "failed", "train", "train", BEGIN, error=error)
    console = Console(file=io.StringIO(), width=200)
    run_view.write(
        console, run_view.render_failures(run([step], created=BEGIN), Settings(project="my-project"), {"train": (row,)})
    )
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert (
        "g2-standard-24 elsewhere: " in printed and "Other GPUs in us-central1: " in printed and "flex_start" in printed
    )
