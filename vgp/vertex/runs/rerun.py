"""`pipelines rerun RUN`: the same run again, from what Google keeps of it: spec, parameters, account, network, key.

The new id follows from the old one and from what is changed, so a command that is repeated starts one run.
"""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vgp.errors import RequestError
from vgp.settings import Settings
from vgp.spec import arguments
from vgp.spec.caching import switched
from vgp.spec.pipeline_spec import PipelineSpec
from vgp.vertex.runs import attempts, search
from vgp.vertex.runs.pipeline_job import MANAGED_BY, REQUEST, digest
from vgp.vertex.runs.started import Started
from vgp.vertex.runs.state import Run, read

#: What a run is made from; the rest of a PipelineJob is what became of it.
_INPUTS = (
    "pipelineSpec", "runtimeConfig", "serviceAccount", "network", "encryptionSpec", "templateUri", "reservedIpRanges",
    "pscInterfaceConfig",
)  # fmt: skip
#: Google sets it, for each run another.
_GOOGLES = "vertex-ai-pipelines-run-billing-id"
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


def rerun(
    settings: Settings,
    reference: str,
    parameters: Sequence[str] = (),
    *,
    from_failed: bool = False,
    new: bool = False,
) -> Started:
    """Starts the run of `reference` again, or finds the rerun that was started before.

    Raises:
        RequestError: there is no such run, it goes on under a moving name, or a parameter is wrong.
        WorkFailed: Google refused or could not be reached.
    """
    old = search.find(settings, reference)
    if search.is_latest(reference) and not old.over:
        # Else a command that is repeated would repeat its own rerun.
        raise RequestError(f"{reference} is {old.id}, which goes on. Name it by its id: pipelines rerun {old.id}.")
    again = secrets.token_hex(8) if new else ""
    job, fresh = attempts.start(settings, body(old, parameters, caching=from_failed, again=again))
    return Started(settings, read(job), fresh, of=old.id, cached=from_failed)


def _changed(run: Run, texts: Sequence[str]) -> dict[str, Any]:
    """The values of `--set`, checked against the spec; the old run's values stand in for the others."""
    parameters = {
        name: replace(parameter, has_default=True, default=run.arguments[name]) if name in run.arguments else parameter
        for name, parameter in run.spec.parameters.items()
    }
    return arguments.parsed(parameters, texts)
