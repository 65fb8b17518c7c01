"""The PipelineJob of a request: its body, an id that follows from it, and a create that can be repeated."""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from vgp import __version__
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.check.spec.pipeline_spec import PipelineSpec, switch_cache, uses_registry
from vgp.protocol import commit
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.runs.remote_run import whole

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient
    from google.cloud.aiplatform_v1.types import PipelineJob

#: The label that marks the runs and schedules of this product.
MANAGED_BY = ("managed-by", "vertex-gpu-pipelines")
#: The labels with the digest of a request, its key and the number of its attempt, and the one that tells which of
#: several callers started the run.
REQUEST, KEY, ATTEMPT, SUBMISSION = "request", "request-key", "attempt", "submission"
#: The label that names the run whose pins an attempt goes on with; empty where its id is too long.
PINNED_BY = "pinned-by"
#: The parameter of a pipeline that takes the URI of pins.
PINS = "pins"
_IDENTITY = (REQUEST, KEY, ATTEMPT, SUBMISSION, PINNED_BY)
_POLICIES = {"fast": "PIPELINE_FAILURE_POLICY_FAIL_FAST", "slow": "PIPELINE_FAILURE_POLICY_FAIL_SLOW"}
#: Characters of a label's value, and those that are left for the pipeline's name and the key in an id which fits into
#: one: 21 are the digest's, 7 those of attempt -a99999. A long key leaves 10 to the name.
_LABEL, _ID_HEAD, _ID_NAME = 63, 35, 10


def body(
    settings: Settings,
    spec: Mapping[str, object],
    values: JsonObject,
    *,
    caching: bool | None = None,
    labels: Mapping[str, str] | None = None,
    template_uri: str | None = None,
    key: str = "",
    code: str = "",
) -> JsonObject:
    """The PipelineJob as the REST API takes it,
    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.pipelineJobs

    `values` are parameters that were checked against the spec. `caching` overrides every step's; None leaves the
    spec's. The label `request` is the digest of everything that determines what the run does, and where; a value that
    is the parameter's default determines nothing. `key` tells apart what is otherwise the same request. `code` is the
    commit that the spec is of, which is told and determines nothing.
    """
    values = {**_registry(settings, PipelineSpec(spec)), **values}
    config = {
        "gcsOutputDirectory": f"{clients.bucket(settings)}/runs",
        "parameterValues": dict(values),
        "failurePolicy": _POLICIES[settings.failure_policy],
    }
    job = {
        "pipelineSpec": spec if caching is None else switch_cache(PipelineSpec(spec), caching).content,
        "runtimeConfig": config,
        "serviceAccount": settings.service_account,
        "network": settings.network,
        "encryptionSpec": {"kmsKeyName": settings.encryption_key} if settings.encryption_key else None,
        "templateUri": template_uri,
    }
    job = {key: value for key, value in job.items() if value is not None}
    asked = {**settings.labels, **(labels or {})}
    arguments = {"parameterValues": whole({**PipelineSpec(spec).defaults, **values})}
    decisive = {**job, "runtimeConfig": {**config, **arguments}}
    place = [settings.project, settings.region, settings.environment, settings.experiment]
    request = {REQUEST: digest([decisive, place, asked, key]), **({KEY: key} if key else {})}
    code_label = {commit.LABEL: code} if commit.is_commit(code) else {}
    return {**job, "labels": {**code_label, **_labels(settings, spec, request, asked)}}


def _registry(settings: Settings, spec: PipelineSpec) -> dict[str, str]:
    """The registry of the settings for a template that was compiled without one, or for another environment."""
    root = settings.registry_root
    default = "" if root == f"{settings.bucket}/registry" else None  # the place of the run leads to it
    others = [other for other in ("", *settings.registries.values()) if other not in (root, default)]
    return {"registry": root} if root and uses_registry(spec, others) else {}


