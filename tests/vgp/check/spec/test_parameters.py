"""Parameters on the command line, checked against the pipeline's signature."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.emulator.cloud import Cloud
from vgp.__main__ import main
from vgp.base.errors import RequestError
from vgp.check.spec.parameters import Parameter, check_arguments, parse_arguments
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import placeholders

SPEC: dict[str, Any] = {
    "root": {
        "inputDefinitions": {
            "parameters": {
                "epochs": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 3.0},
                "seed": {"parameterType": "NUMBER_INTEGER", "defaultValue": 1.0},
                "months": {"parameterType": "STRING", "defaultValue": "1-6"},
                "options": {"parameterType": "STRUCT", "defaultValue": {}},
                "columns": {"parameterType": "LIST", "defaultValue": []},
                "dry": {"parameterType": "BOOLEAN", "defaultValue": False},
            }
        }
    }
}


DECLARED = PipelineSpec(SPEC).parameters


def test_values_get_the_declared_types() -> None:
    given_ = ["epochs=2", "seed=7", "months=1-3", 'options={"width": 8}', "columns=[1]", "dry=TRUE"]
    values = parse_arguments(DECLARED, given_)
    assert values == {
        "epochs": 2.0,
        "seed": 7,
        "months": "1-3",
        "options": {"width": 8},
        "columns": [1],
        "dry": True,
    }


def test_the_value_is_everything_after_the_first_equals_sign() -> None:
    assert parse_arguments(DECLARED, ["months=a=b"]) == {"months": "a=b"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch=3", "no parameter 'epoch'. Did you mean epochs?"),
        ("xyz=3", "no parameter 'xyz'. It has columns, dry"),
        ("epochs", "write name=value"),
        ("epochs=three", "epochs takes a number"),
        ("epochs=nan", "epochs takes a number"),
        ("seed=1.5", "seed takes an integer"),
        ("dry=yes", "dry takes true or false"),
        ("options=[1]", "options takes a JSON object"),
        ("columns={", "columns takes a JSON list"),
        ("seed=1_000", "seed takes an integer"),
        ("seed=٣", "seed takes an integer"),
        ("seed=9007199254740993", "seed takes an integer, at most 2^53"),
        ("columns=[9007199254740993]", "columns takes a JSON list"),
        ("columns=[NaN]", "columns takes a JSON list"),
        ("columns=" + "[" * 30 + "]" * 30, "columns takes a JSON list"),
        ("columns=" + "[" * 5000, "columns takes a JSON list"),
        ('options={"a": "\\ud800"}', "options takes a JSON object"),
    ],
)
def test_wrong_parameters_are_refused_with_the_rule(text: str, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_arguments(DECLARED, [text])
    assert message in str(refused.value)


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(RequestError, match="given twice"):
        parse_arguments(DECLARED, ["seed=1", "seed=2"])


def test_a_required_parameter_is_asked_for() -> None:
    required = {"data": Parameter("data", "STRING")}
    with pytest.raises(RequestError, match="needs a value for data"):
        parse_arguments(required, [])


NESTED = {**DECLARED, "table": Parameter("table", "STRUCT", has_default=True, default={"split": {"train": "1-6"}})}


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["options.strategy=fsdp"], {"options": {"strategy": "fsdp"}}),
        (["options.a=1", "options.b=true", "options.c=[1]"], {"options": {"a": 1, "b": True, "c": [1]}}),
        (['options={"a": 1}', "options.b=2"], {"options": {"a": 1, "b": 2}}),
        (["options.b=2", 'options={"a": 1}'], {"options": {"a": 1, "b": 2}}),
        (["options.a.b=x=y", "options.a.c="], {"options": {"a": {"b": "x=y", "c": ""}}}),
        (["table.split.test=7"], {"table": {"split": {"train": "1-6", "test": 7}}}),
        (["table.split=7-9"], {"table": {"split": "7-9"}}),
        (['table={"a": 1}', "table.b=2"], {"table": {"a": 1, "b": 2}}),
    ],
)
def test_a_member_of_a_json_parameter_is_set_by_its_name(texts: list[str], values: dict[str, Any]) -> None:
    assert parse_arguments(NESTED, texts) == values
    assert NESTED["table"].default == {"split": {"train": "1-6"}}, "another run starts from the same default"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["options.a=1", "options.a=2"], "--set options.a: another --set sets options.a to 1."),
        (['options={"a": 1}', "options.a=2"], "another --set sets options.a to 1."),
        (["options.a=1", "options.a.b=2"], "--set options.a.b: another --set sets options.a to 1."),
        (["options.a.b=2", "options.a=1"], 'another --set sets options.a to {"b": 2}.'),
        (["epochs.x=1"], "epochs takes a number, which has no members"),
        (["columns.0=1"], "columns takes a JSON list, which has no members"),
        (["options.=1"], "write options.member=value"),
        (["options..a=1"], "write options.member=value"),
        (["options.a=NaN"], "--set options.a: options takes a JSON object, and in it numbers are finite"),
        (["options." + ".".join("a" * 30) + "=1"], "at most 20 deep"),
        (["optoins.a=1"], "no parameter 'optoins.a'. Did you mean options?"),
        (["strategy=fsdp"], "It is a member of options: --set options.strategy=fsdp"),
        (["warm_start=my models/a"], "It is a member of options: --set options.warm_start='my models/a'"),
        (["stratgy=fsdp"], "Did you mean options.strategy?"),
        (["data=1"], "no parameter 'data'. It has columns,"),
    ],
)
def test_wrong_members_are_refused_with_what_was_meant(texts: list[str], message: str) -> None:
    names = {"options": ["strategy", "warm_start", "epochs"], "gone": ["data"]}
    with pytest.raises(RequestError) as refused:
        parse_arguments(DECLARED, texts, lambda: names)
    assert message in str(refused.value)


def test_a_member_in_a_settings_file_is_answered_in_its_own_form() -> None:
    with pytest.raises(RequestError) as refused:
        check_arguments(DECLARED, {"strategy": "fsdp"}, lambda: {"options": ["strategy"]})
    assert str(refused.value).endswith("""It is a member of options: options.strategy = "fsdp\"""")


@given(st.lists(st.text(max_size=30), max_size=3))
def test_any_text_is_read_or_refused_and_never_crashes(texts: list[str]) -> None:
    with suppress(RequestError):
        parse_arguments(DECLARED, texts)


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
    """Returns the message of a wrong request."""
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
