"""The difference of two specs is described in the words of their authors, not in those of the compiler."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.spec_difference import differences
from vgp.protocol.capacity.plan import Plan, PlannedRung

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
def test_steps_in_an_exit_handler_are_compared_like_others(
    change: Callable[[dict[str, Any]], None], fields: list[str]
) -> None:
    other: dict[str, Any] = copy.deepcopy(dict(TRAINING.content))
    change(other)
    assert [difference.field for difference in differences(TRAINING, PipelineSpec(other))] == fields


PROGRAM = "a program that is long enough to be written once, in whatever many rungs it stands: " * 2


def rung(name: str, usd_per_hour: float, machine: str = "a3-highgpu-8g", **more: Any) -> PlannedRung:
    container = {"imageUri": "x.dev/p/r/i:1", "args": [more.pop("program", PROGRAM)]}
    pool = {"machineSpec": {"machineType": machine}, "containerSpec": container, "replicaCount": 1}
    _, strategy, region = name.split("-", 2)
    return PlannedRung(
        name=name, region=region, strategy=strategy, timeout_s=3600, usd_per_hour=usd_per_hour,
        job={"displayName": "train", "jobSpec": {"workerPoolSpecs": [pool]}}, **more,
    )  # fmt: skip


SPOT, FLEX, EAST = rung("1-spot-us-central1", 60), rung("2-flex_start-us-central1", 50), rung("3-standard-us-east4", 90)


def climbing(*rungs: PlannedRung, image: str = "x.dev/p/r/i:1", **more: Any) -> PipelineSpec:
    """The training pipeline whose step train climbs these rungs."""
    spec: dict[str, Any] = copy.deepcopy(dict(TRAINING.content))
    plan = Plan(step="train", rungs=rungs, **more).to_json()
    arguments = ["--plan", plan, "--executor_input", "{{$}}"]
    container = {"image": image, "command": ["python3", "-m", "vgp.launch.capacity"], "args": arguments}
    spec["deploymentSpec"]["executors"]["exec-train"] = {"container": container}
    del spec["components"]["comp-train"]["inputDefinitions"]["parameters"]["worker_pool_specs"]
    return PipelineSpec(spec)


def diff(before: PipelineSpec, after: PipelineSpec) -> list[tuple[str, Any, Any]]:
    return [(each.field, each.before, each.after) for each in differences(before, after)]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (lambda: climbing(SPOT, FLEX, EAST), []),
        (lambda: climbing(rung("1-spot-us-central1", 66), FLEX, EAST),
         [("train: rung 1-spot-us-central1: usd_per_hour", 60, 66)]),
        (lambda: climbing(SPOT, FLEX, rung("3-standard-us-east4", 90, "a3-megagpu-8g")),
         [("train: rung 3-standard-us-east4: machineSpec.machineType", "a3-highgpu-8g", "a3-megagpu-8g")]),
        (lambda: climbing(SPOT, rung("2-standard-us-east4", 95)),
         [("train: rungs", "1-spot-us-central1, 2-flex_start-us-central1, 3-standard-us-east4",
           "1-spot-us-central1, 2-standard-us-east4"), ("train: rung 2-standard-us-east4: usd_per_hour", 90, 95)]),
        (lambda: climbing(*(rung(each.name, each.usd_per_hour or 0, "a3-edgegpu-8g") for each in (SPOT, FLEX, EAST))),
         [("train: every rung: machineSpec.machineType", "a3-highgpu-8g", "a3-edgegpu-8g")]),
        (lambda: climbing(SPOT, FLEX, EAST, deadline_s=3600.0), [("train: deadline_s", None, 3600.0)]),
        (lambda: climbing(*(rung(each.name, each.usd_per_hour or 0, program="another") for each in (SPOT, FLEX, EAST))),
         [("train: code", None, "changed")]),
        (lambda: climbing(SPOT, FLEX, EAST, image="x.dev/p/r/i:2"),
         [("train: image", "x.dev/p/r/i:1", "x.dev/p/r/i:2")]),
    ],
)  # fmt: skip
def test_a_change_of_a_ladder_is_described_by_its_rungs(after: Callable[[], PipelineSpec], expected: list[Any]) -> None:
    assert diff(climbing(SPOT, FLEX, EAST), after()) == expected


def test_a_custom_job_that_becomes_a_ladder_is_one_line() -> None:
    found = diff(TRAINING, climbing(SPOT, EAST))
    assert ("train: starts", "a custom job", "a ladder (1-spot-us-central1, 3-standard-us-east4)") in found
    assert [field for field, _, _ in found] == ["train: starts", "train: image"]


@pytest.mark.parametrize("rungs", [None, 5, [5], [{}], [{"name": 3, "job": []}]])
def test_a_malformed_plan_is_a_difference_and_no_crash(rungs: Any) -> None:
    other = copy.deepcopy(dict(climbing(SPOT, EAST).content))
    other["deploymentSpec"]["executors"]["exec-train"]["container"]["args"][1] = json.dumps({"rungs": rungs})
    assert diff(climbing(SPOT, EAST), PipelineSpec(other)) and diff(PipelineSpec(other), climbing(SPOT, EAST))
