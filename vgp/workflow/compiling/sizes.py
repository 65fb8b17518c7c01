"""Adds a parameter STEP_size to a pipeline, by which a run chooses the size of a step's machines.

A workflow does not declare sizes, because they are settings. Therefore the parameter is added to the compiled spec, in
every group from the pipeline down to the step, under the names that kfp gives to the inputs of groups.
"""

import copy
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject, JsonView
from vgp.base.errors import RequestError
from vgp.base.text.figures import format_count, format_usd
from vgp.check.spec import spec_ladder
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.spec_ladder import SIZE_INPUT, SIZE_OPTION, sizes_of

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent

_CHANNEL = "pipelinechannel--"


def add_size_input(launcher: "BaseComponent", default: str) -> "BaseComponent":
    """Adds the input for the size to the step that climbs the ladder, and returns the step.

    Raises:
        RequestError: the step already has an input of that name.
    """
    from kfp.dsl.structures import InputSpec

    spec = launcher.component_spec
    if SIZE_INPUT in (spec.inputs or {}):
        raise RequestError(
            f"{launcher.name} has an input {SIZE_INPUT}, a name that [steps.{launcher.name}.sizes] needs. "
            "Rename the input, or drop the sizes."
        )
    spec.inputs = {**(spec.inputs or {}), SIZE_INPUT: InputSpec(type="String", default=default, optional=True)}
    container = spec.implementation.container
    container.args = [*container.args, SIZE_OPTION, f"{{{{$.inputs.parameters['{SIZE_INPUT}']}}}}"]
    return launcher


def add_size_parameters(spec: PipelineSpec) -> PipelineSpec:
    """Returns the spec with a parameter for every step that has sizes; the spec itself if no step has sizes.

    Raises:
        RequestError: the pipeline already has a parameter of that name.
    """
    sized = {f"comp-{name}": container for name, container in spec.containers.items() if sizes_of(container)}
    if not sized:
        return spec
    content = copy.deepcopy(dict(spec.content))
    parameters = content["root"].setdefault("inputDefinitions", {}).setdefault("parameters", {})
    needed = _route_sizes(content["root"], content["components"], sized, "")
    for component in sorted(needed):
        name = _name_parameter(component)
        if name in parameters:
            raise RequestError(
                f"the pipeline has a parameter {name}, a name that [steps.{component.removeprefix('comp-')}.sizes] "
                "needs. Rename the parameter, or drop the sizes."
            )
        inputs = content["components"][component]["inputDefinitions"]["parameters"]
        parameters[name] = {
            "parameterType": "STRING", "isOptional": True, "defaultValue": inputs[SIZE_INPUT]["defaultValue"],
            "description": _describe_sizes(component, sized[component]),
        }  # fmt: skip
    return PipelineSpec(content)


def _route_sizes(group: JsonObject, components: JsonView, sized: JsonView, prefix: str) -> set[str]:
    """Passes the sizes from the group's inputs to its steps, and returns the names of the components with a size."""
    needed: set[str] = set()
    for task in group["dag"]["tasks"].values():
        reference = task["componentRef"]["name"]
        component = components.get(reference, {})
        inside = {reference} if reference in sized else set()
        if "dag" in component:
            inside = _route_sizes(component, components, sized, _CHANNEL)
            for inner in inside:
                declared = component.setdefault("inputDefinitions", {}).setdefault("parameters", {})
                declared[f"{_CHANNEL}{_name_parameter(inner)}"] = {"parameterType": "STRING"}
        for inner in inside:
            name = SIZE_INPUT if inner == reference else f"{_CHANNEL}{_name_parameter(inner)}"
            parameters = task.setdefault("inputs", {}).setdefault("parameters", {})
            parameters[name] = {"componentInputParameter": f"{prefix}{_name_parameter(inner)}"}
        needed |= inside
    return needed


def _name_parameter(component: str) -> str:
    return f"{component.removeprefix('comp-').replace('-', '_')}_size"


def _describe_sizes(component: str, container: JsonView) -> str:
    """Returns a text like "Machines of the step train: small (g2-standard-4 with 1 x NVIDIA_L4, $0.71/hour), ..."."""
    plan = spec_ladder.plan(container) or {}
    by_size: dict[str, list[JsonObject]] = {}
    for rung in plan.get("rungs", []):
        by_size.setdefault(rung["size"], []).append(rung)
    sizes = [f"{size} ({_describe_machines(rungs)})" for size, rungs in by_size.items()]
    return f"Machines of the step {component.removeprefix('comp-')}: {', '.join(sizes)}."


def _describe_machines(rungs: list[JsonObject]) -> str:
    first, pools = rungs[0], rungs[0]["job"]["jobSpec"]["workerPoolSpecs"]
    machine = pools[0]["machineSpec"]
    nodes = sum(pool.get("replicaCount", 0) for pool in pools[:2] if pool)
    gpus = f" with {machine['acceleratorCount']} x {machine['acceleratorType']}" if "acceleratorType" in machine else ""
    words = f"{f'{nodes} x ' if nodes > 1 else ''}{machine['machineType']}{gpus}"
    price = f", {format_usd(first['usd_per_hour'])}/hour" if first.get("usd_per_hour") is not None else ""
    others = f", then {format_count(len(rungs) - 1, 'other rung')}" if len(rungs) > 1 else ""
    return f"{words}{price}{others}"
