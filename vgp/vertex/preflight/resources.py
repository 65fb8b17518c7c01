"""Checks that the persistent resources, TensorBoards and network attachments of training jobs exist.

Their names are read from the compiled pipeline, which has every rung of every ladder, and every size.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from vgp.check.spec import spec_ladder
from vgp.check.spec.dag import table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings
from vgp.vertex import rest
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options
from vgp.vertex.resource_names import short

#: States of a persistent resource in which it runs jobs.
_AT_WORK = ("RUNNING", "REBOOTING", "UPDATING")


@dataclass(frozen=True)
class _Kind:
    """A kind of resource: the name of its check, its API and version, and the gcloud command that lists it."""

    check: str
    api: str
    version: str
    list_command: str


_KINDS = {
    "persistentResources": _Kind("persistent.running", "aiplatform", "v1", "gcloud ai persistent-resources list"),
    "tensorboards": _Kind("tensorboard.exists", "aiplatform", "v1", "gcloud ai tensorboards list"),
    "networkAttachments": _Kind(
        "attachment.exists", "compute", "compute/v1", "gcloud compute network-attachments list"
    ),
}


def list_questions(settings: Settings, project: Project, spec: PipelineSpec) -> Iterator[Question]:
    """Lists one question for each resource."""
    for name, region in dict.fromkeys(_list_names(settings, project, spec)):
        regional, kind = settings.model_copy(update={"region": region}), _KINDS[name.split("/")[4]]
        yield Question(kind.check, name, partial(_check, regional, name, kind))


def _check(settings: Settings, name: str, kind: _Kind) -> Iterator[Finding]:
    """https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.persistentResources#State"""
    from google.api_core import exceptions

    try:
        api = kind.api
        state = rest.call(settings, api, f"{kind.version}/{name}", **call_options()).get("state")
    except exceptions.NotFound:
        place = "" if kind.api == "compute" else f" --region={settings.region}"
        hint = f"Those there: {kind.list_command} --project={name.split('/')[1]}{place}"
        yield Finding(kind.check, name, "error", "is not there", hint)
        return
    if kind.check != "persistent.running":
        yield Finding(kind.check, name, "ok", "is there")
    elif state in _AT_WORK:
        yield Finding(kind.check, name, "ok", f"is {state.lower()}")
    else:
        hint = f"gcloud ai persistent-resources describe {short(name)} --region={settings.region}"
        yield Finding(kind.check, name, "error", f"is {str(state).lower()}: no job starts on it", hint)


def _list_names(settings: Settings, project: Project, spec: PipelineSpec) -> Iterator[tuple[str, str]]:
    """Yields the names of the resources with their regions."""
    for job, region in _list_jobs(settings, spec):
        if resource := job.get("persistentResourceId"):
            yield f"projects/{project.id}/locations/{region}/persistentResources/{resource}", region
        if board := job.get("tensorboard"):
            yield str(board), region
        if attachment := table(job, "pscInterfaceConfig").get("networkAttachment"):
            yield str(attachment), region


def _list_jobs(settings: Settings, spec: PipelineSpec) -> Iterator[tuple[Mapping[str, object], str]]:
    """Yields the fields of every job with its region: jobs of rungs, and the arguments of Google's wrapper."""
    for component in spec.components.values():
        ladder = spec_ladder.plan(table(spec.executor(component), "container"))
        for rung in ladder["rungs"] if ladder else ():
            yield table(rung, "job", "jobSpec"), str(rung.get("region"))
        inputs = table(component.content, "inputDefinitions", "parameters")
        if "worker_pool_specs" in inputs:
            # A placeholder, such as {{$.pipeline_persistent_resource_id}}, has no name before the run.
            defaults = {name: table(inputs, name).get("defaultValue") for name in inputs}
            arguments = {name: value for name, value in defaults.items() if "{{" not in str(value)}
            connect = arguments.get("psc_interface_config")
            job = {
                "persistentResourceId": arguments.get("persistent_resource_id"),
                "tensorboard": arguments.get("tensorboard"),
                "pscInterfaceConfig": {"networkAttachment": table(connect).get("network_attachment")},
            }
            yield job, str(arguments.get("location") or settings.region)
