"""The sizes of a step in a compiled spec: named in the plan of its ladder, chosen by an input of its launcher."""

from collections.abc import Iterator, Mapping
from typing import Any

from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.check.spec import ladder
from vgp.check.spec.dag import Component, Task
from vgp.check.spec.pipeline_spec import PipelineSpec

#: The input of the launcher.
INPUT = "size"
OPTION = "--size"


def of(container: Mapping[str, Any]) -> tuple[str, ...]:
    """The sizes that a launcher chooses from; none for any other container."""
    told = ladder.plan(container) if OPTION in (container.get("args") or ()) else None
    rungs = told.get("rungs") if told else None
    listed = [rung for rung in rungs if isinstance(rung, dict)] if isinstance(rungs, list) else []
    return tuple(dict.fromkeys(str(rung["size"]) for rung in listed if rung.get("size")))


def choices(spec: PipelineSpec) -> dict[str, tuple[str, ...]]:
    """Parameters of the pipeline that choose a size -> the sizes."""
    found: dict[str, tuple[str, ...]] = {}
    if any(OPTION in (container.get("args") or ()) for container in spec.containers.values()):
        for task, parameter in _chosen(spec.root, {name: name for name in spec.parameters}):
            found[parameter] = of(spec.executor(task).get("container", {}))
    return {name: sizes for name, sizes in found.items() if sizes}


def refuse(spec: PipelineSpec, arguments: Mapping[str, Any]) -> None:
    """Raises RequestError: an argument names a size that there is not."""
    for name, sizes in choices(spec).items():
        value = arguments.get(name, spec.defaults.get(name))
        if value not in sizes:
            hint = did_you_mean(str(value), sizes)
            raise RequestError(f"{name} = {value!r}: there is no such size. {hint}")


def worlds(spec: PipelineSpec, arguments: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The GPUs of every job that a step may have in a run with these arguments, by the names of components.

    All machines together; of a step with sizes those of the rungs of the size that the run takes.
    """
    taken: dict[str, set[Any]] = {}
    for task, parameter in _chosen(spec.root, {name: name for name in spec.parameters}):
        value = arguments.get(parameter, spec.defaults.get(parameter))
        taken.setdefault(task.component.name.removeprefix("comp-"), set()).add(value)
    return {
        step: tuple(gpus for size in by_size if not size or size in taken.get(step, ()) for gpus in by_size[size])
        for step, by_size in ladder.worlds(spec).items()
    }


def _chosen(group: Component, parameters: Mapping[str, str]) -> Iterator[tuple[Task, str]]:
    """Every step with the parameter of the pipeline that reaches its input `size`."""
    for task in group.tasks.values():
        given = task.content.get("inputs", {}).get("parameters", {})
        sources = {name: str(value.get("componentInputParameter", "")) for name, value in given.items()}
        taken = {name: parameters[source] for name, source in sources.items() if source in parameters}
        if task.component.is_group:
            yield from _chosen(task.component, taken)
        elif INPUT in taken:
            yield task, taken[INPUT]
