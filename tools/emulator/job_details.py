"""The details of a pipeline job's tasks (jobDetail).

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.pipelineJobs#PipelineJobDetail
"""

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from .messages import set_time
from .plan import Task
from .wiring import UNKNOWN

if TYPE_CHECKING:
    from .pipeline_jobs import Job

TASK_STATES = {
    "PENDING": 1,
    "RUNNING": 2,
    "SUCCEEDED": 3,
    "CANCELLED": 6,
    "FAILED": 7,
    "SKIPPED": 8,
    "NOT_TRIGGERED": 9,
}
EXECUTION_STATES = {"RUNNING": 2, "SUCCEEDED": 3, "FAILED": 4, "SKIPPED": 5, "CANCELLED": 6}
DEFAULTS: dict[str, Any] = {"NUMBER_INTEGER": 0, "NUMBER_DOUBLE": 0.0, "BOOLEAN": False, "LIST": [], "STRUCT": {}}


def failure(name: str, failed: list[Task]) -> str:
    """Returns the error message of a job with failed tasks."""
    project, job_id = name.split("/")[1], name.rpartition("/")[2]
    tasks = ", ".join(task.name for task in failed)
    return (
        f"The DAG failed because some tasks failed. The failed tasks are: [{tasks}].; "
        f"Job (project_id = {project}, job_id = {job_id}) is failed due to the above error.; "
        f"Failed to handle the job: {{project_number = {project}, job_id = {job_id}}}"
    )


def fill(message: Any, job: "Job", now: datetime) -> None:
    store = f"{job.name.rpartition('/pipelineJobs/')[0]}/metadataStores/default"
    detail = message.job_detail
    if now >= job.started:  # ML Metadata records a job some seconds after its creation
        detail.pipeline_context.name = f"{store}/contexts/{job.spec['pipelineInfo']['name']}"
        detail.pipeline_context.schema_title = "system.Pipeline"
        detail.pipeline_run_context.name = f"{store}/contexts/{job.name.rpartition('/')[2]}"
        detail.pipeline_run_context.schema_title = "system.PipelineRun"
        for task in job.tasks:
            fill_task(detail.task_details.add(), task, job, store, now)


def state_of(task: Task, job: "Job", now: datetime) -> str:
    if job.cancelled and job.cancelled <= now and task.end > job.cancelled:
        running = now < job.end and task.start <= job.cancelled
        return "RUNNING" if running else "CANCELLED" if task.start <= job.cancelled else "NOT_TRIGGERED"
    if now < task.start:
        return "PENDING"
    if task.final == "NOT_TRIGGERED" or now >= task.end:
        return task.final
    return "RUNNING"


def fill_task(detail: Any, task: Task, job: "Job", store: str, now: datetime) -> None:
    state = state_of(task, job, now)
    detail.task_id, detail.task_name, detail.parent_task_id = task.id, task.name, task.parent_id
    detail.task_unique_name = task.unique_name
    detail.state = TASK_STATES[state]
    set_time(detail, "create_time", min(task.start, now))
    if state not in ("PENDING", "NOT_TRIGGERED"):
        set_time(detail, "start_time", task.start)
        fill_execution(detail.execution, task, store, state)
        fill_executor(detail.executor_detail, task, job, now)
    for end in task.failed_tries:
        if end <= now:
            status = detail.pipeline_task_status.add(state=TASK_STATES["FAILED"])
            status.error.code, status.error.message = 9, str(task.script.fail)
            set_time(status, "update_time", end)
    if state in ("SUCCEEDED", "FAILED", "SKIPPED", "NOT_TRIGGERED"):
        set_time(detail, "end_time", task.end)
    elif state == "CANCELLED":
        set_time(detail, "end_time", job.end)
        detail.error.code, detail.error.message = 1, "The task was cancelled."
    if state == "FAILED":
        detail.error.code, detail.error.message = 9, task.error
    for key, (source, output) in task.artifacts.items():
        fill_artifact(detail.inputs[key].artifacts.add(), source, output, job, store)
    if state in ("SUCCEEDED", "SKIPPED"):
        for key in task.component.get("outputDefinitions", {}).get("artifacts", {}):
            if task.executor != "dag":
                fill_artifact(detail.outputs[key].artifacts.add(), task, key, job, store)


def fill_execution(execution: Any, task: Task, store: str, state: str) -> None:
    execution.name = f"{store}/executions/{task.id}"
    execution.display_name = task.name
    execution.schema_title = "system.DagExecution" if task.executor == "dag" else "system.ContainerExecution"
    execution.schema_version = "0.0.1"
    execution.state = EXECUTION_STATES[state]
    metadata = {f"input:{key}": value for key, value in task.inputs.items() if value is not UNKNOWN}
    if state in ("SUCCEEDED", "SKIPPED"):
        metadata |= {f"output:{key}": value for key, value in output_values(task, store).items()}
    json_format.ParseDict(metadata, execution.metadata)


def output_values(task: Task, store: str) -> dict[str, Any]:
    declared = task.component.get("outputDefinitions", {}).get("parameters", {})
    values = {
        k: v if v is not UNKNOWN else DEFAULTS.get(declared[k].get("parameterType"), "")
        for k, v in task.outputs.items()
        if k in declared
    }
    if values.get("gcp_resources") == "":
        values["gcp_resources"] = gcp_resources(task, store)
    return values


def gcp_resources(task: Task, store: str) -> str:
    """Returns the job that a Google component started, as its output `gcp_resources`."""
    parent = store.rpartition("/metadataStores/")[0]
    host = f"https://{parent.rpartition('/')[2]}-aiplatform.googleapis.com/v1"
    source = task.cached_from or task
    uri = f"{host}/{parent}/customJobs/{source.id}"
    return json.dumps({"resources": [{"resourceType": "CustomJob", "resourceUri": uri}]})


def fill_executor(detail: Any, task: Task, job: "Job", now: datetime) -> None:
    """Adds the custom jobs of a task, one for each try."""
    if task.final == "SKIPPED" or task.executor not in ("container", "customJob"):
        return
    name = f"{job.name.rpartition('/pipelineJobs/')[0]}/customJobs/{task.id}"
    failed = [f"{name}{number}" for number, end in enumerate(task.failed_tries) if end <= now]
    if task.executor == "container":
        detail.container_detail.main_job = name
        detail.container_detail.failed_main_jobs.extend(failed)
    else:
        detail.custom_job_detail.job = name
        detail.custom_job_detail.failed_jobs.extend(failed)


def fill_artifact(artifact: Any, task: Task, key: str, job: "Job", store: str) -> None:
    kind = task.component.get("outputDefinitions", {}).get("artifacts", {}).get(key, {}).get("artifactType", {})
    source = task.cached_from or task
    artifact.name = f"{store}/artifacts/{source.id}{sum(key.encode())}"
    artifact.display_name = key
    artifact.uri = task.output_uri(task.root, key) + source.script.uris.get(key, "")
    artifact.schema_title = kind.get("schemaTitle", "system.Artifact")
    artifact.schema_version = kind.get("schemaVersion", "0.0.1")
    artifact.state = 2  # LIVE
    metadata = dict(source.script.metadata.get(key, {}))
    if artifact.schema_title == "system.Metrics":
        metadata |= source.script.metrics
    json_format.ParseDict(metadata, artifact.metadata)
