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

#: Module that the container runs.
PROGRAM = "vgp.launch.capacity"
_PLAN = "--plan"


def position(container: JsonView) -> int | None:
    """Returns the position of the plan among the container's arguments; None without a ladder."""
    command, arguments = _list_words(container.get("command")), _list_words(container.get("args"))
    if PROGRAM not in command or _PLAN not in arguments[:-1]:
        return None
    return arguments.index(_PLAN) + 1


def plan(container: JsonView) -> JsonObject | None:
    """Returns the plan with its shared texts inserted; None if it is missing or unreadable."""
    at = position(container)
    try:
        value = json.loads(_list_words(container.get("args"))[at]) if at is not None else None
    except (ValueError, RecursionError):
        return None
    return restore_plan(value) if isinstance(value, dict) else None


def restore_plan(value: JsonObject) -> JsonObject:
    """Returns a plan with each mark replaced by its shared text (vgp/protocol/capacity/plan.py writes the marks)."""
    texts = value.get("texts")
    marks = {f"@text {number}@": text for number, text in enumerate(texts)} if isinstance(texts, list) else {}
    return {
        name: with_texts(part, lambda text: marks.get(text, text)) for name, part in value.items() if name != "texts"
    }


def first_container(container: JsonView) -> JsonObject | None:
    """Returns the training container of the first rung; other rungs differ in image and env only. None if there is
    none."""
    ladder_plan = plan(container)
    try:
        containers = (
            ladder_plan["rungs"][0]["job"]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"] if ladder_plan else None
        )
    except (KeyError, IndexError, TypeError):
        return None
    return containers if isinstance(containers, dict) else None


def worlds(spec: PipelineSpec) -> dict[str, dict[str, tuple[int, ...]]]:
    """Returns the GPUs of every possible custom job, all machines together: component -> size -> one per rung.

    A step without sizes has one named "", and a step without a ladder has one rung.
    """
    worlds_by_step: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, component in spec.components.items():
        for size, pools in _list_jobs(spec, component):
            of_step = worlds_by_step.setdefault(name.removeprefix("comp-"), {})
            of_step[size] = (*of_step.get(size, ()), _count_gpus(pools))
    return worlds_by_step


def _list_jobs(spec: PipelineSpec, component: Component) -> Iterator[tuple[str, Any]]:
    """Yields size and pools of every job of the step, for Google's launcher and for this library's."""
    ladder_plan = plan(table(spec.executor(component), "container"))
    for rung in ladder_plan.get("rungs", ()) if ladder_plan else ():
        yield str(table(rung).get("size") or ""), table(rung, "job", "jobSpec").get("workerPoolSpecs")
    pools = table(component.content, "inputDefinitions", "parameters", "worker_pool_specs")
    if "defaultValue" in pools:
        yield "", pools["defaultValue"]


def _count_gpus(pools: object) -> int:
    """Returns the GPUs of the chief and the workers, one training process on each; 1 without GPUs."""
    total = 0
    for pool in filter(None, pools[:2] if isinstance(pools, list) else ()):
        machine = table(pool, "machineSpec") or table(pool, "machine_spec")
        count = machine.get("acceleratorCount") or machine.get("accelerator_count") or 1
        total += int(count) * int(pool.get("replicaCount") or pool.get("replica_count") or 1)
    return max(1, total)


def _list_words(value: object) -> Sequence[str]:
    return [word if isinstance(word, str) else "" for word in value] if isinstance(value, list) else []


#: Name of the launcher's input.
SIZE_INPUT = "size"
SIZE_OPTION = "--size"


def sizes_of(container: JsonView) -> tuple[str, ...]:
    """Returns the sizes that a launcher chooses from; empty for any other container."""
    ladder_plan = plan(container) if SIZE_OPTION in (container.get("args") or ()) else None
    rungs = ladder_plan.get("rungs") if ladder_plan else None
    listed = [rung for rung in rungs if isinstance(rung, dict)] if isinstance(rungs, list) else []
    return tuple(dict.fromkeys(str(rung["size"]) for rung in listed if rung.get("size")))


def size_choices(spec: PipelineSpec) -> dict[str, tuple[str, ...]]:
    """Returns the sizes by the pipeline parameter that chooses one."""
    choices: dict[str, tuple[str, ...]] = {}
    if any(SIZE_OPTION in (container.get("args") or ()) for container in spec.containers.values()):
        for task, parameter in _list_size_choices(spec.root, {name: name for name in spec.parameters}):
            choices[parameter] = sizes_of(spec.executor(task).get("container", {}))
    return {name: sizes for name, sizes in choices.items() if sizes}


