"""What a step of a compiled pipeline is, part by part, with its ladder and its inputs, so that two can be compared."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vgp.base.documents.json_text import JsonObject, JsonView
from vgp.check.spec import spec_ladder
from vgp.check.spec.dag import Component, table
from vgp.check.spec.pipeline_spec import PipelineSpec


def given_to_tasks(spec: PipelineSpec) -> dict[str, JsonObject]:
    """The constants among a task's inputs, such as prices, and how often it is tried again, by the way to the task."""
    return {
        path: leaves(_constants(task.content), "input ") | leaves({"retryPolicy": task.content.get("retryPolicy")})
        for path, task in spec.walk()
    }


def flow(component: Component) -> JsonObject:
    """The DAG of a component, without what is told apart: what is given, and which of its steps are cached."""
    tasks = {name: _bare(task.content) for name, task in component.tasks.items()}
    return {**table(component.content, "dag"), "tasks": tasks}


def _constants(task: JsonView) -> JsonObject:
    values = {name: table(source, "runtimeValue") for name, source in table(task, "inputs", "parameters").items()}
    return {name: value.get("constant", value) for name, value in values.items() if value}


def _bare(task: JsonView) -> JsonObject:
    inputs = table(task, "inputs")
    parameters = {
        name: "constant" if "runtimeValue" in table(source) else source
        for name, source in table(inputs, "parameters").items()
    }
    return {**task, "inputs": {**inputs, "parameters": parameters}, "cachingOptions": None, "retryPolicy": None}


_POOLS = "worker_pool_specs"
#: Of a container what has a word of its own.
_TOLD = ("image", "command", "args", "env", "resources")


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
        """The ladder that it climbs; empty where there is none."""
        return spec_ladder.plan(self.container) or {}

    @property
    def pools(self) -> list[JsonView]:
        """The worker pools of a custom job, which are the default of one of its inputs."""
        pools = table(self.component.content, "inputDefinitions", "parameters", _POOLS).get("defaultValue")
        return [pool for pool in pools if isinstance(pool, dict)] if isinstance(pools, list) else []

    @property
    def starts(self) -> str:
        """What is started, in words."""
        return "a custom job" if self.pools else "a ladder" if self.plan else "a container"


def compared(old: Side | None, new: Side | None) -> tuple[JsonObject | None, JsonObject | None]:
    """Returns the comparable parts of both steps: for a custom job and a ladder, only what both have."""
    if old and new and old.starts != new.starts:
        return _start(old), _start(new)
    return _parts(old) if old else None, _parts(new) if new else None


def _start(side: Side) -> JsonObject:
    rungs = rung_names(side.plan)
    starts = f"{side.starts} ({', '.join(rungs)})" if rungs else side.starts
    return {"machine": side.machine, "starts": starts, "image": _image(side)}


def _parts(side: Side) -> JsonObject:
    """Machine, image, program, inputs and outputs, and whatever else it says."""
    defaults, interface = _interface(side.component)
    container = {name: value for name, value in side.container.items() if name not in _TOLD}
    executor = {name: value for name, value in side.spec.executor(side.component).items() if name != "container"}
    programs = [[table(pool, "container_spec").get(key) for key in _PROGRAM] for pool in side.pools]
    launcher = {"image": side.container.get("image")} if side.pools else {}
    return {
        "machine": side.machine,
        "image": _image(side),
        "code": [_distinct(programs), side.container.get("command"), _arguments(side)],
        **leaves({"env": side.container.get("env"), "pools": _distinct([_remainder(pool) for pool in side.pools])}),
        **leaves(defaults, "input "),
        "inputs": interface,
        "flow": flow(side.component),
        **leaves({"container": container | launcher, "executor": executor}),
    }


def _image(side: Side) -> Any:
    """Of its pools, where it is a custom job: Google's launcher has another."""
    images = [table(pool, "container_spec").get("image_uri") for pool in side.pools]
    return ", ".join(dict.fromkeys(str(image) for image in images if image)) or side.container.get("image")


def _arguments(side: Side) -> Any:
    """Without the plan of a ladder, which is told by its rungs."""
    at, words = spec_ladder.position(side.container), side.container.get("args")
    if at is None or words is None or not side.plan:
        return words
    return [*words[:at], ladder_program(side.plan), *words[at + 1 :]]


def _remainder(pool: JsonView) -> JsonObject:
    """A worker pool without what is told as machine, image and code: its disk, say."""
    rest = {key: value for key, value in pool.items() if key not in ("machine_spec", "replica_count", "container_spec")}
    return rest | {"env": table(pool, "container_spec").get("env")}


