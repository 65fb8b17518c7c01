"""The difference between two compiled pipelines, as a person would tell it, and line by line."""

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from vgp.check.check import check
from vgp.check.finding import StepRow
from vgp.documents.document import Document
from vgp.spec.caching import cached
from vgp.vertex.schedules.fields import Change

_ADDED, _GONE = "added", "removed"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Steps that come or go; machine, image, code and inputs of the others; parameters with their defaults.

    Both as JSON objects. A difference that none of these words fits is named by where it is.
    """
    found = [*_parameters(before, after), *_steps(before, after), *_elsewhere(before, after)]
    if not found and before != after:
        found = [Change("definition", None, "changed")]
    return found


def unified(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The unified diff of the two specs' one textual form."""
    old, new = (json.dumps(each, indent=2, sort_keys=True).splitlines() for each in (before, after))
    return list(difflib.unified_diff(old, new, "live", "declared", lineterm=""))


def _parameters(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    old, new = _declared(before), _declared(after)
    for name in sorted(old.keys() | new.keys()):
        yield from _compared(f"parameter {name}", _parameter(old.get(name)), _parameter(new.get(name)))


def _parameter(declared: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if declared is None:
        return None
    return {
        "type": declared.get("parameterType"),
        "default": _shown(declared.get("defaultValue")),
        "description": declared.get("description"),
        "optional": declared.get("isOptional"),
    }


def _steps(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    old, new = _components(before), _components(after)
    machines = [_machines(each) for each in (before, after)]
    for name in sorted(old.keys() | new.keys()):
        both = [
            None if name not in side else {"machine": rows.get(name), **_step(spec, side[name])}
            for side, rows, spec in ((old, machines[0], before), (new, machines[1], after))
        ]
        yield from _compared(name, *both)


def _compared(name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[Change]:
    if old is None or new is None:
        yield Change(name, None if old is None else "present", _ADDED if old is None else _GONE)
        return
    for key in old:
        if old.get(key) != new.get(key):
            told = key in ("machine", "image", "type", "default")
            yield Change(f"{name}: {key}", old.get(key) if told else None, new.get(key) if told else "changed")


def _step(spec: Mapping[str, Any], component: Mapping[str, Any]) -> dict[str, Any]:
    """What a component is: which image, which program, which inputs and outputs, and whatever else it says."""
    executor = _table(spec, "deploymentSpec", "executors", str(component.get("executorLabel")))
    container = dict(_table(executor, "container"))
    pools = _pools(component)
    own = {
        "image": _image(pools) or container.pop("image", None),
        "code": [_program(pools), container.pop("command", None), container.pop("args", None)],
        "environment": container.pop("env", None),
        "inputs": _without_pools({key: component.get(key) for key in ("inputDefinitions", "outputDefinitions")}),
        "flow": _flow(component),
    }
    container.pop("resources", None)  # told as the machine
    others = {key: each for key, each in executor.items() if key != "container"}
    return {**own, "definition": [container, others, [_remainder(pool) for pool in pools]]}


def _pools(component: Mapping[str, Any]) -> list[Any]:
    """The worker pools of a custom job, which are the default of one of its inputs."""
    pools = _table(component, "inputDefinitions", "parameters", "worker_pool_specs").get("defaultValue")
    return [pool for pool in pools if isinstance(pool, dict)] if isinstance(pools, list) else []


def _image(pools: list[Any]) -> str | None:
    images = [_table(pool, "container_spec").get("image_uri") for pool in pools]
    return ", ".join(dict.fromkeys(str(image) for image in images if image)) or None


def _program(pools: list[Any]) -> list[Any]:
    return [[_table(pool, "container_spec").get(key) for key in ("command", "args")] for pool in pools]


def _remainder(pool: dict[str, Any]) -> dict[str, Any]:
    """A worker pool without what is told as machine, image and code: its disk, say."""
    inner = {key: each for key, each in _table(pool, "container_spec").items() if key == "env"}
    rest = {key: each for key, each in pool.items() if key not in ("machine_spec", "replica_count", "container_spec")}
    return {**rest, **inner}


def _without_pools(interface: dict[str, Any]) -> Any:
    copied: dict[str, Any] = json.loads(json.dumps(interface))
    _table(copied, "inputDefinitions", "parameters", "worker_pool_specs").pop("defaultValue", None)
    return copied


def _components(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name.removeprefix("comp-"): _table(spec, "components", name) for name in _table(spec, "components")}


def _machines(spec: Mapping[str, Any]) -> dict[str, str]:
    """Step -> its machines in words."""
    rows = check([Document("template", dict(spec), "")]).steps
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.step.rsplit("/", 1)[-1], []).append(_machine(row))
    return {step: " + ".join(words) for step, words in found.items()}


def _machine(row: StepRow) -> str:
    gpus = f" with {row.accelerator_count} x {row.accelerator_type}" if row.accelerator_type else ""
    limit = f", at most {row.timeout_s / 3600:g} h" if row.timeout_s else ""
    return f"{row.replicas or '?'} x {row.machine_type or '?'}{gpus} ({row.strategy.lower()}{limit})"


def _elsewhere(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Order of the steps, kfp's version, the pipeline's own name and description."""
    places = {
        "flow": lambda spec: (_flow(_table(spec, "root")), _table(spec, "root").get("outputDefinitions")),
        "cached steps": lambda spec: ", ".join(cached(spec)) or "none",
        "name": lambda spec: _table(spec, "pipelineInfo").get("name"),
        "description": lambda spec: _table(spec, "pipelineInfo").get("description"),
        "kfp": lambda spec: spec.get("sdkVersion"),
    }
    for name, read in places.items():
        if read(before) != read(after):
            told = name in ("name", "kfp", "cached steps")
            yield Change(name, read(before) if told else None, read(after) if told else "changed")


def _flow(component: Mapping[str, Any]) -> dict[str, Any]:
    """The DAG of a component; which of its steps are cached is told apart."""
    dag = _table(component, "dag")
    tasks = {name: {**_table(dag, "tasks", name), "cachingOptions": None} for name in _table(dag, "tasks")}
    return {**dag, "tasks": tasks}


def _declared(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = _table(spec, "root", "inputDefinitions", "parameters")
    return {name: _table(parameters, name) for name in parameters}


def _table(value: Any, *keys: str) -> dict[str, Any]:
    """The object at `keys`; an empty one where there is none: a live spec may be anything."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _shown(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
