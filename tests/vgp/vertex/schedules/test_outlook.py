"""What the next run would take from the cache: told from the keys of its steps; where it is not known, that is said."""

import copy
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from loopback.cloud import Cloud

from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings, load
from vgp.vertex.schedules import outlook
from vgp.vertex.schedules.apply import apply
from vgp.vertex.schedules.hits import hits, keys
from vgp.vertex.schedules.outlook import Outlook

from .conftest import SMALL, SPEC, make

CONFIG, TERMS = {"epochs": 3}, {"margin": 0}
PINS = {"resolve.data": "1.json", "resolve.champion": "2.json", "resolve.config": CONFIG, "resolve.terms": TERMS}
STEPS = ["prepare", "train", "evaluate", "decide"]


def taken(after: Any = SPEC, values: Any = None, pins: Any = None, done: Any = (*STEPS, "resolve")) -> list[str]:
    """The hits of a run of `after`, once SPEC has run with PINS."""
    then = keys(PipelineSpec(SPEC), {}, PINS)
    now = keys(PipelineSpec(after), values or {}, {**PINS, **(pins or {})})
    return sorted(hits(now, then, set(done)), key=STEPS.index)


def test_the_same_pins_are_hits_and_what_follows_from_others_runs() -> None:
    assert taken() == STEPS
    assert taken(pins={"resolve.data": "9.json"}) == []
    assert taken(pins={"resolve.champion": "9.json"}) == ["prepare", "train"]
    assert taken(values={"epochs": 4.0}) == STEPS, "the step resolve tells what later steps are given"
    assert taken(pins={"resolve.config": {"epochs": 4}}) == ["prepare"]
    assert taken(pins={"resolve.config": {"epochs": 3.0}}) == STEPS
    assert taken(pins={"resolve.terms": {"margin": 0.1}}) == ["prepare", "train", "evaluate"]


def test_a_step_without_a_result_runs_and_all_after_it() -> None:
    assert taken(done=("prepare", "evaluate", "decide")) == ["prepare"]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda spec: container(spec, "train").update(image="x/y:2"), ["prepare"]),
        (lambda spec: container(spec, "train")["args"].append("--more"), ["prepare"]),
        (lambda spec: container(spec, "prepare").update(resources={"cpuLimit": 96.0}), STEPS),
        (lambda spec: spec["pipelineInfo"].update(name="other"), []),
        (lambda spec: task(spec, "prepare").update(cachingOptions={}), []),
        (lambda spec: task(spec, "evaluate")["inputs"]["parameters"].update(task=of_the_run()), ["prepare", "train"]),
    ],
)
def test_the_pipeline_decides_as_well(change: Callable[[Any], Any], left: list[str]) -> None:
    spec = copy.deepcopy(SPEC)
    change(spec)
    assert taken(spec) == left


def container(spec: Any, step: str) -> Any:
    return spec["deploymentSpec"]["executors"][f"exec-{step}"]["container"]


def task(spec: Any, step: str) -> Any:
    return spec["components"]["comp-condition-2"]["dag"]["tasks"][step]


def of_the_run() -> Any:
    return {"runtimeValue": {"constant": "{{$.pipeline_job_name}}"}}


