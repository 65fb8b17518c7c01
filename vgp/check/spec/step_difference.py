"""What a step of a compiled pipeline is, part by part, so that two of them can be compared."""

import json
from dataclasses import dataclass
from typing import Any

from vgp.check.spec import ladder, ladder_difference
from vgp.check.spec.dag import Component, Json, table
from vgp.check.spec.flow import flow
from vgp.check.spec.leaves import leaves
from vgp.check.spec.pipeline_spec import PipelineSpec

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
    def container(self) -> Json:
        return table(self.spec.executor(self.component), "container")

    @property
    def plan(self) -> Json:
        """The ladder that it climbs; empty where there is none."""
        return ladder.plan(self.container) or {}

    @property
    def pools(self) -> list[Json]:
        """The worker pools of a custom job, which are the default of one of its inputs."""
        pools = table(self.component.content, "inputDefinitions", "parameters", _POOLS).get("defaultValue")
        return [pool for pool in pools if isinstance(pool, dict)] if isinstance(pools, list) else []

    @property
    def starts(self) -> str:
        """What is started, in words."""
        return "a custom job" if self.pools else "a ladder" if self.plan else "a container"


def compared(old: Side | None, new: Side | None) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The parts of both that can be held against each other: of a custom job and a ladder only what both have."""
    if old and new and old.starts != new.starts:
        return _start(old), _start(new)
    return _parts(old) if old else None, _parts(new) if new else None


def _start(side: Side) -> dict[str, Any]:
    rungs = ladder_difference.names(side.plan)
    starts = f"{side.starts} ({', '.join(rungs)})" if rungs else side.starts
    return {"machine": side.machine, "starts": starts, "image": _image(side)}


def _parts(side: Side) -> dict[str, Any]:
    """Machine, image, program, inputs and outputs, and whatever else it says."""
    defaults, interface = _interface(side.component)
    container = {name: value for name, value in side.container.items() if name not in _TOLD}
    executor = {name: value for name, value in side.spec.executor(side.component).items() if name != "container"}
    launcher = {"image": side.container.get("image")} if side.pools else {}
    return {
        "machine": side.machine,
        "image": _image(side),
        "code": [_distinct([_program(pool) for pool in side.pools]), side.container.get("command"), _arguments(side)],
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
    at, words = ladder.position(side.container), side.container.get("args")
    if at is None or words is None or not side.plan:
        return words
    return [*words[:at], ladder_difference.program(side.plan), *words[at + 1 :]]


def _program(pool: Json) -> list[Any]:
    return [table(pool, "container_spec").get(key) for key in ("command", "args")]


def _remainder(pool: Json) -> dict[str, Any]:
    """A worker pool without what is told as machine, image and code: its disk, say."""
    rest = {key: value for key, value in pool.items() if key not in ("machine_spec", "replica_count", "container_spec")}
    return rest | {"env": table(pool, "container_spec").get("env")}


def _distinct(values: list[Any]) -> list[Any]:
    """Each once: a job of more machines has a pool more, which is told as its machines."""
    return [json.loads(text) for text in dict.fromkeys(json.dumps(value, sort_keys=True) for value in values)]


def _interface(component: Component) -> tuple[dict[str, Any], Any]:
    """The defaults of its inputs, such as the region of a custom job, and its inputs and outputs without them."""
    names = ("inputDefinitions", "outputDefinitions")
    rest = json.loads(json.dumps({name: component.content.get(name) for name in names}))
    inputs = table(rest, "inputDefinitions", "parameters")
    known = {name: declared for name, declared in inputs.items() if isinstance(declared, dict)}
    defaults = {name: declared.pop("defaultValue", None) for name, declared in known.items()}
    return {name: value for name, value in defaults.items() if name != _POOLS}, rest
