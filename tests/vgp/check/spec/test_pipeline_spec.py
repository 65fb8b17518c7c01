"""A spec is read once, whatever it holds."""

import json
from pathlib import Path
from typing import Any

import pytest

from vgp.base.documents.document import Document
from vgp.check.checker import check
from vgp.check.spec.pipeline_spec import PipelineSpec

GOLDEN = Path(__file__).parents[3] / "golden" / "training.json"


@pytest.fixture(scope="module")
def training() -> PipelineSpec:
    return PipelineSpec.read(GOLDEN)


def test_it_tells_name_parameters_and_steps_in_their_order(training: PipelineSpec) -> None:
    assert (training.name, training.description[:8]) == ("training", "Prepares")
    names = ["resolve", "prepare", "train", "evaluate", "decide", "register", "notify"]
    assert [step.name for step in training.steps] == [step.path for step in training.steps] == names
    assert training.parameters["global_batch_size"].takes.startswith("an integer")
    assert training.defaults["precision"] == "auto"


def test_a_whole_number_stays_one_and_a_fraction_too(training: PipelineSpec) -> None:
    shown = {name: repr(training.parameters[name].default) for name in ("global_batch_size", "epochs", "margin")}
    assert shown == {"global_batch_size": "1024", "epochs": "3.0", "margin": "0.0"}


def test_an_executor_is_that_of_the_steps_component(training: PipelineSpec) -> None:
    decide = training.steps[-3].task
    assert "def decide(" in training.executor(decide)["container"]["command"][-1]
    assert training.executor(training.root) == {}, "a group has none"


def test_groups_come_before_what_is_in_them_and_producers_before_consumers(branching: dict[str, Any]) -> None:
    spec = PipelineSpec(branching)
    ways = [way for way, _ in spec.walk()]
    (loop,) = [task for _, task in spec.walk() if task.is_loop]
    assert loop.loop and loop.loop.items({}) == [1, 2]
    assert all(way.rpartition("/")[0] in ("", *ways[:number]) for number, way in enumerate(ways))
    assert len({task.name for _, task in spec.walk() if task.condition}) == 3


def test_an_exit_handler_is_no_part_of_the_way_to_its_steps_and_other_groups_are(branching: dict[str, Any]) -> None:
    spec = PipelineSpec(branching)
    ways = {step.task.name: step.path for step in spec.steps}
    assert ways["flip"] == "flip" and ways["say"] == "say" and ways["flip-2"] == "for-loop-7/flip-2"
    assert ways["say-2"].startswith("condition-branches-"), "within the exit handler"
    checked = check([Document("p.json", branching, "")]).steps
    assert {row.step for row in checked} == {step.name for step in spec.steps}


def test_text_and_digest_are_of_the_content_alone(training: PipelineSpec) -> None:
    again = PipelineSpec(json.loads(json.dumps(training.content)))
    assert training.text == GOLDEN.read_text() == again.text
    assert training.digest == again.digest != training.with_defaults({"epochs": 9.0}).digest


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"root": [], "components": 3, "deploymentSpec": {"executors": []}, "pipelineInfo": None},
        {"root": {"dag": {"tasks": {"a": None, "b": {"dependentTasks": "a", "triggerPolicy": 3}}}}},
        {"root": {"dag": {"tasks": {"a": {"dependentTasks": ["b"]}, "b": {"dependentTasks": ["a"]}}}}},
        {"root": {"inputDefinitions": {"parameters": {"p": None}}}},
    ],
)
def test_what_does_not_fit_reads_as_if_it_were_not_there(content: Any) -> None:
    spec = PipelineSpec(content)
    assert spec.name == "" and spec.executors == {}
    assert {step.name for step in spec.steps} <= {"a", "b"} and set(spec.parameters) <= {"p"}


def test_components_that_contain_each_other_have_an_end() -> None:
    inner = {"dag": {"tasks": {"again": {"componentRef": {"name": "comp-a"}}}}}
    spec = PipelineSpec({"root": inner, "components": {"comp-a": inner}})
    assert len(list(spec.walk())) < 100 and spec.steps == []