def test_what_cannot_be_known_is_said(
    cloud: Cloud, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "does not pin what moves" in outlook.outlook(settings, make(settings, spec=SMALL)).unknown
    (tmp_path / "pipelines.toml").write_text("")
    elsewhere = load(tmp_path / "pipelines.toml")
    with monkeypatch.context() as light:
        light.setattr(outlook.importlib.util, "find_spec", lambda name: None)
        assert "is not installed" in outlook.outlook(elsewhere, make(settings, spec=SPEC)).unknown
    (tmp_path / "training/tasks").mkdir(parents=True)
    (tmp_path / "training/__init__.py").touch()
    (tmp_path / "training/tasks/flights.py").write_text("import no_such_package\n")
    told = outlook.outlook(elsewhere, make(settings, spec=SPEC))
    assert "no_such_package, which is not installed" in told.unknown
    assert told.as_json(datetime.now(UTC), True) is None


def test_the_inputs_of_resolve_are_the_arguments_and_none_is_a_flag(
    cloud: Cloud, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, '{"data": "/p/1.json", "champion": ""}', "")

    monkeypatch.setattr(subprocess, "run", run)
    parameters = {"data": "--help", "task_options": {"train": "6 months", "share": 0.5}}
    told = outlook.outlook(settings, make(settings, spec=SPEC, parameters=parameters))
    assert commands[0][3:7] == ["resolve", "--dry-run", "--json", "--to=gs://test-bucket/runs/pins"]
    texts = [word.removeprefix("--set=").partition("=") for word in commands[0][7:]]
    given = {name: json.loads(value) for name, _, value in texts}
    assert given.items() >= {**parameters, "pipeline": "training", "epochs": 3.0, "champion": "auto"}.items()
    assert not {"run", "scheduled", "when", "force"} & given.keys(), "a plan asks what is there"
    assert told.words(datetime.now(UTC), None) == "all steps run: it has no good run yet"


@pytest.mark.parametrize("decides", [False, True])
def test_data_is_not_called_new_since_a_run_that_does_not_tell_its_own(
    cloud: Cloud, settings: Settings, monkeypatch: pytest.MonkeyPatch, decides: bool
) -> None:
    monkeypatch.setattr(outlook, "decides", lambda *_: decides)
    cloud.script("resolve", outputs={"data": None})
    apply(settings, make(settings, spec=SPEC))
    cloud.clock.advance(86400)
    told = {"data": "runs/pins/1.json", "champion": ""}
    look = outlook.outlook(settings, make(settings, spec=SPEC), ask=lambda _: (told, ""))
    assert look.unknown.startswith("not known whether there is new data since ")
    assert look.unknown.endswith(": resolve decides whether to train" if decides else ", which does not tell its own")
    assert look.last is not None


def test_a_run_with_another_champion_or_a_new_epoch_is_told(cloud: Cloud, settings: Settings) -> None:
    later = {"config": CONFIG, "terms": TERMS}
    pins = {"data": "gs://b/pins/1.json", "champion": "gs://b/pins/2.json"}
    cloud.script("resolve", outputs={"Output": "train", **pins, **later})
    apply(settings, make(settings, spec=SPEC))
    cloud.clock.advance(86400)
    now = datetime(2026, 3, 20, tzinfo=UTC)

    def look(**pins: str) -> outlook.Outlook:
        told = {"data": "runs/pins/1.json", "champion": "runs/pins/2.json", **later, **pins}
        return outlook.outlook(settings, make(settings, spec=SPEC), now=now, ask=lambda _: (told, ""))

    same = look()
    assert same.words(now, None) == f"data as in {same.run}: nothing would be trained"
    assert same.words(now + timedelta(days=1), now) == "nothing would be trained, unless data arrives"
    over = now + timedelta(days=7)
    assert same.words(over, now) == "all steps run: the cache epoch ends on 2026-03-26"
    assert same.as_json(over, now)["hit"] == []  # type: ignore[index]
    assert same.words(over + timedelta(days=1), over) == "nothing would be trained, unless data arrives"
    assert look(champion="9.json").words(now, None) == (
        f"data as in {same.run}, another champion: evaluate and decide run, prepare and train as there"
    )
    assert look(data="9.json").words(now, None) == f"new data since {same.run}: all steps run"
    json.dumps(same.as_json(now, None))


@pytest.mark.parametrize("known", [Outlook(pinned=["prepare", "train"]), Outlook(run="nightly-1", pinned=["train"])])
def test_a_night_behind_one_that_trains_takes_what_that_made(known: Outlook) -> None:
    """The first because nothing is there yet, or because data is new: the next one finds its results."""
    first = datetime(2026, 3, 20, tzinfo=UTC)
    known, second = replace(known, now=first), first + timedelta(days=1)
    assert "all steps run" in known.words(first, None)
    assert known.words(second, first) == "nothing would be trained, unless data arrives"
    assert known.as_json(second, first) == {
        "words": known.words(second, first), "run": [], "hit": known.pinned, "unless_data_arrives": True,
    }  # fmt: skip
    decides = replace(known, decides=True)
    assert decides.words(second, first).endswith("resolve decides whether to train")