def digest(request: object) -> str:
    """What stands for a request in ids and labels: equal for equal JSON."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def job_id(body: JsonObject, *, chosen: str | None = None) -> str:
    """The id of the run: `chosen`, or one that follows from the request, `training-2026-11-21-26127078f4d132249daf`.

    The same request gives the same id, so a repeated submission finds the run that it started before.
    """
    if chosen is not None:
        return resource_names.job_id(chosen)
    name, key = _plain(body["pipelineSpec"]), body["labels"].get(KEY, "")
    head = f"{name[: max(_ID_HEAD - len(key) - 1, _ID_NAME)]}-{key}" if key else name
    head = head if head[:1].isalpha() else f"run-{head}"
    return f"{head[:_ID_HEAD]}-{body['labels'][REQUEST][:20]}"


def _plain(spec: Mapping[str, object]) -> str:
    """The pipeline's name in letters that ids and labels may have."""
    return re.sub(r"[^a-z0-9-]", "-", PipelineSpec(spec).name.lower())


def message(body: JsonObject) -> "PipelineJob":
    """`body` as Google's message; fields that it does not have are refused."""
    from google.cloud.aiplatform_v1.types import PipelineJob
    from google.protobuf import json_format

    job = PipelineJob()
    json_format.ParseDict(body, PipelineJob.pb(job))
    return job


def create(settings: Settings, body: JsonObject, job_id: str) -> tuple["PipelineJob", bool]:
    """The PipelineJob of exactly this id, and whether this call started it. However often called, one run is started.

    Raises:
        RequestError: the id belongs to a run of another request.
    """
    client = clients.pipeline_service(settings)
    with explained(f"start {job_id}", settings):
        job = find(client, settings, job_id)
        return (job, False) if job and same(job, body) else created(client, settings, body, job_id)


def created(
    client: "PipelineServiceClient", settings: Settings, body: JsonObject, job_id: str
) -> tuple["PipelineJob", bool]:
    """The PipelineJob of an id that seems to be free, and whether this call started it, with Google's own errors.

    A create whose answer was lost is repeated under the same id. Google then says that the id exists, and the label
    `submission` shows whether this call created the run.
    """
    from google.api_core import exceptions

    submission = secrets.token_hex(8)
    labels = resource_names.labels({**body["labels"], SUBMISSION: submission})
    job = message({"displayName": job_id, **body, "labels": labels})
    request = {"parent": resource_names.location(settings), "pipeline_job": job, "pipeline_job_id": job_id}
    try:
        return client.create_pipeline_job(request=request, **clients.reading()), True
    except exceptions.Conflict:
        there = find(client, settings, job_id)
        if there is None:
            raise
        return there, same(there, body) and there.labels.get(SUBMISSION) == submission


def find(client: "PipelineServiceClient", settings: Settings, job_id: str) -> "PipelineJob | None":
    """The PipelineJob; None if there is none."""
    from google.api_core import exceptions

    try:
        return client.get_pipeline_job(name=resource_names.job(settings, job_id), **clients.reading())
    except exceptions.NotFound:
        return None


def same(job: "PipelineJob", body: JsonObject) -> bool:
    """True: the job is a run of this request.

    Raises:
        RequestError: it is one of another request.
    """
    if job.labels.get(REQUEST) != body["labels"][REQUEST]:
        taken = resource_names.short(job.name)
        raise RequestError(f"the id {taken} belongs to a run of another request. Omit --id, or choose another id.")
    return True


def _labels(
    settings: Settings, spec: Mapping[str, object], request: Mapping[str, str], asked: Mapping[str, str]
) -> dict[str, str]:
    taken = [key for key in asked if key in _IDENTITY]
    if taken:
        raise RequestError(
            f"labels.{taken[0]}: this label is reserved for identifying runs and attempts. Use another name."
        )
    ours = {
        MANAGED_BY[0]: MANAGED_BY[1],
        "pipeline": _plain(spec)[:_LABEL],
        **request,
        "version": __version__.replace(".", "-"),
    }
    if settings.environment:
        ours["environment"] = settings.environment
    resource_names.labels({**dict.fromkeys(_IDENTITY, ""), **asked, **ours})  # all that an attempt may have
    return {**asked, **ours}
