"""`vgp rerun RUN`: starts a run again with the spec, parameters, account, network and key of its PipelineJob.

The id of the rerun is derived from the old run's id and the changes, so a repeated command starts one run. With
--from-failed, the rerun uses the pins of the old run; otherwise it pins the current data.
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
from vgp.vertex.preflight import require_persistent_resource
from vgp.vertex.runs import attempts, run_search
from vgp.vertex.runs.pipeline_job import ATTEMPT, KEY, MANAGED_BY, PINNED_BY, REQUEST, default_runtime, digest
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.start_policy import Policy, Started
from vgp.workflow.compiling import workflow_files

#: The fields of a PipelineJob that the caller sets; Google sets the others.
_INPUTS = (
    "pipelineSpec", "runtimeConfig", "serviceAccount", "network", "encryptionSpec", "templateUri", "reservedIpRanges",
    "pscInterfaceConfig", "preflightValidations",
)  # fmt: skip
#: A label that Google sets, with a different value for each run.
_BILLING = "vertex-ai-pipelines-run-billing-id"
#: The label with the id of the earlier run, if the id is short enough for a label.
_RERUN_OF = "rerun-of"
#: Labels of the earlier run that do not apply to the rerun.
_DROPPED = (_BILLING, _RERUN_OF, ATTEMPT, KEY, PINNED_BY)


def build_body(
    run: Run,
    parameters: Sequence[str] = (),
    *,
    from_failed: bool = False,
    members: Members = dict,
    expanded: Callable[[JsonObject], JsonObject] = dict,
    runtime: JsonObject | None = None,
) -> JsonObject:
    """Returns the PipelineJob of the rerun.

    Args:
        parameters: Changes, each as NAME=VALUE.
        from_failed: Whether the rerun uses the pins and finished steps of the run. Cached results are enabled for the
            steps whose spec enables them, or for all if the spec enables none; without `from_failed`, for none.
        members: As for `parse_arguments`.
        expanded: Replaces file names in parameter values by the files' text.
        runtime: The persistent resource of the rerun, from `default_runtime`; v1 does not return that of the run.

    Raises:
        RequestError: the pipeline has no such parameter, or a value has the wrong type.
    """
    from google.protobuf import json_format

    old = json_format.MessageToDict(type(run.job).pb(run.job))
    job = {key: old[key] for key in _INPUTS if key in old}
    if not job.get("pipelineSpec"):
        raise RequestError(f"{run.id} has no pipeline spec, so it cannot be rerun.")
    spec = PipelineSpec(job["pipelineSpec"])
    if not from_failed or not list_cached_tasks(spec):
        job["pipelineSpec"] = switch_cache(spec, from_failed).content
    if PINNED_BY in run.labels:
        job["runtimeConfig"] = attempts.without_pins(job)["runtimeConfig"]
    if parameters:
        config = job.setdefault("runtimeConfig", {})
        values = {**config.get("parameterValues", {}), **_parse_changes(run, parameters, members)}
        config["parameterValues"] = expanded(values)
    if runtime:
        job["runtimeConfig"] = {**job.get("runtimeConfig", {}), **runtime}
    kept = {key: value for key, value in run.labels.items() if key not in _DROPPED}
    rerun_of = {_RERUN_OF: run.id} if resource_names.in_label(run.id) else {}
    labels = {**kept, **rerun_of, MANAGED_BY[0]: MANAGED_BY[1], REQUEST: digest([run.name, job])}
    name = {} if run.display_name in ("", run.id) else {"displayName": run.display_name}
    job = {**job, **name, "labels": labels}
    return attempts.with_pins_of(job, run) if from_failed else job


def rerun(
    settings: Settings,
    reference: str,
    parameters: Sequence[str] = (),
    *,
    from_failed: bool = False,
    new: bool = False,
    max_usd: float | None = None,
) -> Started:
    """Starts a rerun of `reference`, or finds the rerun that the same command has started.

    Raises:
        RequestError: there is no such run; `reference` is `latest` and the run is active; a parameter is invalid; or
            the rerun can cost more than `max_usd`.
        WorkFailed: the persistent resource of the settings does not run; nothing was started.
    """
    old = run_search.find(settings, reference)
    if run_search.is_latest(reference) and not old.over:
        # Otherwise a repeated command would rerun its own rerun.
        raise RequestError(f"{reference} is {old.id}, which is still running. Give its id: vgp rerun {old.id}.")
    policy = Policy(if_exists="new" if new else "attach")
    members = partial(workflow_files.list_members, old.pipeline, settings.repository)
    is_local = old.pipeline in workflow_files.find_workflows(settings.repository)
    expand = partial(workflow_files.expand_arguments, old.pipeline, repository=settings.repository, folder=Path.cwd())
    body = build_body(
        old, parameters, from_failed=from_failed, members=members if is_local else dict,
        expanded=expand if is_local else dict, runtime=default_runtime(settings),
    )  # fmt: skip
    if max_usd is not None:  # the cost of all steps, because with --from-failed the cache may be empty
        cost_bound.refuse_above(check([Document(old.id, body, "")], regions=[old.region]).steps, max_usd)
    require_persistent_resource(settings)
    job, fresh = attempts.start(settings, body, policy)
    return Started(settings, read(job), fresh, policy, of=old.id, from_failed=from_failed)


def _parse_changes(run: Run, texts: Sequence[str], members: Members) -> JsonObject:
    """Parses and checks the values of `--set`; parameters that are not set have the old run's values as defaults."""
    parameters = {
        name: replace(parameter, has_default=True, default=run.arguments[name]) if name in run.arguments else parameter
        for name, parameter in run.spec.parameters.items()
    }
    values = parse_arguments(parameters, texts, members)
    spec_ladder.refuse_sizes(run.spec, values)
    return values
