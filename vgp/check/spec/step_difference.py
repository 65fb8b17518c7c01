"""The comparable parts of a compiled pipeline's step, with its ladder and its inputs."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vgp.base.documents.json_text import JsonObject, JsonView
from vgp.check.spec import spec_ladder
from vgp.check.spec.dag import Component, table
from vgp.check.spec.pipeline_spec import PipelineSpec


def read_task_constants(spec: PipelineSpec) -> dict[str, JsonObject]:
    """Returns the constant inputs of each task, such as prices, and its retries, by its path."""
    return {
        path: leaves(_list_constants(task.content), "input ") | leaves({"retryPolicy": task.content.get("retryPolicy")})
        for path, task in spec.walk()
    }


def strip_dag(component: Component) -> JsonObject:
    """Returns the DAG of a component without the parts that are compared separately: constant inputs and cached
    steps."""
    tasks = {name: _remove_constants(task.content) for name, task in component.tasks.items()}
    return {**table(component.content, "dag"), "tasks": tasks}


def _list_constants(task: JsonView) -> JsonObject:
    values = {name: table(source, "runtimeValue") for name, source in table(task, "inputs", "parameters").items()}
    return {name: value.get("constant", value) for name, value in values.items() if value}


def _remove_constants(task: JsonView) -> JsonObject:
    inputs = table(task, "inputs")
    parameters = {
        name: "constant" if "runtimeValue" in table(source) else source
        for name, source in table(inputs, "parameters").items()
    }
    return {**task, "inputs": {**inputs, "parameters": parameters}, "cachingOptions": None, "retryPolicy": None}


_POOLS = "worker_pool_specs"
#: Parts of a container that are compared separately.
_COMPARED_APART = ("image", "command", "args", "env", "resources")


@dataclass(frozen=True)
class Side:
    """A step in one of the specs, with its machine in words."""

    spec: PipelineSpec
    component: Component
    machine: str | None = None

    @property
    def container(self) -> JsonView:
        return table(self.spec.executor(self.component), "container")

    @property
    def plan(self) -> JsonView:
        """Returns the plan of its ladder; empty if it has none."""
        return spec_ladder.plan(self.container) or {}

    @property
    def pools(self) -> list[JsonView]:
        """Returns the worker pools of a custom job, from the default of one of its inputs."""
        pools = table(self.component.content, "inputDefinitions", "parameters", _POOLS).get("defaultValue")
        return [pool for pool in pools if isinstance(pool, dict)] if isinstance(pools, list) else []

    @property
    def start_kind(self) -> str:
        """Returns the start of the step, in words."""
        return "a custom job" if self.pools else "a ladder" if self.plan else "a container"


def select_comparable(old: Side | None, new: Side | None) -> tuple[JsonObject | None, JsonObject | None]:
    """Returns the comparable parts of both steps; of a custom job or a ladder, only the parts that both have."""
    if old and new and old.start_kind != new.start_kind:
        return _start(old), _start(new)
    return _split_parts(old) if old else None, _split_parts(new) if new else None


def _start(side: Side) -> JsonObject:
    rungs = rung_names(side.plan)
    starts = f"{side.start_kind} ({', '.join(rungs)})" if rungs else side.start_kind
    return {"machine": side.machine, "starts": starts, "image": _find_image(side)}


def _split_parts(side: Side) -> JsonObject:
    """Returns machine, image, program, inputs, outputs and all other parts."""
    defaults, interface = _read_interface(side.component)
    container = {name: value for name, value in side.container.items() if name not in _COMPARED_APART}
    executor = {name: value for name, value in side.spec.executor(side.component).items() if name != "container"}
    programs = [[table(pool, "container_spec").get(key) for key in _PROGRAM] for pool in side.pools]
    launcher = {"image": side.container.get("image")} if side.pools else {}
    return {
        "machine": side.machine,
        "image": _find_image(side),
        "code": [_drop_repeats(programs), side.container.get("command"), _list_arguments(side)],
        **leaves(
            {"env": side.container.get("env"), "pools": _drop_repeats([_strip_pool(pool) for pool in side.pools])}
        ),
        **leaves(defaults, "input "),
        "inputs": interface,
        "flow": strip_dag(side.component),
        **leaves({"container": container | launcher, "executor": executor}),
    }


def _find_image(side: Side) -> Any:
    """Returns the image; for a custom job that of its pools, because its container is Google's launcher."""
    images = [table(pool, "container_spec").get("image_uri") for pool in side.pools]
    return ", ".join(dict.fromkeys(str(image) for image in images if image)) or side.container.get("image")


def _list_arguments(side: Side) -> Any:
    """Returns the arguments without the plan of a ladder, whose rungs are compared separately."""
    at, words = spec_ladder.position(side.container), side.container.get("args")
    if at is None or words is None or not side.plan:
        return words
    return [*words[:at], ladder_program(side.plan), *words[at + 1 :]]


def _strip_pool(pool: JsonView) -> JsonObject:
    """Returns a worker pool without machine, image and code, which are compared separately: its disk, for example."""
    rest = {key: value for key, value in pool.items() if key not in ("machine_spec", "replica_count", "container_spec")}
    return rest | {"env": table(pool, "container_spec").get("env")}


