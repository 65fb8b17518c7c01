"""Placeholders of Kubeflow Pipelines in values that come from outside: refused at every way in."""

import json
from pathlib import Path
from typing import Any

import pytest
from loopback.cloud import Cloud

from vgp.__main__ import main
from vgp.check.spec.parameters import Parameter, check_arguments, parse_arguments
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import placeholders

REPLACED = (
    "{{$.pipeline_job_uuid}}",
    '{{$.inputs.parameters["task"]}}',
    "gs://bucket/{{$.pipeline_root}}/data",
    "{{$}}",
    "{{$.unfinished",
    "/kfp-workspace/data",
)
KEPT = ("{{ task }}", "$(data)", "${data}", "%s", "{}", "{{channel:task=;name=task;type=String;}}", "\uff5b\uff5b$.x}}")
SCHEDULE = 'schedules.nightly = {pipeline = "training", cron = "0 4 * * *", parameters = {%s}}'


@pytest.mark.parametrize("text", REPLACED)
def test_a_text_that_would_be_replaced_is_seen_wherever_it_stands(text: str) -> None:
    assert all(map(placeholders.within, (text, [1, [text]], {"a": {"b": text}}, {text: 1}, {"a": [{text: None}]})))


@pytest.mark.parametrize("text", KEPT)
def test_a_text_that_stays_what_it_is_is_taken(text: str) -> None:
    declared = {"data": Parameter("data", "STRING")}
    assert parse_arguments(declared, [f"data={text}"]) == check_arguments(declared, {"data": text}) == {"data": text}


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a wrong request says."""
    with pytest.raises(SystemExit) as end:
        main(list(words))
    out, err = capsys.readouterr()
    assert end.value.code == 2, out + err
    return err


@pytest.mark.parametrize("verb", [["run", "training"], ["submit", "training", "--dry-run"]], ids=" ".join)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("data", "{{$.pipeline_job_uuid}}"),
        ("task_options", r'{"a": ["\u007b\u007b$.pipeline_job_uuid}}"]}'),
        ("task_options", '{"{{$.pipeline_task_uuid}}": 1}'),
    ],
)
def test_a_parameter_of_the_command_line_is_refused(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], repository: Path, monkeypatch: pytest.MonkeyPatch,
    verb: list[str], name: str, value: str,
) -> None:  # fmt: skip
    (repository / "pipelines.toml").touch()
    monkeypatch.chdir(repository)
    assert f"error: {name} holds a placeholder" in ended(capsys, *verb, "--set", f"{name}={value}")
    assert sorted(path.name for path in repository.iterdir()) == ["pipelines", "pipelines.toml"]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("steps.train.env.DATA = VALUE", "steps.train.env.DATA"),
        ("environments.prod.steps.train.reservation = VALUE", "environments.prod.steps.train.reservation"),
        (SCHEDULE % "data = VALUE", "schedules.nightly.parameters.data"),
        (SCHEDULE % "task_options = {a = [1, {b = VALUE}]}", "schedules.nightly.parameters.task_options.a"),
    ],
)
def test_a_setting_is_refused_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, key: str
) -> None:
    monkeypatch.chdir(tmp_path)
    value = json.dumps("gs://b/{{$.pipeline_job_uuid}}")
    (tmp_path / "pipelines.toml").write_text(line.replace("VALUE", value))
    assert f"pipelines.toml:1: {key}: holds a placeholder" in ended(capsys, "config")


def test_a_variable_is_refused_by_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPELINES_STEPS__TRAIN__ENV__DATA", "{{$.pipeline_job_uuid}}")
    assert "PIPELINES_STEPS__TRAIN__ENV__DATA: " in ended(capsys, "config")


def test_a_folder_of_a_run_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "{{$.pipeline_job_uuid}}"
    assert "holds a placeholder" in ended(capsys, "run", "training", "--out", str(out))
    assert not out.exists()


def test_an_author_may_write_them_in_a_pipelines_code(small: dict[str, Any]) -> None:
    assert parse_arguments(PipelineSpec(small).parameters, ["text=x"]) == {"text": "x"}
    assert "{{$.pipeline_job_uuid}}" in json.dumps(small["root"])
