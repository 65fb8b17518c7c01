"""A part in a process of its own: what it records, and how it ends when it crashes or takes too long."""

import os
import signal
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.gpu_hour import parts
from tools.gpu_hour.parts import SLICES, Part, Place


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Place], None], budget_s: float = 60
) -> list[dict]:
    """Runs a part that calls `act`; returns its rows."""
    module = types.ModuleType("tools.gpu_hour.given")
    module.act = act
    monkeypatch.setitem(sys.modules, module.__name__, module)
    place = Place(tmp_path / "work", "slice/part", True, 0, 0, 12)
    return parts.run_part(Part("part", "given:act", budget_s), place, budget_s, tmp_path / "log")


def test_rows_have_a_verdict_figures_and_the_time_of_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(place: Place) -> None:
        place.record("speed", steps_per_s=2.5)
        place.record("bound", True, error=0.1)
        place.attempt("refusal", lambda: [][1])

    rows = run(tmp_path, monkeypatch, act)
    assert [(row["row"], row["verdict"]) for row in rows] == [
        ("slice/part/speed", "measured"), ("slice/part/bound", "holds"), ("slice/part/refusal", "fails"),
        ("slice/part/time", "measured"),
    ]  # fmt: skip
    assert rows[0]["figures"] == {"steps_per_s": 2.5} and "IndexError" in rows[2]["reason"]


def test_a_part_over_its_budget_is_stopped_with_its_children_and_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(place: Place) -> None:
        child = os.fork()
        if child:
            place.record("child", pid=child)
        time.sleep(600)

    rows = run(tmp_path, monkeypatch, act, budget_s=4)
    assert [row["verdict"] for row in rows] == ["measured", "skipped"] and "4 s, its budget" in rows[1]["reason"]
    deadline = time.monotonic() + 30
    while is_running(rows[0]["figures"]["pid"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("act", "reason"), [
    (lambda place: os.kill(os.getpid(), signal.SIGKILL), "ended by signal 9"),
    (lambda place: sys.exit(3), "exit code 3"),
    (lambda place: [][1], "IndexError"),
])  # fmt: skip
def test_a_part_that_crashes_is_a_row_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Place], None], reason: str
) -> None:
    failures = [row for row in run(tmp_path, monkeypatch, act) if row["verdict"] == "fails"]
    assert len(failures) == 1 and reason in failures[0]["reason"]


def test_missing_packages_are_named_with_the_commands_that_carry_them() -> None:
    commands = parts.explain_install(["pydantic", "google-crc32c"])
    assert commands.count("pydantic google-crc32c") == 2 and "--no-index" in commands


def test_a_part_is_left_out_by_its_missing_packages_its_gpus_and_on_a_cpu() -> None:
    part = Part("part", "given:act", 1, ("json", "no_such_package"), gpus=2)
    assert parts.find_obstacle(part, on_cpu=False, gpus=1) == "missing packages: no_such_package"
    part = Part("part", "given:act", 1, (), gpus=2, not_on_cpu="it is large")
    assert parts.find_obstacle(part, on_cpu=False, gpus=1) == "it needs 2 GPUs"
    assert parts.find_obstacle(part, on_cpu=False, gpus=2) == ""
    assert parts.find_obstacle(part, on_cpu=True, gpus=0) == "it is large"


def test_the_parts_of_a_slice_fit_its_eight_minutes() -> None:
    for _name, its_parts in SLICES.values():
        assert sum(part.budget_s for part in its_parts if part.gpus < 2) <= parts.SLICE_S
