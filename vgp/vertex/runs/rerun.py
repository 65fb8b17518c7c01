"""`pipelines rerun RUN`: the same run again, from what Google keeps of it: spec, parameters, account, network, key.

The new id follows from the old one and from what is changed, so a command that is repeated starts one run.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from vgp.errors import RequestError
from vgp.settings import Settings
from vgp.spec import arguments
from vgp.spec.caching import switched
from vgp.spec.parameters import Parameter
from vgp.spec.pipeline_spec import PipelineSpec
from vgp.vertex.runs import attempts
from vgp.vertex.runs.job import MANAGED_BY, REQUEST, digest
from vgp.vertex.runs.state import Run

#: What a run is made from; the rest of a PipelineJob is what became of it.
_INPUTS = (
    "pipelineSpec", "runtimeConfig", "serviceAccount", "network", "encryptionSpec", "templateUri", "reservedIpRanges",
    "pscInterfaceConfig",
)  # fmt: skip
#: Google sets it, for each run another.
_GOOGLES = "vertex-ai-pipelines-run-billing-id"
#: What --from-failed cannot know: Vertex AI looks a finished step up by its inputs, not by its run.
OF_ANOTHER_NIGHT = (
    "Finished steps come from the cache, by their inputs: where the data behind the same names has changed since, "
    "the result may be that of another run. `pipelines show` tells its folder."
)
#: The label that names the run before; a longer id than a label can hold is left out.
_OF, _MAX_LABEL = "rerun-of", 63


def body(run: Run, parameters: Sequence[str] = (), *, caching: bool = False, again: str = "") -> dict[str, Any]:
    """The PipelineJob of the second run.

    `caching`: whether its steps take results of earlier runs. `again` tells further reruns apart.

    Raises:
        RequestError: a parameter that the pipeline does not have, or a value of the wrong type.
    """
    from google.protobuf import json_format

    old = json_format.MessageToDict(type(run.job).pb(run.job))
    made = {key: old[key] for key in _INPUTS if key in old}
    if not made.get("pipelineSpec"):
        raise RequestError(f"{run.id} tells no pipeline spec, so it cannot be run again from here.")
    made["pipelineSpec"] = switched(PipelineSpec(made["pipelineSpec"]), caching).content
    if parameters:
        config = made.setdefault("runtimeConfig", {})
        config["parameterValues"] = {**config.get("parameterValues", {}), **_changed(run, parameters)}
    kept = {key: value for key, value in run.labels.items() if key not in (_GOOGLES, _OF)}
    of = {_OF: run.id} if len(run.id) <= _MAX_LABEL else {}
    labels = {**kept, **of, MANAGED_BY[0]: MANAGED_BY[1], REQUEST: digest([run.name, made, again])}
    named = {} if run.display_name in ("", run.id) else {"displayName": run.display_name}
    return {**made, **named, "labels": labels}


def rerun(settings: Settings, body: Mapping[str, Any]) -> tuple[Any, bool]:
    """The PipelineJob, and whether this call started it.

    Raises:
        WorkFailed: Google refused or could not be reached.
    """
    return attempts.start(settings, body)


def _changed(run: Run, parameters: Sequence[str]) -> dict[str, Any]:
    """The values of `--set`, checked against the spec; the old run's values stand in for what is not given."""
    declared = copy.deepcopy({name: dict(each) for name, each in run.declared.items()})
    for name, each in declared.items():
        if name in run.given:
            each["defaultValue"] = run.given[name]
    return arguments.parsed({name: Parameter.read(name, each) for name, each in declared.items()}, parameters)