def _distinct(values: list[Any]) -> list[Any]:
    """Each once: a job of more machines has a pool more, which is told as its machines."""
    return [json.loads(text) for text in dict.fromkeys(json.dumps(value, sort_keys=True) for value in values)]


def _interface(component: Component) -> tuple[JsonObject, Any]:
    """The defaults of its inputs, such as the region of a custom job, and its inputs and outputs without them."""
    names = ("inputDefinitions", "outputDefinitions")
    rest = json.loads(json.dumps({name: component.content.get(name) for name in names}))
    inputs = table(rest, "inputDefinitions", "parameters")
    known = {name: declared for name, declared in inputs.items() if isinstance(declared, dict)}
    defaults = {name: declared.pop("defaultValue", None) for name, declared in known.items()}
    return {name: value for name, value in defaults.items() if name != _POOLS}, rest


_NUMBER = re.compile(r"^\d+-")
#: What jobs run: not told, only that it differs.
_PROGRAM = ("command", "args")


def ladder_differences(before: JsonView, after: JsonView) -> Iterator[tuple[str, Any, Any]]:
    """Fields with both values: rungs, or rung 2-spot-us-central1: machineSpec.machineType; of several rungs once."""
    old, new = _rungs(before), _rungs(after)
    if rung_names(before) != rung_names(after):
        yield "rungs", ", ".join(rung_names(before)), ", ".join(rung_names(after))
    kept = [key for key in new if key in old]
    where: dict[str, list[str]] = {}
    for key in kept:
        for change in _changed_leaves(_of_rung(old[key]), _of_rung(new[key])):
            where.setdefault(json.dumps(change), []).append(_name(new[key]))
    for told, rungs in where.items():
        field, old_value, new_value = json.loads(told)
        whose = "every rung" if len(rungs) == len(kept) > 1 else f"rung {', '.join(rungs)}"
        yield f"{whose}: {field}", old_value, new_value
    yield from _changed_leaves(*(leaves({**plan, "rungs": None}) for plan in (before, after)))


def rung_names(plan: JsonView) -> list[str]:
    return [_name(rung) for rung in _rungs(plan).values()]


def ladder_program(plan: JsonView) -> list[Any]:
    """What the jobs of all rungs run, which they share."""
    return list({json.dumps(_split(rung)[1]): None for rung in _rungs(plan).values()})


def _rungs(plan: JsonView) -> dict[str, JsonView]:
    """By size, way and region, and a number where there are more of them: the place of a rung changes with others."""
    found: dict[str, JsonView] = {}
    rungs = plan.get("rungs")
    for rung in rungs if isinstance(rungs, list) else ():
        key = _NUMBER.sub("", _name(table(rung)))
        found[f"{key} {sum(known.startswith(f'{key} ') for known in found)}"] = table(rung)
    return found


def _name(rung: JsonView) -> str:
    return f"{rung.get('size') or ''} {rung.get('name')}".strip()


def _of_rung(rung: JsonView) -> JsonObject:
    """Its fields; a job's by their own names, without the way to them."""
    fields = _split(rung)[0]
    return {_short(way): round(value, 4) if isinstance(value, float) else value for way, value in fields.items()}


def _short(way: str) -> str:
    for prefix in ("job.", "jobSpec.", "workerPoolSpecs."):
        way = way.removeprefix(prefix)
    return way


def _split(rung: JsonView) -> tuple[JsonObject, JsonObject]:
    """What a rung asks for, and what runs on it."""
    every = leaves({**rung, "name": None})
    programs = {way: value for way, value in every.items() if way.rsplit(".", 1)[-1] in _PROGRAM}
    return {way: value for way, value in every.items() if way not in programs}, programs


def _changed_leaves(old: JsonObject, new: JsonObject) -> Iterator[tuple[str, Any, Any]]:
    for way in dict.fromkeys([*old, *new]):
        if old.get(way) != new.get(way):
            yield way, old.get(way), new.get(way)


def leaves(value: object, prefix: str = "") -> JsonObject:
    """Every text, number and list of them in an object by the way to it: disk_spec.boot_disk_size_gb.

    Members of a list go by their names where they are name and value, as environment variables are, else by their
    numbers; one alone needs none.
    """
    return {f"{prefix}{way}": leaf for way, leaf in _leaves(value, "")}


def _leaves(value: object, way: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, _on(way, key))
    elif isinstance(value, list) and any(isinstance(each, Mapping | list) for each in value):
        for number, each in enumerate(value):
            if isinstance(each, Mapping) and each.keys() == {"name", "value"}:
                yield _on(way, each["name"]), each["value"]
            else:
                yield from _leaves(each, _on(way, number) if len(value) > 1 else way)
    else:
        yield way, value


def _on(way: str, key: object) -> str:
    return f"{way}.{key}" if way else str(key)
