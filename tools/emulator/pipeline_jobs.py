"""Vertex AI's pipeline jobs, which run on the cloud's clock.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.pipelineJobs
"""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from . import job_details, pipeline_spec
from .call import Call
from .errors import ApiError, precondition_error
from .listing import Filter, one_page, sort_items
from .live_steps import LONG, LiveRun, Watch
from .machines import Machines
from .messages import new, parse, set_time, to_json
from .plan import Planner, Script, Task
from .schema import camel

if TYPE_CHECKING:
    from .cloud import Cloud

JOB_ID = re.compile(r"[a-z][-a-z0-9]{0,127}")
FILTERS = {
    "pipeline_name": "= !=",
    "display_name": "= != :",
    "pipeline_job_user_id": "= != :",
    "state": "= !=",
    "create_time": "= != < > <= >=",
    "update_time": "= != < > <= >=",
    "end_time": "= != < > <= >=",
    "labels.*": "= != :",
    "schedule_name": "=",  # not documented; Google's SDK uses it
    "template_uri": "= != :",
    "template_metadata.version": "= != :",
}
ORDERS = ("create_time", "update_time", "end_time", "start_time")
PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLING, CANCELLED = 2, 3, 4, 5, 6, 7
FINAL = (SUCCEEDED, FAILED, CANCELLED)


@dataclass
class Job:
    name: str
    #: The request; shared by all runs of a schedule, and never changed.
    request: Any
    spec: dict[str, Any]
    created: datetime
    started: datetime
    tasks: list[Task]
    schedule: str = ""
    cancelled: datetime | None = None
    #: Time from a cancel to the end.
    stopping: timedelta = timedelta(seconds=5)
    labels: dict[str, str] = field(default_factory=dict)
    #: Its live steps, and the function that plans the run again.
    live: LiveRun | None = None
    plan: Callable[[], list[Task]] = list

    @property
    def planned_end(self) -> datetime:
        return max((task.end for task in self.tasks), default=self.started)

    @property
    def end(self) -> datetime:
        return min(self.planned_end, self.cancelled + self.stopping) if self.cancelled else self.planned_end

    def state(self, now: datetime) -> int:
        if self.cancelled and now >= self.cancelled and self.cancelled < self.planned_end:
            return CANCELLED if now >= self.end else CANCELLING
        if now < self.started:
            return PENDING
        if now < self.end:
            return RUNNING
        return FAILED if self.list_failed_tasks() else SUCCEEDED

    def list_failed_tasks(self) -> list[Task]:
        return [task for task in self.tasks if task.final == "FAILED" and task.parent_id == 0]