def _drop_repeats(values: list[Any]) -> list[Any]:
    """Returns the distinct values; additional machines add equal pools, which are part of the machine."""
    return [json.loads(text) for text in dict.fromkeys(json.dumps(value, sort_keys=True) for value in values)]


def _read_interface(component: Component) -> tuple[JsonObject, Any]:
    """Returns the defaults of its inputs, such as the region of a custom job, and its inputs and outputs without
    them."""
    names = ("inputDefinitions", "outputDefinitions")
    rest = json.loads(json.dumps({name: component.content.get(name) for name in names}))
    inputs = table(rest, "inputDefinitions", "parameters")
    known = {name: declared for name, declared in inputs.items() if isinstance(declared, dict)}
    defaults = {name: declared.pop("defaultValue", None) for name, declared in known.items()}
    return {name: value for name, value in defaults.items() if name != _POOLS}, rest


_NUMBER = re.compile(r"^\d+-")
#: Programs of the jobs: reported as changed, without the values.
_PROGRAM = ("command", "args")


def ladder_differences(before: JsonView, after: JsonView) -> Iterator[tuple[str, Any, Any]]:
    """Yields fields with both values: `rungs`, or `rung 2-spot-us-central1: machineSpec.machineType`; one for several
    rungs."""
    old, new = _name_rungs(before), _name_rungs(after)
    if rung_names(before) != rung_names(after):
        yield "rungs", ", ".join(rung_names(before)), ", ".join(rung_names(after))
    common = [key for key in new if key in old]
    where: dict[str, list[str]] = {}
    for key in common:
        for change in _compare_leaves(_flatten_rung(old[key]), _flatten_rung(new[key])):
            where.setdefault(json.dumps(change), []).append(_name(new[key]))
    for key, rungs in where.items():
        field, old_value, new_value = json.loads(key)
        whose = "every rung" if len(rungs) == len(common) > 1 else f"rung {', '.join(rungs)}"
        yield f"{whose}: {field}", old_value, new_value
    yield from _compare_leaves(*(leaves({**plan, "rungs": None}) for plan in (before, after)))


def rung_names(plan: JsonView) -> list[str]:
    return [_name(rung) for rung in _name_rungs(plan).values()]


def ladder_program(plan: JsonView) -> list[Any]:
    """Returns the program of the jobs, which all rungs share."""
    return list({json.dumps(_split_program(rung)[1]): None for rung in _name_rungs(plan).values()})


def _name_rungs(plan: JsonView) -> dict[str, JsonView]:
    """Returns the rungs by size, provisioning and region, numbered if equal, because positions change with other
    rungs."""
    rungs_by_name: dict[str, JsonView] = {}
    rungs = plan.get("rungs")
    for rung in rungs if isinstance(rungs, list) else ():
        key = _NUMBER.sub("", _name(table(rung)))
        rungs_by_name[f"{key} {sum(known.startswith(f'{key} ') for known in rungs_by_name)}"] = table(rung)
    return rungs_by_name


def _name(rung: JsonView) -> str:
    return f"{rung.get('size') or ''} {rung.get('name')}".strip()


def _flatten_rung(rung: JsonView) -> JsonObject:
    """Returns the fields of a rung; a job's have their own names without the path."""
    fields = _split_program(rung)[0]
    return {
        _shorten_path(path): round(value, 4) if isinstance(value, float) else value for path, value in fields.items()
    }


def _shorten_path(path: str) -> str:
    for prefix in ("job.", "jobSpec.", "workerPoolSpecs."):
        path = path.removeprefix(prefix)
    return path


def _split_program(rung: JsonView) -> tuple[JsonObject, JsonObject]:
    """Returns the request of a rung, and its program."""
    every = leaves({**rung, "name": None})
    programs = {path: value for path, value in every.items() if path.rsplit(".", 1)[-1] in _PROGRAM}
    return {path: value for path, value in every.items() if path not in programs}, programs


def _compare_leaves(old: JsonObject, new: JsonObject) -> Iterator[tuple[str, Any, Any]]:
    for path in dict.fromkeys([*old, *new]):
        if old.get(path) != new.get(path):
            yield path, old.get(path), new.get(path)


def leaves(value: object, prefix: str = "") -> JsonObject:
    """Returns every text, number and list of them in an object by its path: disk_spec.boot_disk_size_gb.

    Members of a list go by their names where they are name and value, as environment variables are, else by their
    numbers; one alone needs none.
    """
    return {f"{prefix}{path}": leaf for path, leaf in _walk_leaves(value, "")}


def _walk_leaves(value: object, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk_leaves(inner, _extend_path(path, key))
    elif isinstance(value, list) and any(isinstance(each, Mapping | list) for each in value):
        for number, each in enumerate(value):
            if isinstance(each, Mapping) and each.keys() == {"name", "value"}:
                yield _extend_path(path, each["name"]), each["value"]
            else:
                yield from _walk_leaves(each, _extend_path(path, number) if len(value) > 1 else path)
    else:
        yield path, value


def _extend_path(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
