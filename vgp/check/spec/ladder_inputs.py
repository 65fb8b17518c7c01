"""Whether each launcher of a run is given something that no other of the same step is.

What a launcher and its jobs tell each other, and the checkpoints, lie in a folder that is named by the step and what it
was given: so a try of the same step finds them again. Two turns of a loop that are given the same would take each
other's job away. Vertex AI tells a container nothing that is another in each turn, and the same in each try.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vgp.base.errors import RequestError
from vgp.base.text.figures import listed
from vgp.check.spec import spec_ladder
from vgp.check.spec.dag import Component, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec

_EMBEDDED = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")
_MEMBER = re.compile(r'parseJson\(string_value\)\["(.+)"\]')


@dataclass(frozen=True)
class _Source:
    """Where a value comes from: a text that is the same for the same value, and the loops whose turn it depends on."""

    key: str
    #: (way to the loop, member of the item that is taken; empty: all of it).
    turns: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class _Around:
    """The groups around a task: what they were given, their conditions, and the loops with their items, if known."""

    way: str = ""
    given: Mapping[str, _Source] = field(default_factory=dict)
    branches: tuple[str, ...] = ()
    loops: Mapping[str, list[Any] | None] = field(default_factory=dict)


def refuse(spec: PipelineSpec, arguments: Mapping[str, Any] | None = None) -> None:
    """Looks at every step with a ladder.

    Args:
        arguments: Of a run; without them only loops over values that the workflow itself has are looked at.

    Raises:
        RequestError: two launchers of one run would be given the same.
    """
    if not any(spec_ladder.position(container) is not None for container in spec.containers.values()):
        return
    values = {} if arguments is None else {**spec.defaults, **arguments}
    around = _Around(given={name: _Source(f"parameter {name}") for name in spec.parameters})
    seen: dict[tuple[str, ...], str] = {}
    for task, place, given in _climbing(spec, spec.root, around, values, 0):
        for loop, items in place.loops.items():
            _refuse_turns(task, loop, items, given)
        told = spec_ladder.plan(table(spec.executor(task), "container")) or {}
        key = (
            str(told.get("step")),
            *place.branches,
            *sorted(f"{name}={source.key}" for name, source in given.items()),
        )
        other = seen.setdefault(key, f"{place.way}{task.name}")
        if other != f"{place.way}{task.name}":
            raise RequestError(
                f"{other} and {task.name} climb the same ladder with the same inputs: they would take each other's job "
                "away. Drop one of them, or give them different inputs, such as seed."
            )


def _refuse_turns(task: Task, loop: str, items: list[Any] | None, given: Mapping[str, _Source]) -> None:
    members = {member for source in given.values() for way, member in source.turns if way == loop}
    fix = f"would take each other's job away. Give each turn of {loop} an input of {task.name} that no other has."
    if not members:
        raise RequestError(f"{task.name} has a ladder, and each turn of {loop} is given the same: they {fix}")
    taken = [json.dumps([_member(item, name) for name in sorted(members)], sort_keys=True) for item in items or ()]
    if twice := sorted({one for one in taken if taken.count(one) > 1}):
        shown = listed([json.dumps(json.loads(one)[0]) if len(members) == 1 else one for one in twice[:3]], "and")
        raise RequestError(f"{task.name} has a ladder, and turns of {loop} are given the same, {shown}: they {fix}")


def _member(item: Any, name: str) -> Any:
    return item.get(name) if name and isinstance(item, Mapping) else item


def _climbing(
    spec: PipelineSpec, group: Component, around: _Around, values: Mapping[str, Any], depth: int
) -> Iterator[tuple[Task, _Around, Mapping[str, _Source]]]:
    """Every task that climbs a ladder, with what is around it, and where its inputs come from."""
    made: dict[str, frozenset[tuple[str, str]]] = {}
    for task in group.tasks.values():
        given = _inputs(task, around, made)
        made[task.name] = frozenset(turn for source in given.values() for turn in source.turns)
        if task.component.is_group and depth < 50:
            yield from _climbing(spec, task.component, _inside(task, around, given, values), values, depth + 1)
        elif spec_ladder.position(table(spec.executor(task), "container")) is not None:
            yield task, around, given


def _inside(task: Task, around: _Around, given: Mapping[str, _Source], values: Mapping[str, Any]) -> _Around:
    way = f"{around.way}{task.way}"
    branches = (*around.branches, f"{way}{task.condition}") if task.condition else around.branches
    if not task.is_loop:
        return _Around(way, given, branches, around.loops)
    loop, name = task.loop, way.rstrip("/")
    item = loop.item if loop else str(table(task.content, "artifactIterator").get("itemInput", ""))
    turn = _Source(f"item of {name}", frozenset({(name, "")}))
    return _Around(way, {**given, item: turn}, branches, {**around.loops, name: _items(task, given, values)})


def _items(task: Task, given: Mapping[str, _Source], values: Mapping[str, Any]) -> list[Any] | None:
    """What the loop goes over, where that is known."""
    loop = task.loop
    if loop is None:
        return None
    parameter = given[loop.input].key.removeprefix("parameter ") if loop.input in given else ""
    try:
        return loop.items({loop.input: values[parameter]} if parameter in values else {})
    except (TypeError, ValueError):
        return None


def _inputs(task: Task, around: _Around, made: Mapping[str, frozenset[tuple[str, str]]]) -> dict[str, _Source]:
    found: dict[str, _Source] = {}
    constants: dict[str, Mapping[str, Any]] = {}
    for kind in ("parameters", "artifacts"):
        for name, source in table(task.content, "inputs", kind).items():
            output = table(source, "taskOutputParameter") or table(source, "taskOutputArtifact")
            passed = source.get("componentInputParameter") or source.get("componentInputArtifact")
            if output:
                producer = str(output.get("producerTask", ""))
                key = output.get("outputParameterKey") or output.get("outputArtifactKey")
                found[name] = _Source(f"{around.way}{producer}: {key}", made.get(producer, frozenset()))
            elif passed:
                selected = _MEMBER.fullmatch(source.get("parameterExpressionSelector", ""))
                found[name] = _selected(around.given.get(passed, _Source(passed)), selected[1] if selected else "")
            else:
                constants[name] = source
    return found | {name: _constant(source, found) for name, source in constants.items()}


def _selected(source: _Source, member: str) -> _Source:
    if not member:
        return source
    turns = frozenset((way, before or member) for way, before in source.turns)
    return _Source(f"{source.key}[{member}]", turns)


def _constant(source: Mapping[str, Any], given: Mapping[str, _Source]) -> _Source:
    """A value of the workflow's own; in a text other inputs of the task may stand."""
    value = table(source, "runtimeValue").get("constant", dict(source))
    names = _EMBEDDED.findall(value) if isinstance(value, str) else []
    inside = [given[name] for name in names if name in given]
    return _Source(json.dumps([value, *(each.key for each in inside)], sort_keys=True, default=str))
