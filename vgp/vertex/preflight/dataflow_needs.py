"""Checks of Dataflow, for pipelines that use it: permissions of the runner and the workers, machines, quotas."""

from collections.abc import Iterator
from dataclasses import dataclass

from vgp.check.container_facts import engines_of_steps
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.catalog import catalog
from vgp.machines.placement.request_parts import Job
from vgp.settings import Settings
from vgp.vertex import clients, permissions, rest
from vgp.vertex.permissions import ACT_AS, list_needed_permissions
from vgp.vertex.preflight import quota, region, run_bucket, step_image
from vgp.vertex.preflight.access import IMAGES, Policies, Policy, Resource, find_runner
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options

_SERVICE = "compute.googleapis.com"


@dataclass(frozen=True)
class _Need:
    """The amount that all workers together take from one quota of Compute Engine."""

    metric: str
    amount: int
    words: str


def list_questions(settings: Settings, project: Project, policies: Policies, spec: PipelineSpec) -> Iterator[Question]:
    for step, engines in engines_of_steps(spec).items():
        if job := engines.dataflow:
            yield from _list_job_questions(settings, project, policies, step, job)


def _list_job_questions(
    settings: Settings, project: Project, policies: Policies, step: str, job: Job
) -> Iterator[Question]:
    own = find_runner(settings, project)
    worker = job.service_account or own
    yield Question("dataflow.jobs", project.id, lambda: _check_jobs(own, project, policies))
    yield Question("dataflow.worker", worker or "the workers", lambda: _check_worker(worker, project, policies))
    if worker and worker != own:
        yield Question("dataflow.act_as", worker, lambda: _check_act_as(settings, own, worker, project, policies))
        yield Question(
            "dataflow.writer", worker, lambda: run_bucket.check_writer(settings, project, policies, worker, "dataflow")
        )
        yield Question("dataflow.image", worker, lambda: _check_image(settings, worker, job.image, policies))
    yield Question(
        "dataflow.machine", job.machine, lambda: region.check_machine(settings, project, job.machine, job.region)
    )
    yield Question("dataflow.quota", job.region, lambda: _check_quota(settings, project, step, job))


def _check_jobs(own: str | None, project: Project, policies: Policies) -> Iterator[Finding]:
    thing = Resource("dataflow.jobs", project.id, project.id, Policy(), _grant_command(project))
    yield policies.check(own, list_needed_permissions("runner", "project", "dataflow"), thing)


def _check_worker(worker: str | None, project: Project, policies: Policies) -> Iterator[Finding]:
    """https://cloud.google.com/dataflow/docs/concepts/security-and-permissions#worker-service-account"""
    thing = Resource("dataflow.worker", project.id, project.id, Policy(), _grant_command(project))
    yield policies.check(worker, list_needed_permissions("worker", "project"), thing)


def _check_act_as(
    settings: Settings, own: str | None, worker: str, project: Project, policies: Policies
) -> Iterator[Finding]:
    from google.api_core import exceptions

    path = f"v1/projects/-/serviceAccounts/{worker}:getIamPolicy"
    try:
        policy = Policy.from_json(rest.call(settings, "iam", path, body={}, **call_options()))
    except exceptions.NotFound:
        yield Finding("dataflow.act_as", worker, "error", "is not there", "Name another service_account for Dataflow")
        return
    home, grant = permissions.home_project(worker, project.id), permissions.command_to_act_as(worker, project.id)
    yield policies.check(own, (ACT_AS,), Resource("dataflow.act_as", worker, home, policy, grant))


def _check_image(settings: Settings, worker: str, name: str, policies: Policies) -> Iterator[Finding]:
    parts = step_image.parse_image(name)
    if parts:
        thing = Resource(
            "dataflow.image", name, parts.project, step_image.read_repository_policy(settings, parts), parts.grant
        )
        yield policies.check(worker, IMAGES, thing)


def _check_quota(settings: Settings, project: Project, step: str, job: Job) -> Iterator[Finding]:
    """https://cloud.google.com/dataflow/quotas#compute-engine-quotas"""
    parent = f"projects/{project.id}/locations/global/services/{_SERVICE}"
    needs = _list_needs(job)
    limits: dict[str, list[int]] = {need.metric: [] for need in needs}
    for info in clients.quotas(settings).list_quota_infos(parent=parent, **call_options()):
        value = quota.read_limit(info, job.region) if info.metric in limits else None
        if value is not None:
            limits[info.metric].append(value)
    for need in needs:
        subject = f"{need.metric.rsplit('/', 1)[-1]} in {job.region}"
        request = f"{step}: {job.max_workers} workers of Dataflow need {need.words}"
        if not limits[need.metric]:
            hint = f"Look it up: {quota.link_quotas(project)}"
            yield Finding("dataflow.quota", subject, "unknown", f"{request}; the API names no limit for it", hint)
            continue
        value = min(limits[need.metric])
        seen = f"{request}; the limit is {value if value >= 0 else 'none'}"
        if 0 <= value < need.amount:
            hint = (
                f"Ask for more: {quota.link_quotas(project)}\nor take a smaller max_workers of [steps.{step}.dataflow]"
            )
            yield Finding("dataflow.quota", subject, "warning", f"{seen}: fewer will start", hint)
        else:
            yield Finding("dataflow.quota", subject, "ok", seen)


def _list_needs(job: Job) -> list[_Need]:
    family, vcpu = job.machine.split("-")[0], _count_vcpu(job.machine)
    cpus = "cpus" if family in ("e2", "n1") else f"{family}_cpus"
    amounts = [(cpus, vcpu * job.max_workers, "vCPU")] if vcpu else []
    if not job.subnetwork:
        amounts.append(("in_use_addresses", job.max_workers, "addresses"))
    amounts.append(("disks_total_storage", job.disk_gb * job.max_workers, "GB of disk"))
    return [_Need(f"{_SERVICE}/{name}", amount, f"{amount:,} {noun}") for name, amount, noun in amounts]


def _count_vcpu(machine: str) -> int:
    """Returns the vCPU of one machine by the catalog, else by its name; 0 if both leave it open."""
    known = catalog.machines().get(machine)
    size = machine.rsplit("-", 1)[-1]
    return known.vcpu if known else int(size) if size.isdecimal() else 0


def _grant_command(project: Project) -> str:
    return f"gcloud projects add-iam-policy-binding {project.id}"
