"""Every setting of a training can be given to the pipeline, and arrives at the trainer."""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from kfp.dsl import HTML, Artifact, Dataset, Model
from pydantic import ValidationError

from components.resolve import resolve
from components.train import train
from pipelines import training as workflow
from vgp.check.spec.parameters import parse_arguments
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import manifest
from vgp.protocol.manifest import Manifest
from vgp.steps.run_request import Form, read_form
from vgp.train import fit
from vgp.train.train_config import TrainConfig

ROOT = Path(__file__).parents[2]
SPEC = PipelineSpec.read(ROOT / "tests/golden/training.json")
FLIGHTS = "training.tasks.flights:Flights"
#: What the task is made from arrives with the data that it prepared: the step `train` holds it against its manifest.
OF_THE_TASK = {"task": "task", "options": "task_options"}
SETTINGS = [name for name in TrainConfig.model_fields if name not in OF_THE_TASK]


FIND_SPEC = importlib.util.find_spec


def without_torch(name: str, package: str | None = None) -> Any:
    """Finds every module but torch, as on a desk that only submits."""
    return None if name == "torch" else FIND_SPEC(name, package)


def values_of(name: str) -> Iterator[Any]:
    """Values of the field's type: one of them is another than its default, and breaks no rule."""
    field = TrainConfig.model_fields[name]
    kinds = [field.annotation, *get_args(field.annotation)]
    choices = [value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
    yield from choices
    if bool in kinds:
        yield from (True, False)
    if {int, float} & set(kinds):
        yield from (4, 40, 400, 0.5)
    if name == "best_metric":
        yield "accuracy"
    elif str in kinds:
        yield from ("gs://bucket/folder", "7")
    if get_origin(field.annotation) is list:
        yield ["head.*"]
    if get_origin(field.annotation) is dict:
        yield {"backbone.": "bert."}


def other(name: str) -> dict[str, Any]:
    """Settings in which this one is not its default; with another where it asks for that."""
    needed = ({"strategy": "fsdp"}, {"schedule": "warmup_stable_decay"}, {"warm_start": "gs://bucket/folder"})
    for value in values_of(name):
        for companions in ({}, *needed):
            try:
                config = TrainConfig(**{**companions, name: value})
            except ValidationError:
                continue
            if getattr(config, name) != getattr(TrainConfig(), name):
                return {**companions, name: value}
    raise AssertionError(f"no value for {name}: add one of its type to values_of")


def inputs(step: str, values: dict[str, Any]) -> dict[str, Any]:
    """The parameters that the pipeline hands to a step, as KFP does: every number in a JSON object is a float."""
    (task,) = [task for _, task in SPEC.walk() if task.name == step]
    own = {name: source["componentInputParameter"] for name, source in task.content["inputs"]["parameters"].items()
           if "componentInputParameter" in source}  # fmt: skip
    places = {name: source.removeprefix("pipelinechannel--") for name, source in own.items()}
    given = {name: values[place] for name, place in places.items() if place in values}
    return {name: as_struct(value) if isinstance(value, dict) else value for name, value in given.items()}


def as_struct(value: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(value), parse_int=float)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_reached_through_the_pipeline(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[TrainConfig] = []
    monkeypatch.setattr(fit, "train", lambda config, **_: arrived.append(config) or {})
    monkeypatch.setattr(manifest, "load", lambda _: Manifest.model_construct(task=FLIGHTS, options={}))
    settings = other(name)
    texts = [f"{key if key in SPEC.parameters else f'training_options.{key}'}={json.dumps(value).strip(chr(34))}"
             for key, value in settings.items()]  # fmt: skip
    values = {**SPEC.defaults, **parse_arguments(SPEC.parameters, texts, workflow.members)}
    workflow.check(values, remote=True)
    outputs = {"model": Model(uri=str(tmp_path / "model")), "checkpoints": Artifact(uri=str(tmp_path / "saved"))}
    config = as_struct(asked(values).settings)
    train.python_func(
        dataset=Dataset(uri=str(tmp_path)), **outputs, **inputs("train", values), pins="", config=config
    )  # fmt: skip
    assert arrived == [TrainConfig(task=FLIGHTS, **settings)]


def test_equal_settings_are_one_value_for_the_cache() -> None:
    """In whatever way they are given; it names the fields of the form, and others that are not at their defaults."""
    plain = asked(SPEC.defaults).settings
    given = {"strategy": "ddp", "keep": 3.0, "compile": "auto"}
    assert asked({**SPEC.defaults, "epochs": 3, "training_options": given}).settings == plain
    assert set(plain) == {name for name in SETTINGS if name in SPEC.parameters}
    other = asked({**SPEC.defaults, "training_options": {"keep": 4.0, "strategy": "fsdp"}}).settings
    assert json.dumps(other) == json.dumps({**plain, "strategy": "fsdp", "keep": 4})
    assert asked({**SPEC.defaults, "margin": 1e-3}).settings == plain, "no term is a setting of the training"


def asked(values: dict[str, Any]) -> Form:
    """The form as the step resolve reads it."""
    of_resolve = as_struct(inputs("resolve", values))
    return read_form({name: value for name, value in of_resolve.items() if name not in ("as_of", "pins")})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"training_options": {"stratgy": "fsdp"}}, "training has no setting 'stratgy'. Did you mean strategy?"),
        ({"training_options": {"epochs": 2}}, "training_options holds epochs, which has its own parameter"),
        ({"training_options": {"options": {}}}, "give it as task_options"),
        ({"training_options": {"microbatches": 2048}}, "microbatches=2048 is more than global_batch_size=1024"),
        ({"training_options": {"keep": 3.5}}, "keep=3.5: input should be a valid integer"),
        ({"training_options": {"cpu_offload": True}}, "cpu_offload=true works with strategy=fsdp only"),
        ({"training_options": {"strategy": None}}, "strategy=None: input should be 'ddp' or 'fsdp'"),
        ({"epochs": -1.0}, "epochs=-1.0: input should be greater than 0"),
        ({"confidence": 2.0}, "confidence = 2.0: it must lie between 0.5 and 1"),
        ({"task": "flihgts"}, "Did you mean flights?"),
    ],
)
def test_a_wrong_setting_is_refused_at_the_desk_and_in_the_first_step(
    given: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A run that the console starts has seen no desk; and a desk may have no torch."""
    values = {**SPEC.defaults, **given}
    with pytest.raises(ValueError, match=re.escape(message)):
        workflow.check(values)
    with monkeypatch.context() as desk, pytest.raises(ValueError, match=re.escape(message)):
        desk.setattr(importlib.util, "find_spec", without_torch)
        workflow.check(values, remote=True)
    record = Artifact(uri=str(tmp_path / "runs/123/training-1/resolve_12345678/record"))
    with pytest.raises(SystemExit) as ended:
        resolve.python_func(
            record=record, look=HTML(), pipeline="training", run="training-1", **inputs("resolve", values)
        )  # fmt: skip
    assert ended.value.code == 2 and message in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "nothing is written"


@pytest.mark.parametrize("given", [{"warm_start": "runs/1/train/model"}, {"resume": "/tmp/checkpoints"}])
def test_folders_of_this_machine_are_no_settings_of_a_run_on_vertex(given: dict[str, str]) -> None:
    (name,) = given
    with pytest.raises(ValueError, match=f"training_options.{name} = .* cannot read files of this machine"):
        workflow.check({**SPEC.defaults, "training_options": given}, remote=True)
    workflow.check({**SPEC.defaults, "training_options": {name: "gs://bucket/folder"}}, remote=True)
    older = {name: value for name, value in SPEC.defaults.items() if name != "training_options"}
    workflow.check(older, remote=True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("https://example.com/a b.csv", "data is not downloaded from the web"),
        ("gs://bucket/a.csv, HTTP://example.com/a.csv", "gcloud storage cp - gs://BUCKET/NAME"),
        ("https://storage.googleapis.com/bucket/f/a.csv", "write the object as gs://bucket/f/a.csv"),
        ("s3://bucket/a", "gcloud storage cp -r s3://bucket/a gs://BUCKET/FOLDER"),
        ("GS://bucket/a", "Is it gs://bucket/a?"),
        ("bq://dataset.table", "The project is missing"),
        ("query.sql", "cannot read files of this machine"),
        ("bq://my-project.d.t", "[steps.prepare.bigquery] max_gb = 100"),
        ("gs://bucket/query.sql", "BigQuery bills the bytes that queries read"),
    ],
)
def test_data_that_a_run_on_vertex_cannot_read_is_refused_at_the_desk(data: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        workflow.check({**SPEC.defaults, "data": data}, remote=True)


def test_a_download_is_refused_before_a_run_here_starts() -> None:
    with pytest.raises(ValueError, match="data is not downloaded from the web"):
        workflow.check({**SPEC.defaults, "data": "https://example.com/a.csv"})


def test_data_in_bigquery_is_read_where_the_settings_limit_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", without_torch)
    for data in ("bq://my-project.d.t", "gs://bucket/query.sql", "bq://p.d.t, bq://p.d.u"):
        workflow.check({**SPEC.defaults, "data": data}, remote=True, bigquery=("prepare",))


def test_settings_are_checked_without_any_package_of_the_training() -> None:
    """By who only submits: pydantic is there, torch, numpy, pyarrow and Google's clients are not."""
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy", "pyarrow", "google", "scipy", "sklearn", "safetensors", "kfp"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from vgp.steps.run_request import check_request
check_request(task="flights", task_options={}, champion="", margin=0, confidence=0.95, data="", with_task=False,
              epochs=1, training_options={"stratgy": "fsdp"})
"""
    checked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert checked.stderr.splitlines()[-1] == "ValueError: training has no setting 'stratgy'. Did you mean strategy?"


def test_resolve_checks_the_defaults_of_the_form() -> None:
    """For a workflow that does not hand them over."""
    declared = resolve.component_spec.inputs
    shared = declared.keys() & SPEC.defaults.keys()
    assert {"epochs", "training_options", "margin"} <= shared
    assert {name: declared[name].default for name in shared} == {name: SPEC.defaults[name] for name in shared}
