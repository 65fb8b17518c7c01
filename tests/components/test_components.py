"""What every component must be: its shipped text stands alone, and the console can explain it."""

import ast
import builtins
import dis
import importlib
import pkgutil
from types import CodeType
from typing import Any

import pytest
from kfp.dsl.base_component import BaseComponent

import components

NAMES = [module.name for module in pkgutil.iter_modules(components.__path__) if module.name != "image"]


def component(name: str) -> Any:
    """The one component of a file; two workflows may have a step of one name, each from a file of its own."""
    module = importlib.import_module(f"components.{name}")
    (found,) = (value for value in vars(module).values() if isinstance(value, BaseComponent))
    return found


def shipped_source(name: str) -> str:
    """The text that kfp puts into the container: the last element of the command."""
    return component(name).component_spec.implementation.container.command[-1]


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
    spec = component(name).pipeline_spec.components[f"comp-{component(name).name}"]
    declared = [
        *spec.input_definitions.parameters.items(),
        *spec.input_definitions.artifacts.items(),
        *spec.output_definitions.artifacts.items(),
    ]
    assert [key for key, value in declared if not value.description] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_component_has_no_logic(name: str) -> None:
    source = shipped_source(name)
    function = ast.parse(source).body[-1]
    assert isinstance(function, ast.FunctionDef)
    docstring, import_, *work = function.body
    assert isinstance(import_, ast.ImportFrom)
    assert len([node for node in work if not isinstance(node, ast.ImportFrom)]) <= 5
    assert not [node for node in ast.walk(function) if isinstance(node, ast.For | ast.While | ast.Try | ast.With)]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_installed_at_run_time(name: str) -> None:
    assert "pip install" not in " ".join(component(name).component_spec.implementation.container.command)
