"""The GPU hour, small, on a CPU: every part runs, every bound holds, and a transcript of it is refused.

Slices 1 and 2 run always. TRAINING_TEST_GPU_HOUR=1 runs all five, as CI does for each commit on main: slices 3 to 5
start seven more processes that import PyTorch.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.gpu_hour.machine import Refused
from tools.gpu_hour.parts import SLICES
from tools.gpu_hour.transcript import redact, write_transcript

SCRIPT = Path(__file__).parents[3] / "scripts/gpu_hour.sh"
ALL = bool(os.environ.get("TRAINING_TEST_GPU_HOUR"))
NUMBERS = list(SLICES) if ALL else [1, 2]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu hour") / "out"
    ended = subprocess.run(
        [SCRIPT, "--on-cpu", "--out", folder, *(f"--slice={number}" for number in NUMBERS)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


def rows(results: Path, number: int) -> dict[str, dict]:
    return {row["row"]: row for row in json.loads((results / f"slice-{number}.json").read_text())["rows"]}


@pytest.mark.parametrize("number", NUMBERS)
def test_every_part_of_a_slice_runs_or_names_why_not(results: Path, number: int) -> None:
    name, its_parts = SLICES[number]
    found = rows(results, number)
    for part in its_parts:
        if part.not_on_cpu:
            assert found[f"{name}/{part.name}"] == {
                "row": f"{name}/{part.name}", "verdict": "skipped", "reason": part.not_on_cpu
            }  # fmt: skip
        else:
            assert found[f"{name}/{part.name}/time"]["figures"]["seconds"] > 0


def test_trainings_agree_with_the_plain_loop_and_resume_with_the_same_bits(results: Path) -> None:
    found = rows(results, 1)
    bounds = [row for row in found.values() if row["verdict"] == "holds"]
    assert len(bounds) == 7 and not any(row["verdict"] == "fails" for row in found.values())
    assert found["correct/resume/ddp fp32"]["figures"]["resumed_from"] > 0
    assert found["correct/matrix/GradScaler"]["figures"]["skipped_steps"] > 0


def test_speeds_and_their_parts_are_measured_for_both_loops(results: Path) -> None:
    found = rows(results, 2)
    for part in ("language model, 124 M", "table", "images"):
        ours, plain = (found[f"fast/{part}/{loop}"]["figures"] for loop in ("ours", "plain eager"))
        assert ours["steps_per_s"] > 0 and plain["steps_per_s"] > 0
        assert 0 < ours["busy_share"] <= 1 and ours["step_ms"] > ours["busy_ms"] > 0


@pytest.mark.skipif(not ALL, reason="TRAINING_TEST_GPU_HOUR is not set")
def test_saves_predictions_and_requests_are_measured(results: Path) -> None:
    saving, serving, facts = (rows(results, number) for number in (3, 4, 5))
    assert saving["saving/checkpoint/checkpoint"]["figures"]["durable_s"] > 0
    assert saving["saving/checkpoint/resume"]["figures"]["resume_start_s"] > 0
    assert serving["serving/predict/rows"]["figures"]["rows"] == 2000
    latencies = serving["serving/serve/32 rows"]["figures"]
    assert 0 < latencies["p50_ms"] <= latencies["p99_ms"]
    assert facts["facts/start/cold"]["figures"]["first_step_s"] > 0


def collect_slices(results: Path, folder: Path, *, on_cpu: bool) -> Path:
    """Writes a file for each slice, with the rows of those that ran here."""
    for number in SLICES:
        document = json.loads((results / f"slice-{number if number in NUMBERS else 1}.json").read_text())
        (folder / f"slice-{number}.json").write_text(json.dumps({**document, "slice": number, "on_cpu": on_cpu}))
    return folder


def test_a_transcript_of_a_cpu_or_of_some_slices_is_refused(results: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="lacks slice 1, 2, 3, 4, 5"):
        write_transcript(tmp_path, tmp_path / "facts.json")
    with pytest.raises(Refused, match="ran on a CPU"):
        write_transcript(collect_slices(results, tmp_path, on_cpu=True), tmp_path / "facts.json")
    assert not (tmp_path / "facts.json").exists()


def test_a_transcript_has_all_rows_without_paths_and_names(results: Path, tmp_path: Path) -> None:
    slices = collect_slices(results, tmp_path, on_cpu=False)
    count = write_transcript(slices, tmp_path / "facts" / "gpu.json")
    written = (tmp_path / "facts" / "gpu.json").read_text()
    assert count == sum(len(rows(slices, number)) for number in SLICES) == written.count('"row": ')
    assert str(Path.home()) not in written and "/tmp" not in written


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("error in /home/ada/data.csv: bad", "error in PATH: bad"),
        ("ada@box-7 at 10.0.0.12", "NAME@NAME at ADDRESS"),
        ("GPU-1f0c2d3e-0000-11aa-22bb-333344445555 is busy", "ID is busy"),
        ("200 tokens/s on sm_90a, a fast/slow ratio", "200 tokens/s on sm_90a, a fast/slow ratio"),
        ("adamw and box-70 stay", "adamw and box-70 stay"),
    ],
)
def test_paths_addresses_ids_and_names_are_redacted(text: str, redacted: str) -> None:
    assert redact({"a": [text]}, ["box-7", "ada"]) == {"a": [redacted]}
