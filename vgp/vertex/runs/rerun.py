"""`vgp rerun RUN`: the same run again, from what Google keeps of it: spec, parameters, account, network, key.

The new id follows from the old one and from what is changed, so a command that is repeated starts one run. The rerun
from a failed step goes on with what the old run had pinned; any other pins anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from vgp.base.documents.document import Document
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.check import cost_bound
from vgp.check.checker import check
from vgp.check.spec import spec_ladder
from vgp.check.spec.parameters import Members, parse_arguments
from vgp.check.spec.pipeline_spec import PipelineSpec, list_cached_tasks, switch_cache
from vgp.settings import Settings
from vgp.vertex import resource_names
from vgp.vertex.runs import attempts, run_search
from vgp.vertex.runs.pipeline_job import ATTEMPT, KEY, MANAGED_BY, PINNED_BY, REQUEST, digest
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.start_policy import Policy, Started
from vgp.workflow.compiling import workflow_files

#: What a run is made from; the rest of a PipelineJob is what became of it.
_INPUTS = (
    "pipelineSpec", "runtimeConfig", "serviceAccount", "network", "encryptionSpec", "templateUri", "reservedIpRanges",
    "pscInterfaceConfig",
)  # fmt: skip
#: Google sets it, for each run another.
_GOOGLES = "vertex-ai-pipelines-run-billing-id"
#: The label that names the run before; a longer id than a label can hold is left out.
_OF = "rerun-of"
#: Labels of the old run that do not apply to the new one.
_OLD = (_GOOGLES, _OF, ATTEMPT, KEY, PINNED_BY)


def body(
    run: Run,
    parameters: Sequence[str] = (),
    *,
    from_failed: bool = False,
    members: Members = dict,
    expanded: Callable[[JsonObject], JsonObject] = dict,
) -> JsonObject:
    """The PipelineJob of the second run.

    `from_failed`: whether it goes on with the pins of the old run, and takes its finished steps: those that the spec
    lets take earlier results, or all if the spec does not set it. `members`: as of `parse_arguments`;
    `expanded`: puts the text of a file in place of its name.

    Raises:
        RequestError: a parameter that the pipeline does not have, or a value of the wrong type.
    """
    from google.protobuf import json_format

    old = json_format.MessageToDict(type(run.job).pb(run.job))
    made = {key: old[key] for key in _INPUTS if key in old}
    if not made.get("pipelineSpec"):
        raise RequestError(f"{run.id} has no pipeline spec, so it cannot be rerun.")
    spec = PipelineSpec(made["pipelineSpec"])
    if not from_failed or not list_cached_tasks(spec):
        made["pipelineSpec"] = switch_cache(spec, from_failed).content
    if PINNED_BY in run.labels:
        made["runtimeConfig"] = attempts.unpinned(made)["runtimeConfig"]
    if parameters:
        config = made.setdefault("runtimeConfig", {})
        values = {**config.get("parameterValues", {}), **_changed(run, parameters, members)}
        config["parameterValues"] = expanded(values)
    kept = {key: value for key, value in run.labels.items() if key not in _OLD}
    of = {_OF: run.id} if resource_names.in_label(run.id) else {}
    labels = {**kept, **of, MANAGED_BY[0]: MANAGED_BY[1], REQUEST: digest([run.name, made])}
    named = {} if run.display_name in ("", run.id) else {"displayName": run.display_name}
    again = {**made, **named, "labels": labels}
    return attempts.going_on(again, run) if from_failed else again


def rerun(
    settings: Settings,
    reference: str,
    parameters: Sequence[str] = (),
    *,
    from_failed: bool = False,
    new: bool = False,
    max_usd: float | None = None,
) -> Started:
    """Starts the run of `reference` again, or finds the rerun that was started before.

    Raises:
        RequestError: there is no such run, it goes on under a moving name, a parameter is wrong, or the run can cost
            more than `max_usd`.
    """
    old = run_search.find(settings, reference)
    if run_search.is_latest(reference) and not old.over:
        # Else a command that is repeated would repeat its own rerun.
        raise RequestError(f"{reference} is {old.id}, which is still running. Give its id: vgp rerun {old.id}.")
    policy = Policy(if_exists="new" if new else "attach")
    members = partial(workflow_files.members, old.pipeline, settings.repository)
    known = old.pipeline in workflow_files.find(settings.repository)
    replaced = partial(workflow_files.expanded, old.pipeline, repository=settings.repository, folder=Path.cwd())
    again = body(
        old, parameters, from_failed=from_failed, members=members if known else dict,
        expanded=replaced if known else dict,
    )  # fmt: skip
    if max_usd is not None:  # with --from-failed the cache may be empty: every step counts
        cost_bound.refuse_above(check([Document(old.id, again, "")], regions=[old.region]).steps, max_usd)
    job, fresh = attempts.start(settings, again, policy)
    return Started(settings, read(job), fresh, policy, of=old.id, from_failed=from_failed)


def _changed(run: Run, texts: Sequence[str], members: Members) -> JsonObject:
    """The values of `--set`, checked against the spec; the old run's values stand in for the others."""
    parameters = {
        name: replace(parameter, has_default=True, default=run.arguments[name]) if name in run.arguments else parameter
        for name, parameter in run.spec.parameters.items()
    }
    values = parse_arguments(parameters, texts, members)
    spec_ladder.refuse_sizes(run.spec, values)
    return values
