"""Two specs are told apart in words that a person would use: an exit handler around all steps is none of them."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.spec_difference import differences

TRAINING = PipelineSpec.read(Path(__file__).parents[3] / "golden" / "training.json")
HANDLER, BRANCH = "comp-exit-handler-1", "comp-condition-2"


def without_a_parameter(spec: dict[str, Any]) -> None:
    del spec["root"]["inputDefinitions"]["parameters"]["margin"]
    del spec["components"][HANDLER]["inputDefinitions"]["parameters"]["pipelinechannel--margin"]
    del spec["components"][HANDLER]["dag"]["tasks"]["resolve"]["inputs"]["parameters"]["margin"]


def without_a_step(spec: dict[str, Any]) -> None:
    del spec["components"][BRANCH]["dag"]["tasks"]["decide"]
    del spec["components"]["comp-decide"]


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (lambda spec: None, []),
        (without_a_parameter, ["parameter margin", "flow"]),
        (without_a_step, ["decide", "flow", "cached steps"]),
    ],
)
def test_steps_in_an_exit_handler_are_told_as_those_of_the_pipeline(
    change: Callable[[dict[str, Any]], None], fields: list[str]
) -> None:
    other: dict[str, Any] = copy.deepcopy(dict(TRAINING.content))
    change(other)
    assert [difference.field for difference in differences(TRAINING, PipelineSpec(other))] == fields