class PipelineJobs:
    prefix = "aiplatform.projects.locations.pipelineJobs"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.jobs: dict[str, Job] = {}
        self.scripts: list[Script] = []
        self.cache: dict[str, Task] = {}
        #: Time before the first task of a job starts.
        self.pending = timedelta(seconds=10)
        self._next_task = 7_000_000_000_000_000_000
        self.machines: Machines | None = None
        self._watch: Watch | None = None

    def works(self, machines: Machines) -> None:
        """Lets the steps of later runs be processes on this machine."""
        self.machines, self._watch = machines, self._watch or Watch(self.cloud)

    def close(self) -> None:
        if self._watch:
            self._watch.close()
        for job in self.jobs.values():
            if job.live:
                job.live.close()

    def next_id(self) -> int:
        self._next_task += 1
        return self._next_task

    def settle(self) -> None:
        """Plans runs with live steps again until nothing changes."""
        now = self.cloud.clock.now()
        for job in list(self.jobs.values()):
            while job.live and job.live.has_changed(now):
                job.live.due.clear()
                job.tasks = job.plan()
                if job.cancelled:
                    job.stopping = LONG if job.live.active else now - job.cancelled

    def create(self, call: Call) -> Any:
        parent = self.cloud.resource(call.parent, "aiplatform.pipelineJobs.create")
        config = dict(call.body.get("runtimeConfig", {}))
        runtime = config.pop("defaultRuntime", {})  # a field of v1beta1, which the message of v1 lacks
        request = parse({**call.body, "runtimeConfig": config}, new("PipelineJob"))
        self.cloud.policies.act_as(request.service_account or self.cloud.accounts.compute)
        spec = pipeline_spec.checked(request, self.cloud.templates)
        job_id = call.query.get("pipelineJobId") or f"{spec['pipelineInfo']['name'][:100]}-{secrets.token_hex(4)}"
        job = self.start(parent, job_id, request, spec, runtime=runtime)
        message = to_json_job(job, self.cloud.clock.now())
        if not runtime:
            return message
        answer = to_json(message)
        return {**answer, "runtimeConfig": {**answer["runtimeConfig"], "defaultRuntime": runtime}}

    def start(
        self,
        parent: str,
        job_id: str,
        request: Any,
        spec: dict[str, Any],
        *,
        schedule: str = "",
        scheduled: datetime | None = None,
        at: datetime | None = None,
        runtime: dict[str, Any] | None = None,
    ) -> Job:
        """Raises:
        ApiError: 400 for an invalid id, 409 for one that exists.
        """
        if not JOB_ID.fullmatch(job_id):
            raise ApiError(400, f"Invalid pipeline_job_id: {job_id!r}. It must match {JOB_ID.pattern}.")
        name = f"{parent}/pipelineJobs/{job_id}"
        if name in self.jobs:
            raise ApiError(409, f"PipelineJob {name} already exists.")
        now = at or self.cloud.clock.now()
        root = f"{request.runtime_config.gcs_output_directory.rstrip('/')}/{self.cloud.project_number}/{job_id}"
        resource = (runtime or {}).get("persistentResourceRuntimeDetail", {}).get("persistentResourceName", "")
        placeholder_values = placeholders(name, str(self._next_task), request, now, scheduled)
        # Empty without a resource, according to the custom job of google_cloud_pipeline_components.
        placeholder_values["pipeline_persistent_resource_id"] = resource.rpartition("/")[2]
        live = LiveRun(self.cloud, self.machines, placeholder_values) if self.machines else None
        fast = request.runtime_config.failure_policy == 2
        values = pipeline_spec.parameters(request, spec)

        def plan() -> list[Task]:
            planner = Planner(spec, self.scripts, self.cache, root, self._next_task, placeholder_values, live)
            tasks = planner.plan(values, now + self.pending, fail_fast=fast)
            self._next_task = max(self._next_task, planner.next_id)
            return tasks

        job = self.jobs[name] = Job(
            name, request, spec, now, now + self.pending, plan(), schedule, live=live, plan=plan
        )
        job.labels = {"vertex-ai-pipelines-run-billing-id": str(self._next_task)}
        if live:
            live.labels = job.labels
        return job

    def going_on(self, run: str, step: str) -> Job:
        """Starts a run of one step that lasts until it is cancelled, for a test that acts as that step."""
        self.scripts = [Script(step, seconds=LONG.total_seconds())]
        container = {"image": "image"}
        spec = {
            "pipelineInfo": {"name": run},
            "schemaVersion": "2.1.0",
            "root": {"dag": {"tasks": {step: {"componentRef": {"name": f"comp-{step}"}}}}},
            "components": {f"comp-{step}": {"executorLabel": f"exec-{step}"}},
            "deploymentSpec": {"executors": {f"exec-{step}": {"container": container}}},
        }
        parent = self.cloud.resource(f"projects/{self.cloud.project}/locations/{self.cloud.region}", "")
        return self.start(parent, run, new("PipelineJob"), spec)

    def find(self, name: str, permission: str) -> Job:
        job = self.jobs.get(self.cloud.resource(name, permission))
        if job is None:
            raise ApiError(404, f"The PipelineJob does not exist: {name}.")
        return job

    def get(self, call: Call) -> Any:
        return to_json_job(self.find(call.name, "aiplatform.pipelineJobs.get"), self.cloud.clock.now())

    def list(self, call: Call) -> dict[str, Any]:
        parent = self.cloud.resource(call.parent, "aiplatform.pipelineJobs.list")
        matches = Filter(call.query.get("filter", ""), FILTERS)
        now = self.cloud.clock.now()

        def names() -> Any:
            jobs = [job for name, job in self.jobs.items() if name.startswith(f"{parent}/")]
            jobs = [job for job in reversed(jobs) if not matches.text or matches.test(filter_fields(job, now))]
            orders = call.query.get("orderBy") or "create_time desc"
            return [job.name for job in sort_items(jobs, orders, ORDERS, lambda job, key: moment_of(job, key, now))]

        page, following = self.cloud.pages.cut_page(call.query, names)
        shown = [render_list_item(self.jobs[n], now, call.query.get("readMask", "")) for n in page if n in self.jobs]
        return one_page("pipelineJobs", shown, following)

    def cancel(self, call: Call) -> dict[str, Any]:
        job, now = self.find(call.name, "aiplatform.pipelineJobs.cancel"), self.cloud.clock.now()
        if job.state(now) in FINAL:
            raise precondition_error(f"The PipelineJob {job.name} has ended and cannot be cancelled.")
        self.stop(job)
        return {}

    def stop(self, job: Job) -> None:
        now = self.cloud.clock.now()
        job.cancelled = job.cancelled or now
        if job.live:
            job.live.cancel()
            job.stopping = LONG if job.live.active else job.stopping
        for task in job.tasks:
            if task.end > now and self.cache.get(task.fingerprint) is task:
                del self.cache[task.fingerprint]

    def batchCancel(self, call: Call) -> dict[str, Any]:
        """Cancels the active jobs; if one is unknown, none is cancelled."""
        now = self.cloud.clock.now()
        jobs = [self.find(name, "aiplatform.pipelineJobs.cancel") for name in call.body["names"]]
        for job in jobs:
            if job.state(now) not in FINAL:
                self.stop(job)
        kind = "type.googleapis.com/google.cloud.aiplatform.v1.BatchCancelPipelineJobsResponse"
        shown = [to_json(message_of(job, now)) for job in jobs]
        return self.cloud.operations.finish(call.parent, {"@type": kind, "pipelineJobs": shown})

    def delete(self, call: Call) -> dict[str, Any]:
        job = self.find(call.name, "aiplatform.pipelineJobs.delete")
        if job.state(self.cloud.clock.now()) not in FINAL:
            raise precondition_error(f"The PipelineJob {job.name} has not ended; only ended ones can be deleted.")
        del self.jobs[job.name]
        return self.cloud.operations.finish_deletion(job.name)


