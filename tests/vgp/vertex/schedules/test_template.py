"""The difference between two pipelines is described in words, and no difference is left out."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.check.spec.pipeline_spec import PipelineSpec, switch_cache
from vgp.check.spec.spec_difference import Difference
from vgp.workflow.compiling import compile

from .conftest import SPEC


def differences(before: Any, after: Any) -> list[Difference]:
    return compile.compare_specs(PipelineSpec(before), PipelineSpec(after))


def unified(before: Any, after: Any) -> list[str]:
    return compile.diff_texts(PipelineSpec(before), PipelineSpec(after))


def changed(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    spec = copy.deepcopy(SPEC)
    change(spec)
    return spec


def executor(spec: dict[str, Any], step: str) -> dict[str, Any]:
    container: dict[str, Any] = spec["deploymentSpec"]["executors"][f"exec-{step}"]["container"]
    return container


def pools(spec: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec["components"]["comp-train"]["inputDefinitions"]["parameters"][
        "worker_pool_specs"
    ]["defaultValue"]
    return found


def parameter(spec: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = spec["root"]["inputDefinitions"]["parameters"][name]
    return found


def of_train(spec: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = spec["components"]["comp-train"]["inputDefinitions"]["parameters"][name]
    return found


def prices(spec: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec["root"]["dag"]["tasks"]["notify"]["inputs"]["parameters"]["prices"]
    constant: dict[str, Any] = found["runtimeValue"]["constant"]
    return constant


def tasks(spec: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec["components"]["comp-condition-2"]["dag"]["tasks"]
    return found


def test_steps_that_are_cached_no_longer_are_named() -> None:
    (change,) = differences(SPEC, switch_cache(PipelineSpec(SPEC), False).content)
    assert (change.field, change.before, change.after) == ("cached steps", "decide, evaluate, prepare, train", "none")


def test_nothing_differs_from_itself() -> None:
    assert differences(SPEC, copy.deepcopy(SPEC)) == []
    assert unified(SPEC, copy.deepcopy(SPEC)) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda spec: executor(spec, "evaluate").update(image="elsewhere/x:1"), "evaluate: image"),
        (lambda spec: pools(spec)[0]["container_spec"].update(image_uri="elsewhere/x:1"), "train: image"),
        (lambda spec: executor(spec, "decide")["command"].append("# more"), "decide: code"),
        (lambda spec: pools(spec)[0]["container_spec"]["command"].append("# more"), "train: code"),
        (lambda spec: pools(spec)[0]["machine_spec"].update(machine_type="g2-standard-48"), "train: machine"),
        (
            lambda spec: pools(spec)[0].update(disk_spec={"boot_disk_size_gb": 500}),
            "train: pools.disk_spec.boot_disk_size_gb",
        ),
        (lambda spec: parameter(spec, "epochs").update(defaultValue=9), "parameter epochs: default"),
        (lambda spec: parameter(spec, "epochs").update(description="Rounds."), "parameter epochs: description"),
        (lambda spec: spec["root"]["inputDefinitions"]["parameters"].pop("seed"), "parameter seed"),
        (lambda spec: spec["components"].pop("comp-decide"), "decide"),
        (lambda spec: tasks(spec)["evaluate"].pop("dependentTasks"), "flow"),
        (lambda spec: executor(spec, "prepare").update(env=[{"name": "A", "value": "b"}]), "prepare: env.A"),
        (lambda spec: spec.update(sdkVersion="kfp-9"), "kfp"),
        (lambda spec: of_train(spec, "location").update(defaultValue="us-east4"), "train: input location"),
        (lambda spec: prices(spec).update(train=[9.5, "2026-11-01"]), "notify: input prices.train"),
        (lambda spec: prices(spec).update(train=[]), "notify: input prices.train"),
        (
            lambda spec: tasks(spec)["prepare"]["retryPolicy"].update(backoffFactor=9.0),
            "prepare: retryPolicy.backoffFactor",
        ),
        (lambda spec: spec.update(defaultPipelineRoot="gs://x"), "definition"),
    ],
)
def test_a_change_is_named(change: Callable[[dict[str, Any]], Any], field: str) -> None:
    found = differences(SPEC, changed(change))
    assert field in [each.field for each in found]
    assert differences(changed(change), SPEC)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda spec: pools(spec).append(pools(spec)[0]), [("train: machine", "1 x g2", "2 x g2")]),
        (lambda spec: of_train(spec, "strategy").update(defaultValue="SPOT"), [("train: machine", "standard", "spot")]),
        (lambda spec: of_train(spec, "max_wait_duration").update(defaultValue="60s"),
         [("train: input max_wait_duration", "86400s", "60s")]),
        (lambda spec: prices(spec).update(train=[9.5, "2026-11-01"]),
         [("notify: input prices.train", "2026-07-30", "[9.5, '2026-11-01']")]),
    ],
)  # fmt: skip
def test_a_change_of_machine_is_reported_once_by_step_and_field(
    change: Callable[[dict[str, Any]], Any], expected: list[tuple[str, str, str]]
) -> None:
    found = differences(SPEC, changed(change))
    assert [each.field for each in found] == [field for field, _, _ in expected], "no word of the flow"
    for each, (_, before, after) in zip(found, expected, strict=True):
        assert before in str(each.before) and after in str(each.after)


def test_machine_and_image_are_reported_before_and_after() -> None:
    after = changed(lambda spec: executor(spec, "evaluate").update(image="elsewhere/x:1"))
    (image,) = differences(SPEC, after)
    assert (image.before, image.after) == (executor(SPEC, "evaluate")["image"], "elsewhere/x:1")


def test_the_line_by_line_difference_holds_both_lines() -> None:
    lines = unified(SPEC, changed(lambda spec: parameter(spec, "epochs").update(defaultValue=9)))
    assert [line for line in lines if line.startswith(("+ ", "- "))] == [
        '-          "defaultValue": 3.0,',
        '+          "defaultValue": 9,',
    ] or any('"defaultValue": 9' in line and line.startswith("+") for line in lines)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for key, child in items for each in paths(child, (*path, key)))]


@given(
    path=st.sampled_from([path for path in paths(SPEC) if path]), value=st.sampled_from(["other", 17, True, None, []])
)
def test_no_change_anywhere_in_the_spec_is_left_out(path: tuple[Any, ...], value: Any) -> None:
    after = copy.deepcopy(SPEC)
    target: Any = after
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    if json.dumps(after, sort_keys=True) == json.dumps(SPEC, sort_keys=True):
        return
    assert differences(SPEC, after)
    assert unified(SPEC, after)
