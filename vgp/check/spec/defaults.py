"""The defaults of a pipeline's parameters, as the console's form shows them."""

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from vgp.check.spec.pipeline_spec import PipelineSpec

#: A pipeline with both parameters uses our registry of models: vgp/registry.
_OF_A_REGISTRY = ("registry", "model_name")


@dataclass(frozen=True)
class Places:
    """Where a run writes, and the root of the registry of models; "" leaves it open."""

    runs: str = ""
    registry: str = ""


def with_places(spec: PipelineSpec, places: Places) -> PipelineSpec:
    """The spec with the places as its defaults: a run that the console starts with another folder for its output has
    the same registry.
    """
    if places.registry and registry_is(spec, [""]):
        spec = spec.with_defaults({_OF_A_REGISTRY[0]: places.registry})
    return PipelineSpec({**spec.content, "defaultPipelineRoot": places.runs}) if places.runs else spec


def registry_is(spec: PipelineSpec, roots: Collection[str]) -> bool:
    """Whether the pipeline uses our registry of models, and its default is one of `roots`; "" is the run's place."""
    has_both = all(name in spec.parameters for name in _OF_A_REGISTRY)
    return has_both and spec.defaults.get(_OF_A_REGISTRY[0]) in roots


def with_defaults(spec: PipelineSpec, changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> PipelineSpec:
    """The spec with the defaults that `changed` makes of its own; the same one where it leaves them as they are."""
    values = changed(spec.defaults)
    if values == spec.defaults:
        return spec
    content = copy.deepcopy(dict(spec.content))
    declared = content["root"]["inputDefinitions"]["parameters"]
    for name in spec.defaults:
        if values[name] != spec.defaults[name]:
            declared[name]["defaultValue"] = values[name]
    return PipelineSpec(content)
