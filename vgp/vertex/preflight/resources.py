"""Checks that the persistent resources, TensorBoards and network attachments of training jobs exist.

Their names are read from the compiled pipeline, which has every rung of every ladder, and every size. The persistent
resource of whole runs comes from the settings.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from vgp.base.documents.json_text import JsonObject
from vgp.check.check_finding import StepRow
from vgp.check.spec import spec_ladder
from vgp.check.spec.dag import table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings
from vgp.vertex import rest
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options
from vgp.vertex.resource_names import persistent_resource, short

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


def list_questions(
    settings: Settings, project: Project, spec: PipelineSpec, steps: Sequence[StepRow]
) -> Iterator[Question]:
    """Lists one question for each resource; that of the runs comes first."""
    yield from ask_run_resource(settings, steps)
    for name, region in dict.fromkeys(_list_names(settings, project, spec)):
        regional, kind = settings.model_copy(update={"region": region}), _KINDS[name.split("/")[4]]
        yield Question(kind.check, name, partial(_check, regional, name, kind))


def ask_run_resource(settings: Settings, steps: Sequence[StepRow] = ()) -> list[Question]:
    """Returns the question whether the persistent resource of the runs works and suits `steps`; none without one."""
    if not settings.persistent_resource:
        return []
    name = persistent_resource(settings, settings.persistent_resource)
    kind = _KINDS["persistentResources"]
    return [Question(kind.check, name, partial(_check, settings, name, kind, steps))]


def _check(settings: Settings, name: str, kind: _Kind, steps: Sequence[StepRow] = ()) -> Iterator[Finding]:
    """https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.persistentResources#State"""
    from google.api_core import exceptions

    try:
        api = kind.api
        resource = rest.call(settings, api, f"{kind.version}/{name}", **call_options())
    except exceptions.NotFound:
        place = "" if kind.api == "compute" else f" --region={settings.region}"
        hint = f"Those there: {kind.list_command} --project={name.split('/')[1]}{place}"
        yield Finding(kind.check, name, "error", "is not there", hint)
        return
    state = resource.get("state")
    if kind.check != "persistent.running":
        yield Finding(kind.check, name, "ok", "is there")
    elif state in _AT_WORK:
        yield Finding(kind.check, name, "ok", f"is {state.lower()}")
    else:
        hint = f"gcloud ai persistent-resources describe {short(name)} --region={settings.region}"
        yield Finding(kind.check, name, "error", f"is {str(state).lower()}: no job starts on it", hint)
    if steps and state in _AT_WORK:
        yield from _check_account(name, resource)
        yield from _check_machines(name, resource, steps)


def _check_account(name: str, resource: JsonObject) -> Iterator[Finding]:
    """https://cloud.google.com/vertex-ai/docs/pipelines/persistent-resources#create-persistent-resource"""
    if not table(resource, "resourceRuntimeSpec", "serviceAccountSpec").get("enableCustomServiceAccount"):
        seen = "does not accept the service account of a run"
        hint = "Create it again with gcloud ai persistent-resources create ... --enable-custom-service-account"
        yield Finding("persistent.account", name, "error", seen, hint)


def _check_machines(name: str, resource: JsonObject, steps: Sequence[StepRow]) -> Iterator[Finding]:
    """Compares the machines of the steps with the pools.

    A training job of Google's wrapper needs a pool with its exact machine and enough of them, and never falls back.
    Any other step needs room for its CPU, memory and GPUs, and else runs on its own machine after the wait.
    https://cloud.google.com/vertex-ai/docs/training/persistent-resource-train
    """
    pools = [_read_pool(pool) for pool in resource.get("resourcePools", ())]
    has = f"{short(name)} has {', '.join(_format_machines(pool) for pool in pools) or 'no pool'}"
    for row in steps:
        if row.is_persistent or row.machine_type is None:  # on a resource of its own, or not known
            continue
        is_job = row.launcher_region is not None
        if any(_is_equal(row, pool) if is_job else _has_room(row, pool) for pool in pools):
            continue
        needs = f"needs {_format_machines(row)}; {has}"
        if is_job:
            hint = "Add a pool with this machine, or set the step's machine to one of a pool: such a job must match."
            yield Finding("persistent.machines", row.step, "error", needs, hint)
        else:
            hint = "The step waits 10 minutes for room, and then runs on its own machine."
            yield Finding("persistent.machines", row.step, "warning", needs, hint)


def _read_pool(pool: JsonObject) -> StepRow:
    """Returns a pool as machines; with autoscaling, with its most replicas."""
    machine = table(pool, "machineSpec")
    most = int(table(pool, "autoscalingSpec").get("maxReplicaCount", pool.get("replicaCount", 1)))
    count = int(machine.get("acceleratorCount", 0))
    return StepRow("", machine.get("machineType"), machine.get("acceleratorType"), count, most, "STANDARD", None)


def _is_equal(row: StepRow, pool: StepRow) -> bool:
    """Whether the pool has the exact machine and enough of them."""
    own, other = ((one.machine_type, one.accelerator_type, one.accelerator_count) for one in (row, pool))
    return own == other and (row.replicas or 1) <= (pool.replicas or 1)


def _has_room(row: StepRow, pool: StepRow) -> bool:
    """Whether one machine of the pool is at least as large; true for a machine that the catalog lacks."""
    need, have = row.combination, pool.combination
    if need is None or have is None:
        return True
    same_gpu = need.accelerator is None or (need.accelerator == have.accelerator and need.count <= have.count)
    return same_gpu and need.vcpu <= have.vcpu and need.memory_gb <= have.memory_gb


def _format_machines(row: StepRow) -> str:
    """Returns machines such as `2 x g2-standard-24 (2 x NVIDIA_L4)`."""
    gpus = f" ({row.accelerator_count} x {row.accelerator_type})" if row.accelerator_type else ""
    return f"{row.replicas or '?'} x {row.machine_type}{gpus}"


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
