"""What every component must be: its shipped text stands alone, and the console can explain it."""

import ast
import builtins
import dis
import importlib
import json
import pkgutil
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from kfp.dsl.base_component import BaseComponent

import components
from pipelines.batch_prediction import batch_prediction
from pipelines.training import training
from vgp.check.spec.pipeline_spec import PipelineSpec

GOLDEN = Path(__file__).parents[1] / "golden"

STEPS = {
    f"{module.name}.{name}": value
    for module in pkgutil.iter_modules(components.__path__)
    for name, value in vars(importlib.import_module(f"components.{module.name}")).items()
    if isinstance(value, BaseComponent)
}
NAMES = list(STEPS)
FORMS = {"resolve.resolve": training, "predict.resolve": batch_prediction}


def shipped_source(name: str) -> str:
    """The text that kfp puts into the container: the last element of the command."""
    command: list[str] = STEPS[name].component_spec.implementation.container.command
    return command[-1]


def globals_read(code: CodeType) -> set[str]:
    """Names that the code looks up outside its functions."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= globals_read(constant)
    return names


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_text_needs_nothing_that_is_not_shipped(name: str) -> None:
    namespace: dict[str, Any] = {}
    source = shipped_source(name)
    exec(compile(source, f"<shipped {name}>", "exec"), namespace)
    unknown = globals_read(compile(source, "<shipped>", "exec")) - set(namespace) - set(dir(builtins))
    assert not unknown, f"{name} uses {unknown}, which its container will not have"


@pytest.mark.parametrize("name", NAMES)
def test_every_input_and_output_is_described(name: str) -> None:
    """Fields of a form are, where people fill it in."""
    spec = STEPS[name].pipeline_spec.components[f"comp-{STEPS[name].name}"]
    declared = [
        *spec.input_definitions.parameters.items(),
        *spec.input_definitions.artifacts.items(),
        *spec.output_definitions.artifacts.items(),
    ]
    form = FORMS[name].component_spec.inputs if name in FORMS else {}
    assert [key for key, value in declared if not value.description and key not in form] == []


@pytest.mark.parametrize("name", FORMS)
def test_the_form_of_a_workflow_is_that_of_its_first_step_in_an_order_for_people(name: str) -> None:
    """Its fields, with their types and defaults."""
    form, taken = FORMS[name].component_spec.inputs, STEPS[name].component_spec.inputs
    assert {key: (field.type, field.default) for key, field in form.items() if key in taken} == {
        key: (field.type, field.default) for key, field in taken.items() if key in form
    }
    assert set(taken) - set(form) == {"pipeline", "run", "scheduled"}
    assert set(form) - set(taken) <= {"staging"}
    described = FORMS[name].pipeline_spec.root.input_definitions.parameters
    assert [key for key in form if not described[key].description] == []
    spec = PipelineSpec.read(GOLDEN / f"{FORMS[name].name.replace('-', '_')}.json")
    assert list(spec.parameters) == list(form) == list(PipelineSpec(json.loads(spec.text)).parameters)
    assert list(form)[:3] == ["data", "task", "task_options"] and list(form)[-2:] == ["as_of", "pins"]


@pytest.mark.parametrize("name", NAMES)
def test_a_component_has_no_logic(name: str) -> None:
    source = shipped_source(name)
    function = ast.parse(source).body[-1]
    assert isinstance(function, ast.FunctionDef)
    docstring, *work = function.body
    assert len([node for node in work if not isinstance(node, ast.ImportFrom)]) <= 5
    assert any(isinstance(node, ast.ImportFrom) for node in work[:2])
    assert not [node for node in ast.walk(function) if isinstance(node, ast.For | ast.While | ast.Try | ast.With)]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_installed_at_run_time(name: str) -> None:
    assert "pip install" not in " ".join(STEPS[name].component_spec.implementation.container.command)
