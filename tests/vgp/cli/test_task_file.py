"""`--set task=FILE.toml` in run, submit and schedules, and `new table`: as people call them."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tools.emulator.cloud import Cloud
from vgp.__main__ import main
from vgp.base.text.printable import summarise_texts
from vgp.check.spec.pipeline_spec import PipelineSpec, with_defaults
from vgp.settings import find_repository, load
from vgp.vertex.schedules import declared_schedule
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.compile_target import Local

ROOT = Path(__file__).parents[3]
TOML = 'target = "y"\nclasses = ["0", "1"]\n[columns]\ny = "category"\nx = "float"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, elsewhere than the repository."""
    (tmp_path / "a.toml").write_text(TOML)
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i * i % 97},{i % 2}\n" for i in range(60)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--settings", str(ROOT / "pipelines.toml")])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_the_request_that_is_submitted_holds_the_text_and_no_path(
    cloud: Cloud, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "submit",
        "training",
        "--dry-run",
        "--json",
        "--set",
        f"task={folder}/a.toml",
        "--set",
        "data=gs://b/x.csv",
    )
    code, out, err = call(capsys, *words, "--set", "task_options.hidden=[8]")
    assert code == 0, err
    values = json.loads(out)["job"]["runtimeConfig"]["parameterValues"]
    assert values["task"] == "table" and values["task_options"] == {"hidden": [8], "declaration": TOML}
    assert str(folder) not in out and "a.toml" not in json.dumps(values)
    first = json.loads(out)["id"]
    (folder / "a.toml").write_text(TOML + "#")
    assert json.loads(call(capsys, *words)[1])["id"] != first


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("task=b.toml",), "task = b.toml: no such file"),
        (("task=a.toml",), "the task table has no default data"),
        (("task=a.toml", "data=nowhere.csv"), "nowhere.csv matches no file"),
        (("data=nowhere.csv",), "nowhere.csv matches no file"),
        (("task=a.toml", "data=a.csv", "task_options.hiden=[8]"), "has no option 'hiden'. Did you mean hidden?"),
    ],
)
def test_what_cannot_be_is_refused_before_a_run_has_a_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], message: str
) -> None:
    code, _, err = call(capsys, "run", "training", "--out", "runs", *(f"--set={text}" for text in given))
    assert code == 2 and message in err and not (folder / "runs").exists()


def test_data_that_is_not_in_the_bucket_is_refused_when_it_is_submitted(
    cloud: Cloud, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, "submit", "training", "--set", "data=gs://test-bucket/nowhere.csv")
    assert code == 2 and "data = gs://test-bucket/nowhere.csv" in err and not cloud.jobs


def test_a_schedule_reads_the_file_beside_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINES_BUCKET", "gs://test-bucket")
    monkeypatch.setenv("PIPELINES_PROJECT", "test-project")
    settings = (ROOT / "pipelines.toml").read_text() + (
        '\n[schedules.tables]\npipeline = "training"\ncron = "0 3 * * *"\n'
        'parameters = {task = "a.toml", data = "gs://b/x.csv"}\n'
    )
    (tmp_path / "pipelines.toml").write_text(settings)
    for name in ("pipelines", "components", "training"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "a.toml").write_text(TOML)
    message: Any = declared_schedule.read_declarations(load(tmp_path / "pipelines.toml"), ["tables"])[0].message
    values = message.create_pipeline_job_request.pipeline_job.runtime_config.parameter_values
    assert values["task"] == "table" and dict(values["task_options"]) == {"declaration": TOML}


def test_a_default_that_is_a_file_is_compiled_as_its_text(folder: Path) -> None:
    repository = find_repository(ROOT / "pipelines.toml")
    spec = workflow_files.compile_workflow("training", Local(), repository)
    spec.content["root"]["inputDefinitions"]["parameters"]["task"]["defaultValue"] = "a.toml"
    fresh = PipelineSpec(spec.content)
    made = with_defaults(fresh, lambda values: workflow_files.expand_arguments("training", values, repository, folder))
    assert (made.defaults["task"], made.defaults["task_options"]) == ("table", {"declaration": TOML})
    assert fresh.defaults["task"] == "a.toml" and with_defaults(fresh, dict) is fresh


def test_a_long_text_is_shown_by_its_size_and_its_checksum() -> None:
    shown = summarise_texts({"declaration": TOML, "hidden": [8], "train": "1-6"})
    assert shown["declaration"].startswith("5 lines, sha256 ") and shown["hidden"] == [8] and shown["train"] == "1-6"
    assert summarise_texts(TOML) != summarise_texts(TOML + "#")


def test_new_table_writes_the_file_and_prints_its_decisions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "new", "table", "a.csv", "--target", "y", "--out", "new.toml")
    assert code == 0, err
    assert "Wrote new.toml, from all 60 rows: 2 classes; '1' is the positive one" in out
    assert "Next: vgp run training --set task=new.toml --set data=a.csv" in out


def test_new_table_asks_what_rows_belong_to_and_names_columns_that_nearly_predict_the_target(
    training_here: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, "new", "table", "a.csv")
    assert code == 2 and "--target" in err and [line.split()[0] for line in err.splitlines()[1:]] == ["x", "y"]
    code, _, err = call(capsys, "new", "table", "a.csv", "--target", "z", "--out", "other.toml")
    assert code == 2 and "the table has no column 'z'" in err and not (folder / "other.toml").exists()
    draw = random.Random(1)
    sick = [draw.random() < 0.5 for _ in range(100)]
    rows = [(who, sick[who] if draw.random() < 0.9 else not sick[who]) for who in range(100) for _ in range(6)]
    lines = [f"{who},{draw.gauss(2.7 * ill, 1):.2f},{int(ill)}" for who, ill in draw.sample(rows, len(rows))]
    (folder / "p.csv").write_text("\n".join(["patient,fee,y", *lines]) + "\n")
    words = ("new", "table", "p.csv", "--target", "y", "--out", "p.toml")
    code, _, err = call(capsys, *words)
    assert code == 2 and not (folder / "p.toml").exists()
    assert "patient: 100 values in 600 rows" in err and "--group patient" in err and "--group row" in err
    code, out, err = call(capsys, *words, "--group", "patient")
    assert code == 0, err
    assert "Check fee: alone it nearly predicts the target (AUC 0.9" in out
    assert 'group = "patient"' in (folder / "p.toml").read_text()
    assert json.loads(call(capsys, *words, "--group", "row", "--force", "--json")[1])["columns"][1]["doubt"]
