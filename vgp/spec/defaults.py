"""The defaults of a pipeline's parameters, as the console's form shows them."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from vgp.spec.pipeline_spec import PipelineSpec


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
