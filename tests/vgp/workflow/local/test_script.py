"""A command of the user's own in a local run: stopped, resumed, taken up; and slips, before anything starts."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from vgp.base.errors import RequestError
from vgp.settings import load
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.compile_target import Local
from vgp.workflow.local import local_run, portable

WORKFLOW = """
from components import step
from kfp import dsl
from kfp.dsl import Artifact, Input, Model, Output


@step
def train(model: Output[Model], checkpoints: Output[Artifact], epochs: float) -> None:
    raise SystemExit("the step's own Python")


@step
def collect(left_model: Input[Model], left_checkpoints: Input[Artifact], model: Output[Model]) -> str:
    import os

    model.uri = left_model.uri
    return ",".join(sorted(os.listdir(left_model.path)))


def build(target):
    ready = target.job(train, pinned=True, collect=collect)

    @dsl.pipeline(name="own")
    def own(epochs: float = 3.0) -> None:
        ready(epochs=epochs)

    return own
"""
#: Waits to be stopped when it is started for the first time, and leaves its folder in peace from then on.
SCRIPT = """
import json, os, pathlib, sys, time
import beside
kept = pathlib.Path(os.environ["AIP_CHECKPOINT_DIR"], os.environ["RANK"])
if not kept.exists():
    kept.write_text(str(os.getpid()))
    time.sleep(600)
report = {"words": sys.argv[1:], "world": os.environ["WORLD_SIZE"], "here": os.getcwd(), "python": sys.executable}
pathlib.Path(os.environ["AIP_MODEL_DIR"], os.environ["RANK"]).write_text(json.dumps(report))
print("rank", os.environ["RANK"], "of", beside.NAME)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a workflow, whose training step is a script with a module beside it."""
    for name, text in {
        "pipelines/own.py": WORKFLOW,
        "work/train.py": SCRIPT,
        "work/beside.py": "NAME = 'work'",
        "queue.py": "raise SystemExit('not the one of the standard library')",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    asked(tmp_path, ["python", "work/train.py", "--epochs={epochs}"], launch="torchrun")
    return tmp_path


def asked(repository: Path, command: list[str], **fields: Any) -> None:
    lines = [f"{name} = {json.dumps(value)}" for name, value in {"command": command, **fields}.items()]
    (repository / "pipelines.toml").write_text("\n".join(["[steps.train]", *lines, ""]))


def started(repository: Path, *words: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-P", "-W", "ignore", "-m", "vgp", "run", "own", "--json", *words]
    return subprocess.Popen(line, cwd=repository, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_stopped_command_leaves_no_process_and_finds_its_checkpoints_when_it_is_resumed(repository: Path) -> None:
    first = started(repository, "--nproc", "1", "--nodes", "2", "--set", "epochs=5")
    wait_for = time.monotonic() + 120
    while len(kept := list(repository.glob("runs/*/checkpoints/train-*/[01]"))) < 2 and time.monotonic() < wait_for:
        time.sleep(0.05)
    assert len(kept) == 2, first.communicate(timeout=300)
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=300)
    assert first.returncode == 128 + signal.SIGINT and "vgp run own --resume" in err
    for path in kept:
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.read_text()), 0)

    (folder,) = (repository / "runs").iterdir()
    second = started(repository, "--resume", str(folder))
    out, err = second.communicate(timeout=300)
    assert second.returncode == 0, err
    result = {step["step"]: step for step in json.loads(out)["steps"]}
    assert {name: step["state"] for name, step in result.items()} == {"train": "succeeded", "collect": "succeeded"}
    assert result["collect"]["parameters"] == {"Output": "0,1"}
    for rank in "01":
        left = json.loads((folder / "train" / "model" / rank).read_text())
        assert left["words"] == ["--epochs=5"] and left["world"] == "2"
        assert left["here"] == str(repository) and Path(left["python"]).samefile(sys.executable)
    log = (folder / "log.txt").read_text()
    assert "rank 0 of work" in log and "[rank 1] rank 1 of work" in log
    assert "train: succeeded" in err and "train | rank 0 of work" in err


@pytest.mark.parametrize(
    ("command", "fields", "message"),
    [
        (["no-such-program"], {}, "no program 'no-such-program'"),
        (["./train"], {}, "no program './train'"),
        (["python", "-u", "work/trian.py", "x"], {}, "no file 'work/trian.py' in .*, where commands run"),
        (["bash", "work/train.sh"], {"image": "a/b:1"}, "On this machine it runs in this environment, not in a/b:1"),
    ],
)  # fmt: skip
def test_a_command_that_is_not_there_is_refused_before_anything_starts(
    repository: Path, command: list[str], fields: dict[str, Any], message: str
) -> None:
    asked(repository, command, **fields)
    with pytest.raises(RequestError, match=message):
        local_run.create_run("own", (), load(repository / "pipelines.toml"), repository / "runs")
    assert not (repository / "runs").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["python", "work/{epochs}.py"],
        ["python3", "-m", "work.train"],
        ["sh", "-c", "python work/other.py"],
        ["torchrun"],
    ],
)
def test_what_can_be_started_is_not_refused(repository: Path, command: list[str]) -> None:
    asked(repository, command)
    settings = load(repository / "pipelines.toml")
    spec = workflow_files.compile_workflow("own", Local(settings), settings.repository)
    portable.refuse_unsupported(spec, repository, repository)
    assert portable.list_notes(spec) == []


def test_only_commands_run_on_several_nodes_here(repository: Path) -> None:
    (repository / "pipelines.toml").write_text("")
    settings = load(repository / "pipelines.toml")
    with pytest.raises(RequestError, match="--nodes 2: on this machine, only a step with a command"):
        local_run.create_run("own", (), settings, repository / "runs", nodes=2)
    with pytest.raises(RequestError, match="--nodes 0: at least 1 node"):
        local_run.create_run("own", (), settings, repository / "runs", nodes=0)


def test_a_parameter_that_the_command_does_not_take_is_refused(repository: Path) -> None:
    asked(repository, ["python", "work/train.py"])
    with pytest.raises(RequestError, match=r"\[steps.train\] does not use epochs. Write {epochs} into the command"):
        local_run.create_run("own", ["epochs=4"], load(repository / "pipelines.toml"), repository / "runs")
