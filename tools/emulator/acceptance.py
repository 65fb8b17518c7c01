"""The steps of scripts/acceptance.sh on the loopback cloud, with the behaviour that Google documents."""

from typing import TYPE_CHECKING, Any

from vgp.machines.catalog import catalog

from .custom_jobs import Job
from .errors import ApiError
from .messages import new

if TYPE_CHECKING:
    from .cloud import Cloud

#: The account that the acceptance may not act as: tools/acceptance/checks.py.
MISSING_ACCOUNT = "acceptance-missing"
ACT_AS = (
    f"You do not have permission to act as service_account: {MISSING_ACCOUNT}@test-project.iam.gserviceaccount.com."
)
#: The call that starts a run.
CREATE = "aiplatform.projects.locations.pipelineJobs.create"
LATE = "The replica workerpool0-0 exited with a non-zero status of 124. To find out more, see the logs."


def add_scripts(cloud: "Cloud") -> None:
    """Adds the scripts of the steps, and quotas of a project."""
    cloud.on(CREATE, lambda call: _refuse(cloud, call))
    cloud.script("write", outputs=lambda task: _write(cloud, task), metadata={"file": {"uid": 1000}})
    metadata = {"model": {"steps": 3, "driver": "550.90.07, Tesla T4"}}
    cloud.script("fit", outputs=lambda task: _fit(cloud, task), metadata=metadata, uris={"model": "-kept"})
    cloud.script("stay", outputs=lambda task: _stay(cloud, task), seconds=36_000)
    cloud.script("late", seconds=30, fail=LATE)
    cloud.script("ended", outputs=lambda task: {"Output": f"SUCCEEDED {_run(cloud, task)}"})
    cloud.script("tick", outputs=lambda task: {"Output": task.inputs["scheduled"]})
    listed = {info.metric for info in cloud.quotas.infos.values()}
    for row in catalog.accelerators().values():
        if row.quota and row.quota.metric not in listed:
            cloud.quotas.set(row.quota.metric.rpartition("/")[2], 0, metric=row.quota.metric, region=cloud.region)


def _run(cloud: "Cloud", task: Any) -> str:
    """Returns the resource name of the task's run."""
    return f"projects/{cloud.project_number}/locations/{cloud.region}/pipelineJobs/{task.root.rpartition('/')[2]}"


def _write(cloud: "Cloud", task: Any) -> dict[str, Any]:
    _upload(cloud, f"{task.output_uri(task.root, 'file')}")
    return {"Output": task.inputs["value"]}


def _fit(cloud: "Cloud", task: Any) -> dict[str, Any]:
    """Creates the custom job of a training step, with the account, network and key of its run."""
    run = next(call.body for call in reversed(cloud.requests) if call.method == CREATE)
    message = new("CustomJob")
    message.name = f"projects/{cloud.project_number}/locations/{cloud.region}/customJobs/{task.id}"
    message.job_spec.service_account = run.get("serviceAccount", "")
    message.job_spec.network = run.get("network", "")
    message.encryption_spec.kms_key_name = run.get("encryptionSpec", {}).get("kmsKeyName", "")
    cloud.custom_jobs.jobs[message.name] = Job(message, cloud.clock.now(), 60, None)
    return {}


def _stay(cloud: "Cloud", task: Any) -> dict[str, Any]:
    marks = task.output_uri(task.root, "marks")
    _upload(cloud, f"{marks}/began")
    cloud.on("aiplatform.projects.locations.pipelineJobs.cancel", lambda call: _upload(cloud, f"{marks}/sigterm-000"))
    return {}


def _upload(cloud: "Cloud", uri: str) -> None:
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    cloud.storage.upstream()
    status, *_ = cloud.storage.ask("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", body=b"x")
    assert status == 200, uri


def _refuse(cloud: "Cloud", call: Any) -> None:
    if MISSING_ACCOUNT in str(call.body.get("serviceAccount")):
        for name in [name for name in cloud.pipeline_jobs.jobs if name.endswith("-missing")]:
            del cloud.pipeline_jobs.jobs[name]
        raise ApiError(400, ACT_AS)
