"""The inputs of a task of a compiled pipeline, resolved through the tasks around it, and the job in its arguments.

An input is a constant, a pipeline parameter (whose default is in the spec), a loop item, or an output of another task
(known only at run time). A launcher container of Google Cloud Pipeline Components gets its job as a JSON text.

The text is made of placeholders and of kfp's {"Concat": [...]} and {"IfPresent": {...}}.
"""

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

from vgp.base.documents.bounded_text import FieldPath, spend
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import Node, Scope
from vgp.check.api_object import find_kind_field

MAX_NESTING = 50


@dataclass(frozen=True)
class Inputs:
    """The inputs of one task. `arguments` are the run's parameter values, for the root."""

    declared: JsonObject
    declared_at: FieldPath
    arguments: JsonObject
    arguments_at: FieldPath
    loop_items: frozenset[str]
    parent: "Inputs | None"
    #: Cache of resolved inputs.
    known: dict[str, Node] = field(default_factory=dict, compare=False)

    def lookup(self, name: str, depth: int) -> Node:
        if depth > MAX_NESTING:
            return Node(None, self.arguments_at, dangling="it refers to itself")
        if name not in self.known:
            spend("look-ups")
            self.known[name] = self._find_value(name, depth)
        return self.known[name]

    def _find_value(self, name: str, depth: int) -> Node:
        if name in self.loop_items:
            return Node(None, runtime=f"'{name}' is an item of a loop")
        if name in self.arguments:
            return self._find_argument(name, depth)
        if name in self.declared:
            return self._find_default(name, depth)
        return Node(None, dangling=f"the step has no input '{name}'")

    def _find_default(self, name: str, depth: int) -> Node:
        declaration = self.declared[name] if isinstance(self.declared[name], dict) else {}
        if "defaultValue" in declaration:
            path = (*self.declared_at, name, "defaultValue")
            assumed = name if self.parent is None else ""
            return Node(declaration["defaultValue"], path, self, assumed=assumed, depth=depth).resolve()
        if self.parent is None:
            return Node(None, runtime=f"the pipeline parameter '{name}' has no default")
        return Node(None) if declaration.get("isOptional") else Node(None, dangling=f"the input '{name}' gets no value")

    def _find_argument(self, name: str, depth: int) -> Node:
        spec, path = self.arguments[name], (*self.arguments_at, name)
        if self.parent is None:
            return Node(_unwrap_value(spec), path, self, depth=depth)
        if not isinstance(spec, dict):
            return Node(None, path, dangling=f"the input '{name}' is malformed")
        if isinstance(spec.get("componentInputParameter"), str):
            return self.parent.lookup(spec["componentInputParameter"], depth + 1)
        value = spec.get("runtimeValue")
        if isinstance(value, dict):
            return self._build_constant(value, path, depth)
        output = spec.get("taskOutputParameter")
        if isinstance(output, dict):
            return Node(None, path, runtime=f"it is an output of the step '{output.get('producerTask')}'")
        return Node(None, path, runtime=f"the run gives '{name}' its value")

    def _build_constant(self, value: JsonObject, path: FieldPath, depth: int) -> Node:
        for key in ("constant", "constantValue"):
            if key in value:
                where = (*path, "runtimeValue", key)
                return Node(_unwrap_value(value[key]), where, self, depth=depth).resolve()
        parameter = value.get("runtimeParameter")
        if isinstance(parameter, str) and self.parent is not None:
            return self.parent.lookup(parameter, depth + 1)
        return Node(None, path, runtime="the run gives it its value")


def _unwrap_value(value: object) -> Any:
    """Returns the content of kfp 1.8's wrapper: {"stringValue": "x"}."""
    if isinstance(value, dict) and len(value) == 1:
        for key in ("stringValue", "intValue", "doubleValue"):
            if key in value:
                return value[key]
    return value


