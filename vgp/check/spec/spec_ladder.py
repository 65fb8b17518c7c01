"""The plan of a step with a ladder: its rungs, sizes and training container; and the inputs of each launcher of a run.

A launcher, its jobs and the checkpoints share a folder that is named by the step and its inputs: so a retry of the step
finds them again. Two turns of a loop with the same inputs would take each other's job away. Vertex AI gives a container
nothing that differs in each turn and is the same in each retry.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgp.base.documents.json_text import JsonObject, JsonView, with_texts
from vgp.base.errors import RequestError
from vgp.base.text.figures import join_words
from vgp.base.text.nearest import did_you_mean
from vgp.check.spec.dag import Component, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec

#: The program of the container.
PROGRAM = "vgp.launch.capacity"
_PLAN = "--plan"


def position(container: JsonView) -> int | None:
    """Where among the container's arguments the plan stands; None if it climbs no ladder."""
    command, arguments = _words(container.get("command")), _words(container.get("args"))
    if PROGRAM not in command or _PLAN not in arguments[:-1]:
        return None
    return arguments.index(_PLAN) + 1


def plan(container: JsonView) -> JsonObject | None:
    """The plan with its shared texts where they belong; None if there is none that can be read."""
    at = position(container)
    try:
        value = json.loads(_words(container.get("args"))[at]) if at is not None else None
    except (ValueError, RecursionError):
        return None
    return restored(value) if isinstance(value, dict) else None


def restored(value: JsonObject) -> JsonObject:
    """A plan with each mark of a shared text replaced by the text (vgp/protocol/capacity/plan.py writes them)."""
    texts = value.get("texts")
    marks = {f"@text {number}@": text for number, text in enumerate(texts)} if isinstance(texts, list) else {}
    return {
        name: with_texts(part, lambda text: marks.get(text, text)) for name, part in value.items() if name != "texts"
    }