def refuse_sizes(spec: PipelineSpec, arguments: Mapping[str, object]) -> None:
    """Raises RequestError if an argument names an unknown size."""
    for name, sizes in size_choices(spec).items():
        value = arguments.get(name, spec.defaults.get(name))
        if value not in sizes:
            hint = did_you_mean(str(value), sizes)
            raise RequestError(f"{name} = {value!r}: there is no such size. {hint}")


def worlds_of_sizes(spec: PipelineSpec, arguments: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """Returns the number of GPUs of every possible job of a run with these arguments, by component.

    All machines together; for a step with sizes, the rungs of the run's size.
    """
    values: dict[str, set[Any]] = {}
    for task, parameter in _list_size_choices(spec.root, {name: name for name in spec.parameters}):
        value = arguments.get(parameter, spec.defaults.get(parameter))
        values.setdefault(task.component.name.removeprefix("comp-"), set()).add(value)
    return {
        step: tuple(gpus for size in by_size if not size or size in values.get(step, ()) for gpus in by_size[size])
        for step, by_size in worlds(spec).items()
    }


def _list_size_choices(group: Component, parameters: Mapping[str, str]) -> Iterator[tuple[Task, str]]:
    """Yields every step with the pipeline parameter of its input `size`."""
    for task in group.tasks.values():
        inputs = task.content.get("inputs", {}).get("parameters", {})
        sources = {name: str(value.get("componentInputParameter", "")) for name, value in inputs.items()}
        choices = {name: parameters[source] for name, source in sources.items() if source in parameters}
        if task.component.is_group:
            yield from _list_size_choices(task.component, choices)
        elif SIZE_INPUT in choices:
            yield task, choices[SIZE_INPUT]


_EMBEDDED = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")
_MEMBER = re.compile(r'parseJson\(string_value\)\["(.+)"\]')


@dataclass(frozen=True)
class _Source:
    """The origin of a value: a text that is equal for equal values, and the loops whose iteration it depends on."""

    key: str
    #: (path to the loop, member of the item; empty: the whole item).
    turns: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class _Around:
    """The groups around a task: their inputs, their conditions, and the loops with their items, if known."""

    prefix: str = ""
    inputs: Mapping[str, _Source] = field(default_factory=dict)
    branches: tuple[str, ...] = ()
    loops: Mapping[str, list[Any] | None] = field(default_factory=dict)


def refuse_same_inputs(spec: PipelineSpec, arguments: Mapping[str, object] | None = None) -> None:
    """Raises RequestError if two launchers of a run would get equal inputs, because they would share a job folder.

    Args:
        arguments: Arguments of a run; without them only loops over constant values are checked.

    Raises:
        RequestError: two launchers of one run would be given the same.
    """
    if not any(position(container) is not None for container in spec.containers.values()):
        return
    values = {} if arguments is None else {**spec.defaults, **arguments}
    around = _Around(inputs={name: _Source(f"parameter {name}") for name in spec.parameters})
    seen: dict[tuple[str, ...], str] = {}
    for task, place, inputs in _walk_ladders(spec, spec.root, around, values, 0):
        for loop, items in place.loops.items():
            _refuse_turns(task, loop, items, inputs)
        ladder_plan = plan(table(spec.executor(task), "container")) or {}
        key = (
            str(ladder_plan.get("step")),
            *place.branches,
            *sorted(f"{name}={source.key}" for name, source in inputs.items()),
        )
        other = seen.setdefault(key, f"{place.prefix}{task.name}")
        if other != f"{place.prefix}{task.name}":
            raise RequestError(
                f"{other} and {task.name} have the same ladder and equal inputs, so they would take each other's job "
                "away. Remove one of them, or give them different inputs, such as seed."
            )


def _refuse_turns(task: Task, loop: str, items: list[Any] | None, inputs: Mapping[str, _Source]) -> None:
    members = {member for source in inputs.values() for path, member in source.turns if path == loop}
    fix = f"would take each other's job away. Give each iteration of {loop} a unique input of {task.name}."
    if not members:
        raise RequestError(f"{task.name} has a ladder, and each iteration of {loop} has equal inputs: they {fix}")
    items_taken = [
        json.dumps([_get_member(item, name) for name in sorted(members)], sort_keys=True) for item in items or ()
    ]
    if twice := sorted({one for one in items_taken if items_taken.count(one) > 1}):
        examples = join_words(
            [json.dumps(json.loads(one)[0]) if len(members) == 1 else one for one in twice[:3]], "and"
        )
        raise RequestError(
            f"{task.name} has a ladder, and iterations of {loop} have equal inputs, {examples}: they {fix}"
        )


def _get_member(item: object, name: str) -> Any:
    return item.get(name) if name and isinstance(item, Mapping) else item


def _walk_ladders(
    spec: PipelineSpec, group: Component, around: _Around, values: Mapping[str, object], depth: int
) -> Iterator[tuple[Task, _Around, Mapping[str, _Source]]]:
    """Yields every task with a ladder, with the groups around it and the origins of its inputs."""
    turns_by_task: dict[str, frozenset[tuple[str, str]]] = {}
    for task in group.tasks.values():
        inputs = _trace_inputs(task, around, turns_by_task)
        turns_by_task[task.name] = frozenset(turn for source in inputs.values() for turn in source.turns)
        if task.component.is_group and depth < 50:
            yield from _walk_ladders(
                spec, task.component, _enter_group(task, around, inputs, values), values, depth + 1
            )
        elif position(table(spec.executor(task), "container")) is not None:
            yield task, around, inputs


def _enter_group(task: Task, around: _Around, inputs: Mapping[str, _Source], values: Mapping[str, object]) -> _Around:
    prefix = f"{around.prefix}{task.path_prefix}"
    branches = (*around.branches, f"{prefix}{task.condition}") if task.condition else around.branches
    if not task.is_loop:
        return _Around(prefix, inputs, branches, around.loops)
    loop, name = task.loop, prefix.rstrip("/")
    item = loop.item if loop else str(table(task.content, "artifactIterator").get("itemInput", ""))
    turn = _Source(f"item of {name}", frozenset({(name, "")}))
    return _Around(
        prefix, {**inputs, item: turn}, branches, {**around.loops, name: _find_loop_items(task, inputs, values)}
    )


def _find_loop_items(task: Task, inputs: Mapping[str, _Source], values: Mapping[str, object]) -> list[Any] | None:
    """Returns the items of the loop, if they are known."""
    loop = task.loop
    if loop is None:
        return None
    parameter = inputs[loop.input].key.removeprefix("parameter ") if loop.input in inputs else ""
    try:
        return loop.items({loop.input: values[parameter]} if parameter in values else {})
    except (TypeError, ValueError):
        return None


def _trace_inputs(
    task: Task, around: _Around, turns_by_task: Mapping[str, frozenset[tuple[str, str]]]
) -> dict[str, _Source]:
    sources: dict[str, _Source] = {}
    constants: dict[str, Mapping[str, object]] = {}
    for kind in ("parameters", "artifacts"):
        for name, source in table(task.content, "inputs", kind).items():
            output = table(source, "taskOutputParameter") or table(source, "taskOutputArtifact")
            passed = source.get("componentInputParameter") or source.get("componentInputArtifact")
            if output:
                producer = str(output.get("producerTask", ""))
                key = output.get("outputParameterKey") or output.get("outputArtifactKey")
                sources[name] = _Source(f"{around.prefix}{producer}: {key}", turns_by_task.get(producer, frozenset()))
            elif passed:
                selected = _MEMBER.fullmatch(source.get("parameterExpressionSelector", ""))
                sources[name] = _select_member(
                    around.inputs.get(passed, _Source(passed)), selected[1] if selected else ""
                )
            else:
                constants[name] = source
    return sources | {name: _trace_constant(source, sources) for name, source in constants.items()}


def _select_member(source: _Source, member: str) -> _Source:
    if not member:
        return source
    turns = frozenset((path, before or member) for path, before in source.turns)
    return _Source(f"{source.key}[{member}]", turns)


def _trace_constant(source: Mapping[str, object], inputs: Mapping[str, _Source]) -> _Source:
    """Returns the origin of a constant value; a text may contain other inputs of the task."""
    value = table(source, "runtimeValue").get("constant", dict(source))
    names = _EMBEDDED.findall(value) if isinstance(value, str) else []
    inside = [inputs[name] for name in names if name in inputs]
    return _Source(json.dumps([value, *(each.key for each in inside)], sort_keys=True, default=str))