def read_declared(component: JsonObject) -> JsonObject:
    """Returns the parameters that a component declares."""
    definitions = component.get("inputDefinitions")
    parameters = definitions.get("parameters") if isinstance(definitions, dict) else None
    return parameters if isinstance(parameters, dict) else {}


def run_values(data: JsonObject) -> tuple[JsonObject, FieldPath]:
    """Returns the parameter values of the run, and their path."""
    config = data.get("runtimeConfig", data.get("runtime_config"))
    if isinstance(config, dict):
        for key in ("parameterValues", "parameter_values", "parameters"):
            if isinstance(config.get(key), dict):
                return config[key], ("runtimeConfig", key)
    return {}, ()


_PLACEHOLDER = re.compile(r"\{\{\$[^{}]*+\}\}")
_WORDS = ("job_spec", "worker_pool_specs", "dedicated_resources", "workerPoolSpecs")


def launched_job(container: Node) -> Node | None:
    """Returns the object of the JSON text in the arguments; None if there is none."""
    for argument in _list_arguments(container):
        if not _names_a_job(argument.value):
            continue
        value = _parse_json(_join_parts(argument.value, container.scope))
        if find_kind_field(value) not in (None, "machineSpec"):
            return Node(value, argument.path, container.scope)
    return None


def find_unreadable_job(container: Node) -> Node | None:
    """Returns the argument with the job of a launcher whose job is not JSON; None otherwise."""
    return next((argument for argument in _list_arguments(container) if _names_a_job(argument.value)), None)


def option(container: Node, name: str) -> Node | None:
    """Returns the argument after `name`; None if there is none."""
    arguments = _list_arguments(container)
    for argument, following in zip(arguments, arguments[1:], strict=False):
        if argument.value == name:
            value = following.resolve()
            return value if value.text() else None
    return None


def _names_a_job(argument: object) -> bool:
    return isinstance(argument, str) and any(word in argument for word in _WORDS)


def _list_arguments(container: Node) -> list[Node]:
    """Returns the arguments as written; placeholders in them are not resolved yet."""
    args = container.get("args")
    values = args.value if isinstance(args.value, list) else []
    return [replace(args, value=value, path=(*args.path, index)) for index, value in enumerate(values)]


def _join_parts(text: str, scope: Scope | None) -> str:
    """Returns the joined parts of a Concat, the JSON that the launcher receives."""
    value = _parse_json(text) if text.lstrip().startswith(('{"Concat"', '{"concat"')) else None
    return _join_concat(value, scope) if value is not None else text


def _join_concat(value: object, scope: Scope | None, depth: int = 0) -> str:
    if isinstance(value, str) or depth > MAX_NESTING:
        return str(value)
    if not isinstance(value, dict):
        return json.dumps(value, default=str)
    lowered = {str(key).lower(): part for key, part in value.items()}
    if isinstance(lowered.get("concat"), list):
        return "".join(_join_concat(part, scope, depth + 1) for part in lowered["concat"])
    choice = lowered.get("ifpresent")
    if isinstance(choice, dict):
        branch = "Then" if _is_present(str(choice.get("InputName")), scope) else "Else"
        return _join_concat(choice.get(branch, ""), scope, depth + 1)
    return json.dumps(value, default=str)


def _is_present(name: str, scope: Scope | None) -> bool:
    value = scope.lookup(name, 0) if scope is not None else Node(None)
    return not value.dangling and (not value.known or value.value is not None)


def _parse_json(text: str) -> Any:
    """Returns the text as JSON, with its bare placeholders quoted; None if it is not JSON."""
    spend("characters", len(text))
    pieces, position, is_inside = [], 0, False
    for match in _PLACEHOLDER.finditer(text):
        before = text[position : match.start()]
        is_inside ^= len(re.findall(r'(?<!\\)(?:\\\\)*"', before)) % 2 == 1
        pieces += [before, match.group() if is_inside else json.dumps(match.group())]
        position = match.end()
    try:
        return json.loads("".join([*pieces, text[position:]]), strict=False)
    except (ValueError, RecursionError):
        return None
