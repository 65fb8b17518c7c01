"""The command line as a user meets it: in a process of its own where that is the point."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vgp.__main__ import main

REPOSITORY = Path(__file__).parents[2]
HEAVY = ("kfp", "torch", "google.api_core", "google.auth", "pydantic", "numpy", "pyarrow")


def pipelines(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "vgp", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A repository with our workflows, as a folder of its own."""
    for name in ("pipelines", "components", "training", "pipelines.toml"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    return tmp_path


def test_help_teaches_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from vgp.__main__ import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert not end.code\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "vgp run training" in done.stdout
    assert "HEAVY []" in done.stdout


def test_the_version_is_printed() -> None:
    assert pipelines("--version").stdout.startswith("vgp 0.")


def test_the_list_names_every_parameter_with_its_type() -> None:
    rows = {row["name"]: row for row in json.loads(pipelines("list", "--json").stdout)}
    assert set(rows) == {"training", "batch_prediction"}
    assert all(parameter["description"] for row in rows.values() for parameter in row["parameters"])
    row = rows["training"]
    parameters = {parameter["name"]: parameter for parameter in row["parameters"]}
    assert parameters["task_options"]["type"] == "STRUCT"
    assert parameters["seed"]["default"] == 0


def test_the_list_is_one_screen_and_that_of_a_pipeline_has_its_parameters() -> None:
    screen, training = pipelines("list").stdout, pipelines("list", "training").stdout
    assert len(screen.splitlines()) == 4 and "batch_prediction" in screen and "epochs" not in screen
    assert "epochs" in training and "batch_prediction" not in training


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "trainning"], "Did you mean training?"),
        (["run", "training", "--set", "epoch=3"], "Did you mean epochs?"),
        (["run", "training", "--epochs", "3"], "--set epochs=3"),
        (["run", "training", "--learning-rate=1e-3", "--nproc", "2"], "--set learning_rate=1e-3"),
        (["submit", "training", "--epochs", "--wait"], "--set epochs=VALUE"),
        (["run", "training", "--nporc", "2"], "Did you mean --nproc?"),
        (["list", "trainning"], "Did you mean training?"),
        (["run", "training", "--set", "epochs=many"], "epochs takes a number"),
        (["run", "training", "--nproc", "0"], "at least 1 process"),
        (["run", "training", "--set", 'task_options={"train": "1-13"}'], "13"),
        (["run", "training", "--set", 'task_options={"train": "1-7", "test": 7}'], "overlap"),
        (["run", "training", "--set", "task=language_model", "--set", 'task_options={"train": "1-7"}'], "no option"),
        (["run", "training", "--set", "task=flihts"], "flights"),
        (["run", "training", "--set", "task=vgp.data.task:Nothing"], "has no class Nothing"),
        (["run", "training", "--set", "task=vgp.data.task:Task"], "lacks "),
        (["run", "training", "--set", "global_batch_size=0"], "global_batch_size"),
        (["run", "training", "--set", "precision=fp8"], "fp32"),
        (["run", "training", "--set", "confidence=95"], "between 0.5 and 1"),
        (["run", "training", "--set", "champion=/nowhere"], "no model.json"),
        (["run", "training", "--out", "/proc/nowhere"], "cannot be written"),
        (["run", "training", "--resume", "/nowhere"], "not the folder of a run"),
        (["compile", "other"], "no pipeline 'other'"),
        (["compile", "--settings", "none.toml"], "No such file"),
        (["compile", "--out", "/proc/nowhere"], "cannot be written"),
    ],
)
def test_a_wrong_request_is_one_message_and_exit_code_2(
    arguments: list[str],
    message: str,
    ours: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = set(ours.iterdir())
    monkeypatch.chdir(ours)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr().err
    assert ended.value.code == 2, printed
    assert message in printed
    assert printed.startswith("error: ")
    assert "Traceback" not in printed
    assert set(ours.iterdir()) == before, "nothing is left behind"


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = pipelines("run", "trainning", "--debug", cwd=tmp_path)
    assert "Traceback" in done.stderr


def test_no_control_character_of_a_request_reaches_the_terminal(ours: Path) -> None:
    done = pipelines("run", "training", "--set", "epochs=\x1b]0;title\x07\u202e", cwd=ours)
    assert done.stderr.startswith("error: --set epochs=\\x1b]0;title\\x07\\u202e: epochs takes a number")


def test_an_argument_that_is_no_text_is_refused(ours: Path) -> None:
    done = pipelines("run", "training", "--set", os.fsdecode(b"data=\xff"), cwd=ours)
    assert done.returncode == 2
    assert "is not valid UTF-8" in done.stderr


def test_usage_errors_are_exit_code_2() -> None:
    assert pipelines("run").returncode == 2
    assert pipelines("--no-such-option").returncode == 2
    assert pipelines("no-such-verb").returncode == 2
