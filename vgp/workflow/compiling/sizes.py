"""The size of a step as a parameter of its pipeline: STEP_size, which the console's form shows like any other.

A workflow declares its own parameters and knows nothing of sizes: those are settings. So the parameter joins the
compiled spec, on the whole way from the pipeline to the step, in the names that kfp gives to what goes into a group.
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


def chosen_by_input(launcher: "BaseComponent", default: str) -> "BaseComponent":
    """The step that climbs, with the size as one more input.

    Raises:
        RequestError: the step has an input of that name.
    """
    from kfp.dsl.structures import InputSpec

    spec = launcher.component_spec
    if SIZE_INPUT in (spec.inputs or {}):
        raise RequestError(
            f"{launcher.name} has an input {SIZE_INPUT} of its own, by which the size of its machines would be chosen. "
            "Give the input another name, or drop [steps.NAME.sizes]."
        )
    spec.inputs = {**(spec.inputs or {}), SIZE_INPUT: InputSpec(type="String", default=default, optional=True)}
    container = spec.implementation.container
    container.args = [*container.args, SIZE_OPTION, f"{{{{$.inputs.parameters['{SIZE_INPUT}']}}}}"]
    return launcher


def with_sizes(spec: PipelineSpec) -> PipelineSpec:
    """The spec with a parameter for every step that has sizes; the same one where none has.

    Raises:
        RequestError: the pipeline has a parameter of that name.
    """
    sized = {f"comp-{name}": container for name, container in spec.containers.items() if sizes_of(container)}
    if not sized:
        return spec
    content = copy.deepcopy(dict(spec.content))
    parameters = content["root"].setdefault("inputDefinitions", {}).setdefault("parameters", {})
    needed = _route(content["root"], content["components"], sized, "")
    for component in sorted(needed):
        name = _parameter(component)
        if name in parameters:
            raise RequestError(
                f"the pipeline has a parameter {name}, which the sizes of {component.removeprefix('comp-')} need. "
                "Give it another name, or drop [steps.NAME.sizes]."
            )
        inputs = content["components"][component]["inputDefinitions"]["parameters"]
        parameters[name] = {
            "parameterType": "STRING", "isOptional": True, "defaultValue": inputs[SIZE_INPUT]["defaultValue"],
            "description": _description(component, sized[component]),
        }  # fmt: skip
    return PipelineSpec(content)


def _route(group: JsonObject, components: JsonView, sized: JsonView, prefix: str) -> set[str]:
    """Leads the sizes from the group's inputs to its steps; returns the components that need one."""
    needed: set[str] = set()
    for task in group["dag"]["tasks"].values():
        reference = task["componentRef"]["name"]
        component = components.get(reference, {})
        inside = {reference} if reference in sized else set()
        if "dag" in component:
            inside = _route(component, components, sized, _CHANNEL)
            for each in inside:
                declared = component.setdefault("inputDefinitions", {}).setdefault("parameters", {})
                declared[f"{_CHANNEL}{_parameter(each)}"] = {"parameterType": "STRING"}
        for each in inside:
            name = SIZE_INPUT if each == reference else f"{_CHANNEL}{_parameter(each)}"
            given = task.setdefault("inputs", {}).setdefault("parameters", {})
            given[name] = {"componentInputParameter": f"{prefix}{_parameter(each)}"}
        needed |= inside
    return needed


def _parameter(component: str) -> str:
    return f"{component.removeprefix('comp-').replace('-', '_')}_size"


def _description(component: str, container: JsonView) -> str:
    """Machines of the step train: small (g2-standard-4 with 1 x NVIDIA_L4, $0.71/hour) or large (...)."""
    told = spec_ladder.plan(container) or {}
    by_size: dict[str, list[JsonObject]] = {}
    for rung in told.get("rungs", []):
        by_size.setdefault(rung["size"], []).append(rung)
    sizes = [f"{size} ({_machines(rungs)})" for size, rungs in by_size.items()]
    return f"Machines of the step {component.removeprefix('comp-')}: {', '.join(sizes)}."


def _machines(rungs: list[JsonObject]) -> str:
    first, pools = rungs[0], rungs[0]["job"]["jobSpec"]["workerPoolSpecs"]
    machine = pools[0]["machineSpec"]
    nodes = sum(pool.get("replicaCount", 0) for pool in pools[:2] if pool)
    gpus = f" with {machine['acceleratorCount']} x {machine['acceleratorType']}" if "acceleratorType" in machine else ""
    words = f"{f'{nodes} x ' if nodes > 1 else ''}{machine['machineType']}{gpus}"
    price = f", {format_usd(first['usd_per_hour'])}/hour" if first.get("usd_per_hour") is not None else ""
    others = f", then {format_count(len(rungs) - 1, 'other rung')}" if len(rungs) > 1 else ""
    return f"{words}{price}{others}"
