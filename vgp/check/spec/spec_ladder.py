"""A ladder in a compiled spec: the plan in the arguments of the container that climbs it, and the sizes in the plan.

python3 -m vgp.launch.capacity --plan JSON --executor_input {{$}}
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.check.spec.dag import Component, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec

#: The program of the container.
PROGRAM = "vgp.launch.capacity"
_PLAN = "--plan"


def position(container: Mapping[str, Any]) -> int | None:
    """Where among the container's arguments the plan stands; None if it climbs no ladder."""
    command, arguments = _words(container.get("command")), _words(container.get("args"))
    if PROGRAM not in command or _PLAN not in arguments[:-1]:
        return None
    return arguments.index(_PLAN) + 1


def plan(container: Mapping[str, Any]) -> dict[str, Any] | None:
    """The plan with its shared texts where they belong; None if there is none that can be read."""
    at = position(container)
    try:
        value = json.loads(_words(container.get("args"))[at]) if at is not None else None
    except (ValueError, RecursionError):
        return None
    return restored(value) if isinstance(value, dict) else None


def restored(value: dict[str, Any]) -> dict[str, Any]:
    """A plan with each mark of a shared text replaced by the text (vgp/protocol/capacity/plan.py writes them)."""
    texts = value.get("texts")
    marks = {f"@text {number}@": text for number, text in enumerate(texts)} if isinstance(texts, list) else {}
    return {name: _replaced(part, marks) for name, part in value.items() if name != "texts"}


def first_container(container: Mapping[str, Any]) -> dict[str, Any] | None:
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


def _gpus(pools: Any) -> int:
    """GPUs of the chief and the workers, on each of which a process trains; one where there are none."""
    total = 0
    for pool in filter(None, pools[:2] if isinstance(pools, list) else ()):
        machine = table(pool, "machineSpec") or table(pool, "machine_spec")
        count = machine.get("acceleratorCount") or machine.get("accelerator_count") or 1
        total += int(count) * int(pool.get("replicaCount") or pool.get("replica_count") or 1)
    return max(1, total)


def _replaced(value: Any, marks: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return marks.get(value, value)
    if isinstance(value, dict):
        return {key: _replaced(inner, marks) for key, inner in value.items()}
    return [_replaced(inner, marks) for inner in value] if isinstance(value, list) else value


def _words(value: Any) -> Sequence[str]:
    return [word if isinstance(word, str) else "" for word in value] if isinstance(value, list) else []


#: The input of the launcher.
SIZE_INPUT = "size"
SIZE_OPTION = "--size"


def sizes_of(container: Mapping[str, Any]) -> tuple[str, ...]:
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


def refuse_sizes(spec: PipelineSpec, arguments: Mapping[str, Any]) -> None:
    """Raises RequestError: an argument names a size that there is not."""
    for name, sizes in size_choices(spec).items():
        value = arguments.get(name, spec.defaults.get(name))
        if value not in sizes:
            hint = did_you_mean(str(value), sizes)
            raise RequestError(f"{name} = {value!r}: there is no such size. {hint}")


def worlds_of_sizes(spec: PipelineSpec, arguments: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
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
