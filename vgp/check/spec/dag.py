"""The tasks of a compiled pipeline, the components that they run, and their trigger conditions.

kfp writes conditions in a subset of CEL (https://github.com/google/cel-spec): comparisons, `&&`, `||`,
`!(...)` and casts:

    inputs.parameter_values['pipelinechannel--decide-Output'] == 'promote' && int(...) > 2

They are parsed, never `eval`ed.
"""

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vgp.base.documents.json_text import JsonObject, JsonView

#: The name that kfp gives to the group of tasks in `with dsl.ExitHandler(...)`.
_EXIT_HANDLER = re.compile(r"exit-handler-\d+")


def table(value: object, *keys: str) -> JsonView:
    """Returns the object at `keys`; an empty one if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True)
class Output:
    """An output parameter of a task."""

    task: str
    key: str


@dataclass(frozen=True)
class Loop:
    """A ParallelFor over values of the spec, or of an input of the task."""

    item: str
    raw: str | None = None
    input: str = ""
    #: Maximum number of parallel iterations; 0: no limit.
    limit: int = 0

    def items(self, inputs: JsonView) -> list[Any]:
        values = self.raw if self.raw is not None else inputs.get(self.input, [])
        return list(json.loads(values) if isinstance(values, str) else values)


@dataclass(frozen=True, eq=False)
class Task:
    """A node of a DAG: a step, or a group of tasks (a condition, a loop, an exit handler, a nested pipeline)."""

    name: str
    content: JsonView
    component: "Component"

    @property
    def condition(self) -> str:
        return str(table(self.content, "triggerPolicy").get("condition") or "")

    @property
    def dependencies(self) -> tuple[str, ...]:
        """Returns the tasks of its DAG that it waits for."""
        names = self.content.get("dependentTasks")
        return tuple(map(str, names)) if isinstance(names, list) else ()

    @property
    def is_loop(self) -> bool:
        return bool({"parameterIterator", "artifactIterator"} & set(self.content))

    @property
    def loop(self) -> Loop | None:
        iterator = table(self.content, "parameterIterator")
        if not iterator:
            return None
        items, limit = table(iterator, "items"), table(self.content, "iteratorPolicy").get("parallelismLimit", 0)
        return Loop(iterator.get("itemInput", ""), items.get("raw"), items.get("inputParameter", ""), int(limit))

    @property
    def path_prefix(self) -> str:
        """Returns its part of the path to the tasks inside: `for-loop-1/`; empty for an exit handler or a branch.

        kfp gives the tasks of a pipeline unique names, in any branch.
        """
        return "" if self.is_exit_handler or (self.condition and not self.is_loop) else f"{self.name}/"

    @property
    def is_exit_handler(self) -> bool:
        """Whether it is the group of tasks in `with dsl.ExitHandler(...)`."""
        return bool(_EXIT_HANDLER.fullmatch(self.name)) and not self.condition and not self.is_loop

    @property
    def is_cached(self) -> bool:
        """Whether it may use the result of an earlier run."""
        return bool(table(self.content, "cachingOptions").get("enableCache"))

    @property
    def producers(self) -> set[str]:
        """Returns the tasks of its DAG whose outputs it uses."""
        inputs = [
            *table(self.content, "inputs", "parameters").values(),
            *table(self.content, "inputs", "artifacts").values(),
        ]
        outputs = [table(source, "taskOutputParameter") or table(source, "taskOutputArtifact") for source in inputs]
        return {str(output["producerTask"]) for output in outputs if "producerTask" in output}

    def inputs(self, values: JsonView, outputs: Mapping[Output, Any]) -> JsonObject:
        """Returns its known parameters, from those of the group around it and from outputs of other tasks."""
        known: JsonObject = {}
        for name, source in table(self.content, "inputs", "parameters").items():
            parameter, output = source.get("componentInputParameter"), table(source, "taskOutputParameter")
            key = Output(output.get("producerTask", ""), output.get("outputParameterKey", ""))
            if parameter in values:
                known[name] = values[parameter]
            elif "runtimeValue" in source:
                known[name] = source["runtimeValue"].get("constant")
            elif key in outputs:
                known[name] = outputs[key]
        return known


@dataclass(frozen=True, eq=False)
class Component:
    """The component of a task: an executor, or the DAG of a group."""

    name: str
    content: JsonView
    components: JsonView = field(repr=False)

    @property
    def is_group(self) -> bool:
        return "dag" in self.content

    @property
    def executor(self) -> str:
        return str(self.content.get("executorLabel", ""))

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """Returns the tasks of the group by name: producers first, independent ones by name."""
        tasks = {name: self._task(name, content) for name, content in table(self.content, "dag", "tasks").items()}
        done: dict[str, Task] = {}
        while tasks:
            ready = (name for name in sorted(tasks) if not set(tasks[name].dependencies) & tasks.keys())
            name = next(ready, min(tasks))  # a cycle, which cannot run; the loop must end anyway
            done[name] = tasks.pop(name)
        return done

    def _task(self, name: str, content: object) -> Task:
        reference = str(table(content, "componentRef").get("name", ""))
        return Task(name, table(content), Component(reference, table(self.components, reference), self.components))

    def outputs(self) -> Iterator[tuple[str, list[Output]]]:
        """Yields each output of the group with the tasks in it that may produce it."""
        for name, source in table(self.content, "dag", "outputs", "parameters").items():
            selectors = table(source, "valueFromOneof").get("parameterSelectors", [table(source, "valueFromParameter")])
            yield name, [Output(at.get("producerSubtask", ""), at.get("outputParameterKey", "")) for at in selectors]


_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CASTS: dict[str, Callable[[Any], Any]] = {"int": int, "double": float, "string": str, "bool": bool}
_CONSTANTS = {"true": True, "false": False, "null": None}
# Quoted text first, so that operators inside it are not parsed.
_TOKENS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|&&|\|\||!(?!=)")
_PYTHON = {"&&": " and ", "||": " or ", "!": " not "}


def evaluate_condition(condition: str, values: Mapping[str, object]) -> bool:
    """Whether `condition` is true for the task's input parameters.

    Raises:
        ValueError: the condition uses something outside the subset, or a parameter that has no value.
    """
    source = _TOKENS.sub(lambda token: _PYTHON.get(token[0], token[0]), condition).strip()
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError):
        raise ValueError(f"cannot read the condition {condition!r}") from None
    return bool(_evaluate(tree.body, values, condition))


def names(condition: str) -> list[str]:
    """Returns the task's input parameters in `condition`."""
    return re.findall(r"inputs\.parameter_values\['([^']+)'\]", condition)


