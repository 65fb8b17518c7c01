"""The difference between two compiled pipelines, as a person would tell it, and line by line."""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vgp.spec.caching import cached
from vgp.spec.dag import Component, Json, table
from vgp.spec.parameters import Parameter
from vgp.spec.pipeline_spec import PipelineSpec

_ADDED, _GONE = "added", "removed"
#: Differences whose values are told; of the others, only that there is one.
_TOLD = ("machine", "image", "type", "default", "name", "kfp", "cached steps")
#: Step -> its machine in words.
Machines = Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """One difference. `before` None: added, `after` None: taken away."""

    field: str
    before: Any
    after: Any


def differences(
    before: PipelineSpec, after: PipelineSpec, machines: tuple[Machines, Machines] = ({}, {})
) -> list[Difference]:
    """Steps that come or go; machine, image, code and inputs of the others; parameters with their defaults.

    Both as JSON objects. A difference that none of these words fits is named by where it is.
    """
    told = [*_parameters(before, after), *_steps(before, after, machines), *_elsewhere(before, after)]
    if not told and before != after:
        told = [Difference("definition", None, "changed")]
    return told


def unified(before: PipelineSpec, after: PipelineSpec) -> list[str]:
    """The unified diff of the two specs' text."""
    return list(
        difflib.unified_diff(before.text.splitlines(), after.text.splitlines(), "live", "declared", lineterm="")
    )


def _parameters(before: PipelineSpec, after: PipelineSpec) -> Iterator[Difference]:
    for name in sorted(before.parameters.keys() | after.parameters.keys()):
        old, new = (_parameter(spec.parameters.get(name)) for spec in (before, after))
        yield from _compared(f"parameter {name}", old, new)


def _parameter(declared: Parameter | None) -> dict[str, Any] | None:
    if declared is None:
        return None
    return {
        "type": declared.type,
        "default": json.dumps(declared.default) if declared.default is not None else None,
        "description": declared.description,
        "optional": declared.is_optional,
    }


def _steps(before: PipelineSpec, after: PipelineSpec, machines: tuple[Machines, Machines]) -> Iterator[Difference]:
    handlers = {component.name for spec in (before, after) for component in _handlers(spec)}  # told as the flow
    for name in sorted((before.components.keys() | after.components.keys()) - handlers):
        step = name.removeprefix("comp-")
        old, new = (
            {"machine": words.get(step), **_step(spec, spec.components[name])} if name in spec.components else None
            for spec, words in zip((before, after), machines, strict=True)
        )
        yield from _compared(step, old, new)


def _compared(name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[Difference]:
    if old is None or new is None:
        yield Difference(name, None if old is None else "present", _ADDED if old is None else _GONE)
        return
    for key in old:
        if old[key] != new[key]:
            yield _difference(f"{name}: {key}", key, old[key], new[key])


def _difference(field: str, key: str, old: Any, new: Any) -> Difference:
    return Difference(field, old, new) if key in _TOLD else Difference(field, None, "changed")


def _step(spec: PipelineSpec, component: Component) -> dict[str, Any]:
    """What a component is: which image, which program, which inputs and outputs, and whatever else it says."""
    executor = dict(spec.executor(component))
    container = dict(table(executor.pop("container", None)))
    pools = _pools(component)
    container.pop("resources", None)  # told as the machine
    return {
        "image": _image(pools) or container.pop("image", None),
        "code": [_program(pools), container.pop("command", None), container.pop("args", None)],
        "environment": container.pop("env", None),
        "inputs": _without_pools(
            {key: component.content.get(key) for key in ("inputDefinitions", "outputDefinitions")}
        ),
        "flow": _flow(component),
        "definition": [container, executor, [_remainder(pool) for pool in pools]],
    }


def _pools(component: Component) -> list[Json]:
    """The worker pools of a custom job, which are the default of one of its inputs."""
    pools = table(component.content, "inputDefinitions", "parameters", "worker_pool_specs").get("defaultValue")
    return [pool for pool in pools if isinstance(pool, dict)] if isinstance(pools, list) else []


def _image(pools: list[Json]) -> str | None:
    images = [table(pool, "container_spec").get("image_uri") for pool in pools]
    return ", ".join(dict.fromkeys(str(image) for image in images if image)) or None


def _program(pools: list[Json]) -> list[Any]:
    return [[table(pool, "container_spec").get(key) for key in ("command", "args")] for pool in pools]


def _remainder(pool: Json) -> dict[str, Any]:
    """A worker pool without what is told as machine, image and code: its disk, say."""
    rest = {key: value for key, value in pool.items() if key not in ("machine_spec", "replica_count", "container_spec")}
    return rest | {"env": table(pool, "container_spec").get("env")}


def _without_pools(interface: dict[str, Any]) -> Any:
    copied: dict[str, Any] = json.loads(json.dumps(interface))
    pools = table(copied, "inputDefinitions", "parameters", "worker_pool_specs")
    if isinstance(pools, dict):
        pools.pop("defaultValue", None)
    return copied


def _elsewhere(before: PipelineSpec, after: PipelineSpec) -> Iterator[Difference]:
    """Order of the steps, kfp's version, the pipeline's own name and description."""
    old, new = _whole(before), _whole(after)
    return (_difference(name, name, old[name], new[name]) for name in old if old[name] != new[name])


def _handlers(spec: PipelineSpec) -> list[Component]:
    """The groups of tasks in exit handlers, which stand around the steps of a pipeline."""
    return [task.component for task in spec.root.tasks.values() if task.is_exit_handler]


def _whole(spec: PipelineSpec) -> dict[str, Any]:
    flows = [_flow(component) for component in (spec.root, *_handlers(spec))]
    return {
        "flow": (flows, spec.root.content.get("outputDefinitions")),
        "cached steps": ", ".join(cached(spec)) or "none",
        "name": spec.name,
        "description": spec.description,
        "kfp": spec.content.get("sdkVersion"),
    }


def _flow(component: Component) -> dict[str, Any]:
    """The DAG of a component; which of its steps are cached is told apart."""
    tasks = {name: {**task.content, "cachingOptions": None} for name, task in component.tasks.items()}
    return {**table(component.content, "dag"), "tasks": tasks}
