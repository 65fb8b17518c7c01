"""The PipelineJob of a request: its body, an id that follows from it, and a create that can be repeated."""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from vgp import __version__
from vgp.errors import RequestError
from vgp.settings import Settings
from vgp.spec.caching import switched
from vgp.spec.pipeline_spec import PipelineSpec
from vgp.vertex import clients, names
from vgp.vertex.errors import explained

#: The label that tells our runs and schedules from others.
MANAGED_BY = ("managed-by", "vertex-gpu-pipelines")
#: The label with the digest of a request, and the one that tells which of several callers started the run.
REQUEST, SUBMISSION = "request", "submission"
_POLICIES = {"fast": "PIPELINE_FAILURE_POLICY_FAIL_FAST", "slow": "PIPELINE_FAILURE_POLICY_FAIL_SLOW"}
#: Characters of a pipeline's name that its runs' ids begin with: an id has 128, a label's value 63.
_ID_NAME, _LABEL_NAME = 100, 63


def body(
    settings: Settings,
    spec: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    caching: bool | None = None,
    labels: Mapping[str, str] | None = None,
    template_uri: str | None = None,
) -> dict[str, Any]:
    """The PipelineJob as the REST API takes it, https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.pipelineJobs

    `values` are parameters that were checked against the spec. `caching` overrides every step's; None leaves the
    spec's. The label `request` is the digest of everything that determines what the run does, and where.
    """
    job = {
        "pipelineSpec": spec if caching is None else switched(PipelineSpec(spec), caching).content,
        "runtimeConfig": {
            "gcsOutputDirectory": f"{clients.bucket(settings)}/runs",
            "parameterValues": dict(values),
            "failurePolicy": _POLICIES[settings.failure_policy],
        },
        "serviceAccount": settings.service_account,
        "network": settings.network,
        "encryptionSpec": {"kmsKeyName": settings.encryption_key} if settings.encryption_key else None,
        "templateUri": template_uri,
    }
    job = {key: value for key, value in job.items() if value is not None}
    asked = {**settings.labels, **(labels or {})}
    place = [settings.project, settings.region, settings.environment, settings.experiment]
    return {**job, "labels": _labels(settings, spec, digest([job, place, asked]), asked)}


def digest(request: Any) -> str:
    """What stands for a request in ids and labels: equal for equal JSON."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def job_id(body: Mapping[str, Any], *, chosen: str | None = None, new: bool = False) -> str:
    """The id of the run: `chosen`, or one that follows from the request, or with `new` a random one.

    The same request gives the same id, so a repeated submission finds the run that it started before.
    """
    if chosen:
        return names.job_id(chosen)
    name = _plain(body["pipelineSpec"])[:_ID_NAME]
    name = name if name[:1].isalpha() else f"run-{name}"
    return f"{name}-{secrets.token_hex(10) if new else body['labels'][REQUEST][:20]}"


def _plain(spec: Mapping[str, Any]) -> str:
    """The pipeline's name in letters that ids and labels may have."""
    return re.sub(r"[^a-z0-9-]", "-", PipelineSpec(spec).name.lower())


def message(body: Mapping[str, Any]) -> Any:
    """`body` as Google's message; fields that it does not have are refused."""
    from google.cloud.aiplatform_v1.types import PipelineJob
    from google.protobuf import json_format

    job = PipelineJob()
    json_format.ParseDict(body, PipelineJob.pb(job))
    return job


def create(settings: Settings, body: Mapping[str, Any], job_id: str) -> tuple[Any, bool]:
    """The PipelineJob of exactly this id, and whether this call started it. However often called, one run is started.

    Raises:
        RequestError: the id belongs to a run of another request.
        WorkFailed: Google refused, or could not be reached.
    """
    client = clients.pipeline_service(settings)
    with explained(f"start {job_id}", settings):
        job = find(client, settings, job_id)
        return (job, False) if job and same(job, body) else created(client, settings, body, job_id)


def created(client: Any, settings: Settings, body: Mapping[str, Any], job_id: str) -> tuple[Any, bool]:
    """The PipelineJob of an id that seems to be free, and whether this call started it, with Google's own errors.

    A create whose answer was lost is repeated under the same id. Google then says that the id exists, and the label
    `submission` tells whether this call or somebody else was first.
    """
    from google.api_core import exceptions

    submission = secrets.token_hex(8)
    labels = names.labels({**body["labels"], SUBMISSION: submission})
    job = message({"displayName": job_id, **body, "labels": labels})
    request = {"parent": names.location(settings), "pipeline_job": job, "pipeline_job_id": job_id}
    try:
        return client.create_pipeline_job(request=request, **clients.reading()), True
    except exceptions.Conflict:
        job = find(client, settings, job_id)
        if job is None:
            raise
        return job, same(job, body) and job.labels.get(SUBMISSION) == submission


def find(client: Any, settings: Settings, job_id: str) -> Any:
    """The PipelineJob; None if there is none."""
    from google.api_core import exceptions

    try:
        return client.get_pipeline_job(name=names.job(settings, job_id), **clients.reading())
    except exceptions.NotFound:
        return None


def same(job: Any, body: Mapping[str, Any]) -> bool:
    """True: the job is a run of this request.

    Raises:
        RequestError: it is one of another request.
    """
    if job.labels.get(REQUEST) != body["labels"][REQUEST]:
        taken = names.short(job.name)
        raise RequestError(f"the id {taken} belongs to a run of another request. Leave --id out, or choose another.")
    return True


def _labels(settings: Settings, spec: Mapping[str, Any], request: str, asked: Mapping[str, str]) -> dict[str, str]:
    ours = {
        MANAGED_BY[0]: MANAGED_BY[1],
        "pipeline": _plain(spec)[:_LABEL_NAME],
        REQUEST: request,
        "version": __version__.replace(".", "-"),
    }
    if settings.environment:
        ours["environment"] = settings.environment
    return names.labels({**asked, **ours})