def _evaluate(node: ast.expr, values: Mapping[str, object], condition: str) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Subscript(value=ast.Attribute(attr="parameter_values"), slice=ast.Constant(value=str(key))):
            if key not in values:
                raise ValueError(f"the condition {condition!r} needs {key}, which has no value")
            return values[key]
        case ast.Call(func=ast.Name(id=cast), args=[argument]) if cast in _CASTS:
            return _CASTS[cast](_evaluate(argument, values, condition))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _evaluate(operand, values, condition)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, values, condition)
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_evaluate(part, values, condition) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(_evaluate(part, values, condition) for part in parts)
        case ast.Compare(left=left, ops=[comparison], comparators=[right]):
            return _compare(comparison, _evaluate(left, values, condition), _evaluate(right, values, condition))
    raise ValueError(f"cannot read the condition {condition!r}")


def _compare(comparison: ast.cmpop, left: Any, right: Any) -> bool:
    if isinstance(comparison, ast.Eq | ast.NotEq):
        return _is_equal(left, right) == isinstance(comparison, ast.Eq)
    if type(comparison) not in _COMPARISONS:
        raise ValueError(f"unknown comparison {type(comparison).__name__}")
    if isinstance(left, str) != isinstance(right, str):
        left, right = float(left), float(right)
    return _COMPARISONS[type(comparison)](left, right)


def _is_equal(left: Any, right: Any) -> bool:
    """Whether two values are equal to the author: kfp quotes values of unknown type, so `2` and `'2'` are equal."""
    if isinstance(left, str) == isinstance(right, str):
        return bool(left == right)
    text, number = (left, right) if isinstance(left, str) else (right, left)
    if isinstance(number, bool):
        return str(text).lower() == str(number).lower()
    try:
        return bool(float(text) == number)
    except (TypeError, ValueError):
        return False