def placeholders(name: str, number: str, request: Any, created: datetime, scheduled: datetime | None) -> dict[str, str]:
    """Returns the values of {{$.pipeline_job_name}} and similar texts; https://kubeflow-pipelines.readthedocs.io/en/stable/source/dsl.html

    The value of the schedule's time in a run without a schedule is not documented, so its text stays.
    """
    times = {"create": created, "schedule": scheduled}
    _, project, _, location, _, job_id = name.split("/")
    return {
        "pipeline_job_name": job_id,
        "pipeline_job_resource_name": name,
        "pipeline_job_uuid": number,
        "pipeline_root": request.runtime_config.gcs_output_directory,
        "pipeline_google_cloud_project_id": project,
        "pipeline_google_cloud_location": location,
        "pipeline_service_account": request.service_account,
        "pipeline_network": request.network,
        "pipeline_encryption_key_name": request.encryption_spec.kms_key_name,
        **{f"pipeline_job_{which}_time_utc": f"{time:%Y-%m-%dT%H:%M:%SZ}" for which, time in times.items() if time},
    }


def message_of(job: Job, now: datetime) -> Any:
    """Returns the job at this time, without its details."""
    message = new("PipelineJob")
    message.CopyFrom(job.request)
    message.name = job.name
    message.state = job.state(now)
    message.schedule_name = job.schedule
    message.labels.update(job.labels)
    message.service_account = (
        message.service_account or f"{job.name.split('/')[1]}-compute@developer.gserviceaccount.com"
    )
    set_time(message, "create_time", job.created)
    for name in ("start_time", "end_time", "update_time"):
        set_time(message, name, moment_of(job, name, now))
    if message.state == CANCELLED:
        message.error.code, message.error.message = 1, f"The PipelineJob {job.name} was cancelled."
    elif message.state == FAILED:
        message.error.code, message.error.message = 9, job_details.failure(job.name, job.list_failed_tasks())
    return message


def moment_of(job: Job, name: str, now: datetime) -> datetime | None:
    passed = [moment for moment in (job.created, job.started, job.end) if moment <= now]
    return {
        "create_time": job.created,
        "start_time": job.started if job.started in passed and job.started <= job.end else None,
        "end_time": job.end if job.end in passed else None,
        "update_time": passed[-1],
    }[name]


def to_json_job(job: Job, now: datetime) -> Any:
    """Returns the job at this time as JSON, with the details of its tasks."""
    message = message_of(job, now)
    job_details.fill(message, job, now)
    return message


def render_list_item(job: Job, now: datetime, mask: str) -> dict[str, Any]:
    """Returns the job as it appears in a list: without details, or only the fields of the mask."""
    if not mask:
        return to_json(message_of(job, now), integers=True)
    shown = to_json(to_json_job(job, now), integers=True)
    return apply_mask(shown, [[camel(part) for part in path.split(".")] for path in mask.split(",")])


def apply_mask(shown: dict[str, Any], paths: list[list[str]]) -> dict[str, Any]:
    kept = {}
    for key in {path[0] for path in paths} & set(shown):
        inside = [path[1:] for path in paths if path[0] == key]
        kept[key] = shown[key] if [] in inside else apply_mask(shown[key], inside)
    return kept


def filter_fields(job: Job, now: datetime) -> dict[str, Any]:
    """Returns the fields of a filter."""
    from google.cloud.aiplatform_v1 import PipelineState

    times = {key: moment_of(job, key, now) for key in ("create_time", "update_time", "end_time")}
    return {
        **{key: moment.isoformat() for key, moment in times.items() if moment},
        "pipeline_name": job.spec["pipelineInfo"]["name"],
        "display_name": job.request.display_name,
        "pipeline_job_user_id": job.name.rpartition("/")[2],
        "state": PipelineState(job.state(now)).name,
        "labels": dict(job.request.labels) | job.labels,
        "schedule_name": job.schedule,
        "template_uri": job.request.template_uri,
        "template_metadata": {"version": job.request.template_metadata.version},
    }