def first_container(container: JsonView) -> JsonObject | None:
    """The training container of the first rung, as each rung has it but for image and env; None if there is none."""
    told = plan(container)
    try:
        found = told["rungs"][0]["job"]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"] if told else None
    except (KeyError, IndexError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def worlds(spec: PipelineSpec) -> dict[str, dict[str, tuple[int, ...]]]:
    """The GPUs of every custom job that a step may have, all machines together: component -> size -> of each rung.

    A step without sizes has one that is called "", and a step without a ladder one rung.
    """
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, component in spec.components.items():
        for size, pools in _jobs(spec, component):
            of_step = found.setdefault(name.removeprefix("comp-"), {})
            of_step[size] = (*of_step.get(size, ()), _gpus(pools))
    return found


def _jobs(spec: PipelineSpec, component: Component) -> Iterator[tuple[str, Any]]:
    """Size and pools of every job of the step, as Google's launcher and ours are given them."""
    told = plan(table(spec.executor(component), "container"))
    for rung in told.get("rungs", ()) if told else ():
        yield str(table(rung).get("size") or ""), table(rung, "job", "jobSpec").get("workerPoolSpecs")
    given = table(component.content, "inputDefinitions", "parameters", "worker_pool_specs")
    if "defaultValue" in given:
        yield "", given["defaultValue"]


def _gpus(pools: object) -> int:
    """GPUs of the chief and the workers, on each of which a process trains; one where there are none."""
    total = 0
    for pool in filter(None, pools[:2] if isinstance(pools, list) else ()):
        machine = table(pool, "machineSpec") or table(pool, "machine_spec")
        count = machine.get("acceleratorCount") or machine.get("accelerator_count") or 1
        total += int(count) * int(pool.get("replicaCount") or pool.get("replica_count") or 1)
    return max(1, total)


def _words(value: object) -> Sequence[str]:
    return [word if isinstance(word, str) else "" for word in value] if isinstance(value, list) else []


#: The input of the launcher.
SIZE_INPUT = "size"
SIZE_OPTION = "--size"


def sizes_of(container: JsonView) -> tuple[str, ...]:
    """The sizes that a launcher chooses from; none for any other container."""
    told = plan(container) if SIZE_OPTION in (container.get("args") or ()) else None
    rungs = told.get("rungs") if told else None
    listed = [rung for rung in rungs if isinstance(rung, dict)] if isinstance(rungs, list) else []
    return tuple(dict.fromkeys(str(rung["size"]) for rung in listed if rung.get("size")))


def size_choices(spec: PipelineSpec) -> dict[str, tuple[str, ...]]:
    """Parameters of the pipeline that choose a size -> the sizes."""
    found: dict[str, tuple[str, ...]] = {}
    if any(SIZE_OPTION in (container.get("args") or ()) for container in spec.containers.values()):
        for task, parameter in _chosen(spec.root, {name: name for name in spec.parameters}):
            found[parameter] = sizes_of(spec.executor(task).get("container", {}))
    return {name: sizes for name, sizes in found.items() if sizes}


def refuse_sizes(spec: PipelineSpec, arguments: Mapping[str, object]) -> None:
    """Raises RequestError: an argument names a size that there is not."""
    for name, sizes in size_choices(spec).items():
        value = arguments.get(name, spec.defaults.get(name))
        if value not in sizes:
            hint = did_you_mean(str(value), sizes)
            raise RequestError(f"{name} = {value!r}: there is no such size. {hint}")


def worlds_of_sizes(spec: PipelineSpec, arguments: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """The GPUs of every job that a step may have in a run with these arguments, by the names of components.

    All machines together; of a step with sizes those of the rungs of the size that the run takes.
    """
    taken: dict[str, set[Any]] = {}
    for task, parameter in _chosen(spec.root, {name: name for name in spec.parameters}):
        value = arguments.get(parameter, spec.defaults.get(parameter))
        taken.setdefault(task.component.name.removeprefix("comp-"), set()).add(value)
    return {
        step: tuple(gpus for size in by_size if not size or size in taken.get(step, ()) for gpus in by_size[size])
        for step, by_size in worlds(spec).items()
    }


def _chosen(group: Component, parameters: Mapping[str, str]) -> Iterator[tuple[Task, str]]:
    """Every step with the parameter of the pipeline that reaches its input `size`."""
    for task in group.tasks.values():
        given = task.content.get("inputs", {}).get("parameters", {})
        sources = {name: str(value.get("componentInputParameter", "")) for name, value in given.items()}
        taken = {name: parameters[source] for name, source in sources.items() if source in parameters}
        if task.component.is_group:
            yield from _chosen(task.component, taken)
        elif SIZE_INPUT in taken:
            yield task, taken[SIZE_INPUT]


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


def refuse_same_inputs(spec: PipelineSpec, arguments: Mapping[str, object] | None = None) -> None:
    """Looks at every step with a ladder.

    Args:
        arguments: Of a run; without them only loops over values that the workflow itself has are looked at.

    Raises:
        RequestError: two launchers of one run would be given the same.
    """
    if not any(position(container) is not None for container in spec.containers.values()):
        return
    values = {} if arguments is None else {**spec.defaults, **arguments}
    around = _Around(given={name: _Source(f"parameter {name}") for name in spec.parameters})
    seen: dict[tuple[str, ...], str] = {}
    for task, place, given in _climbing(spec, spec.root, around, values, 0):
        for loop, items in place.loops.items():
            _refuse_turns(task, loop, items, given)
        told = plan(table(spec.executor(task), "container")) or {}
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
        shown = join_words([json.dumps(json.loads(one)[0]) if len(members) == 1 else one for one in twice[:3]], "and")
        raise RequestError(f"{task.name} has a ladder, and turns of {loop} are given the same, {shown}: they {fix}")


def _member(item: object, name: str) -> Any:
    return item.get(name) if name and isinstance(item, Mapping) else item


def _climbing(
    spec: PipelineSpec, group: Component, around: _Around, values: Mapping[str, object], depth: int
) -> Iterator[tuple[Task, _Around, Mapping[str, _Source]]]:
    """Every task that climbs a ladder, with what is around it, and where its inputs come from."""
    made: dict[str, frozenset[tuple[str, str]]] = {}
    for task in group.tasks.values():
        given = _inputs(task, around, made)
        made[task.name] = frozenset(turn for source in given.values() for turn in source.turns)
        if task.component.is_group and depth < 50:
            yield from _climbing(spec, task.component, _inside(task, around, given, values), values, depth + 1)
        elif position(table(spec.executor(task), "container")) is not None:
            yield task, around, given


def _inside(task: Task, around: _Around, given: Mapping[str, _Source], values: Mapping[str, object]) -> _Around:
    way = f"{around.way}{task.way}"
    branches = (*around.branches, f"{way}{task.condition}") if task.condition else around.branches
    if not task.is_loop:
        return _Around(way, given, branches, around.loops)
    loop, name = task.loop, way.rstrip("/")
    item = loop.item if loop else str(table(task.content, "artifactIterator").get("itemInput", ""))
    turn = _Source(f"item of {name}", frozenset({(name, "")}))
    return _Around(way, {**given, item: turn}, branches, {**around.loops, name: _items(task, given, values)})


def _items(task: Task, given: Mapping[str, _Source], values: Mapping[str, object]) -> list[Any] | None:
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
    constants: dict[str, Mapping[str, object]] = {}
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


def _constant(source: Mapping[str, object], given: Mapping[str, _Source]) -> _Source:
    """A value of the workflow's own; in a text other inputs of the task may stand."""
    value = table(source, "runtimeValue").get("constant", dict(source))
    names = _EMBEDDED.findall(value) if isinstance(value, str) else []
    inside = [given[name] for name in names if name in given]
    return _Source(json.dumps([value, *(each.key for each in inside)], sort_keys=True, default=str))
