"""What training jobs name and do not make: persistent resources, TensorBoards and network attachments.

They are read from the compiled pipeline, so from every rung of every ladder, and from every size.
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
from vgp.vertex.preflight.preflight_questions import Finding, Question, patience
from vgp.vertex.resource_names import short

#: States of a persistent resource in which jobs go on.
_AT_WORK = ("RUNNING", "REBOOTING", "UPDATING")


@dataclass(frozen=True)
class _Kind:
    """How one kind of them is looked for: the check, API, version, and the command that lists those there."""

    check: str
    api: str
    version: str
    listed: str


_KINDS = {
    "persistentResources": _Kind("persistent.running", "aiplatform", "v1", "gcloud ai persistent-resources list"),
    "tensorboards": _Kind("tensorboard.exists", "aiplatform", "v1", "gcloud ai tensorboards list"),
    "networkAttachments": _Kind(
        "attachment.exists", "compute", "compute/v1", "gcloud compute network-attachments list"
    ),
}


def questions(settings: Settings, project: Project, spec: PipelineSpec) -> Iterator[Question]:
    """One for each of them."""
    for name, region in dict.fromkeys(_named(settings, project, spec)):
        there, kind = settings.model_copy(update={"region": region}), _KINDS[name.split("/")[4]]
        yield Question(kind.check, name, partial(_look, there, name, kind))


def _look(settings: Settings, name: str, kind: _Kind) -> Iterator[Finding]:
    """https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.persistentResources#State"""
    from google.api_core import exceptions

    try:
        api = kind.api
        state = rest.call(settings, api, f"{kind.version}/{name}", **patience()).get("state")
    except exceptions.NotFound:
        place = "" if kind.api == "compute" else f" --region={settings.region}"
        hint = f"Those there: {kind.listed} --project={name.split('/')[1]}{place}"
        yield Finding(kind.check, name, "error", "is not there", hint)
        return
    if kind.check != "persistent.running":
        yield Finding(kind.check, name, "ok", "is there")
    elif state in _AT_WORK:
        yield Finding(kind.check, name, "ok", f"is {state.lower()}")
    else:
        hint = f"gcloud ai persistent-resources describe {short(name)} --region={settings.region}"
        yield Finding(kind.check, name, "error", f"is {str(state).lower()}: no job starts on it", hint)


def _named(settings: Settings, project: Project, spec: PipelineSpec) -> Iterator[tuple[str, str]]:
    """Resource names and their regions."""
    for job, region in _jobs(settings, spec):
        if resource := job.get("persistentResourceId"):
            yield f"projects/{project.id}/locations/{region}/persistentResources/{resource}", region
        if board := job.get("tensorboard"):
            yield str(board), region
        if attachment := table(job, "pscInterfaceConfig").get("networkAttachment"):
            yield str(attachment), region


def _jobs(settings: Settings, spec: PipelineSpec) -> Iterator[tuple[Mapping[str, object], str]]:
    """The fields of every job with its region: of a ladder's rungs, and of what Google's wrapper is given."""
    for component in spec.components.values():
        ladder = spec_ladder.plan(table(spec.executor(component), "container"))
        for rung in ladder["rungs"] if ladder else ():
            yield table(rung, "job", "jobSpec"), str(rung.get("region"))
        inputs = table(component.content, "inputDefinitions", "parameters")
        if "worker_pool_specs" in inputs:
            # What a run fills in, {{$.pipeline_persistent_resource_id}}, names nothing of a job's own.
            defaults = {name: table(inputs, name).get("defaultValue") for name in inputs}
            given = {name: value for name, value in defaults.items() if "{{" not in str(value)}
            connect = given.get("psc_interface_config")
            found = {
                "persistentResourceId": given.get("persistent_resource_id"),
                "tensorboard": given.get("tensorboard"),
                "pscInterfaceConfig": {"networkAttachment": table(connect).get("network_attachment")},
            }
            yield found, str(given.get("location") or settings.region)
