"""The PipelineJob of a request: its body, its id, a digest of the request, and a create that can be repeated."""

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
from vgp.vertex import clients, resource_names, rest
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.runs.remote_run import restore_integers

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient
    from google.cloud.aiplatform_v1.types import PipelineJob

#: The label that marks the runs and schedules of this product.
MANAGED_BY = ("managed-by", "vertex-gpu-pipelines")
#: Labels: the digest of the request, its key, the number of the attempt, and a random text of the call that created it.
REQUEST, KEY, ATTEMPT, SUBMISSION = "request", "request-key", "attempt", "submission"
#: The label with the id of the run whose pins an attempt uses; empty if the id is too long for a label.
PINNED_BY = "pinned-by"
#: The parameter of a pipeline that takes the URI of pins.
PINS = "pins"
_IDENTITY = (REQUEST, KEY, ATTEMPT, SUBMISSION, PINNED_BY)
#: Milliseconds that a step waits for room on a persistent resource, before it falls back to its own machine.
RESOURCE_WAIT_MS = 600_000
#: The placeholder of kfp for the time of a schedule's run.
SCHEDULE_TIME = "{{$.pipeline_job_schedule_time_utc}}"
_POLICIES = {"fast": "PIPELINE_FAILURE_POLICY_FAIL_FAST", "slow": "PIPELINE_FAILURE_POLICY_FAIL_SLOW"}
#: An id must fit into the value of a label, 63 characters: up to 35 for the pipeline's name and the key (at least 10
#: for the name), 21 for the digest, 7 for the attempt (-a99999).
_LABEL, _ID_HEAD, _ID_NAME = 63, 35, 10


def build_body(
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
    """Returns the PipelineJob for the REST API,
    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.pipelineJobs

    Its label `request` is a digest of everything that determines what the run does, and where. A value that equals the
    parameter's default does not change the digest.

    Args:
        values: Parameters that were checked against the spec.
        caching: Whether steps may use cached results; None keeps the setting of each step in the spec.
        key: Makes a request of its own of an otherwise equal one.
        code: The commit of the spec, for a label; not part of the digest.
    """
    values = {**_registry(settings, PipelineSpec(spec)), **values}
    config = {
        "gcsOutputDirectory": f"{clients.bucket(settings)}/runs",
        "parameterValues": dict(values),
        "failurePolicy": _POLICIES[settings.failure_policy],
        **default_runtime(settings),
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
    user_labels = {**settings.labels, **(labels or {})}
    arguments = {"parameterValues": restore_integers({**PipelineSpec(spec).defaults, **values})}
    decisive = {**job, "runtimeConfig": {**config, **arguments}}
    place = [settings.project, settings.region, settings.environment, settings.experiment]
    request = {REQUEST: digest([decisive, place, user_labels, key]), **({KEY: key} if key else {})}
    # Not part of the digest, because it does not change what a run does.
    validation = {"preflightValidations": True} if settings.preflight_validations else {}
    code_label = {commit.LABEL: code} if commit.is_commit(code) else {}
    return {**job, **validation, "labels": {**code_label, **_build_labels(settings, spec, request, user_labels)}}


def default_runtime(settings: Settings) -> JsonObject:
    """Returns the part of the runtime configuration that names the persistent resource; empty without one.

    With Google's defaults (no wait, then failure) a busy resource would fail the run. Training jobs of Google's wrapper
    never fall back: their persistent resource is the placeholder `{{$.pipeline_persistent_resource_id}}`.
    https://cloud.google.com/vertex-ai/docs/pipelines/persistent-resources. Not verified on Vertex AI.
    """
    if not settings.persistent_resource:
        return {}
    detail = {
        "persistentResourceName": resource_names.persistent_resource(settings, settings.persistent_resource),
        "taskResourceUnavailableWaitTimeMs": str(RESOURCE_WAIT_MS),
        "taskResourceUnavailableTimeoutBehavior": "FALL_BACK_TO_ON_DEMAND",
    }
    return {"defaultRuntime": {"persistentResourceRuntimeDetail": detail}}


def _registry(settings: Settings, spec: PipelineSpec) -> dict[str, str]:
    """Returns the parameter `registry` for a template that was compiled without it, or for another environment."""
    root = settings.registry_root
    default = "" if root == f"{settings.bucket}/registry" else None  # a run finds the default registry by itself
    others = [other for other in ("", *settings.registries.values()) if other not in (root, default)]
    return {"registry": root} if root and uses_registry(spec, others) else {}


def digest(request: object) -> str:
    """Returns a digest of a JSON value for ids and labels: 32 hexadecimal digits."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def job_id(body: JsonObject, *, own_id: str | None = None) -> str:
    """Returns the id of the run: `own_id`, else pipeline, key and digest: `training-26127078f4d132249daf`.

    Equal requests have equal ids, so a repeated submission finds the run that it started.

    Raises:
        RequestError: `own_id` is not a valid id.
    """
    if own_id is not None:
        return resource_names.job_id(own_id)
    name, key = _plain_name(body["pipelineSpec"]), body["labels"].get(KEY, "")
    head = f"{name[: max(_ID_HEAD - len(key) - 1, _ID_NAME)]}-{key}" if key else name
    head = head if head[:1].isalpha() else f"run-{head}"
    return f"{head[:_ID_HEAD]}-{body['labels'][REQUEST][:20]}"


def _plain_name(spec: Mapping[str, object]) -> str:
    """Returns the pipeline's name in characters that ids and labels may have."""
    return re.sub(r"[^a-z0-9-]", "-", PipelineSpec(spec).name.lower())


def message(body: JsonObject) -> "PipelineJob":
    """Returns the body as a message. Raises json_format.ParseError for an unknown field."""
    from google.cloud.aiplatform_v1.types import PipelineJob
    from google.protobuf import json_format

    job = PipelineJob()
    json_format.ParseDict(body, PipelineJob.pb(job))
    return job


def create(settings: Settings, body: JsonObject, job_id: str) -> tuple["PipelineJob", bool]:
    """Returns the PipelineJob with this id, and whether this call started it. Repeated calls start one run.

    Raises:
        RequestError: the id belongs to a run of another request.
    """
    client = clients.pipeline_service(settings)
    with explain_errors(f"start {job_id}", settings):
        job = find(client, settings, job_id)
        if job is None:
            return create_free(client, settings, body, job_id)
        require_same_request(job, body)
        return job, False


def create_free(
    client: "PipelineServiceClient", settings: Settings, body: JsonObject, job_id: str
) -> tuple["PipelineJob", bool]:
    """Creates a PipelineJob under an id that seems free; returns the job with the id, and whether this call created it.

    A create without an answer is repeated with the same id. If Google then refuses because the id exists, the label
    `submission` shows whether this call created the run.

    Raises:
        RequestError: the id belongs to a run of another request. Also raises Google's errors.
    """
    from google.api_core import exceptions

    submission = secrets.token_hex(8)
    labels = resource_names.labels({**body["labels"], SUBMISSION: submission})
    try:
        return send(
            client, settings, {"displayName": job_id, **drop_schedule_time(body), "labels": labels}, job_id
        ), True
    except exceptions.Conflict:
        existing = find(client, settings, job_id)
        if existing is None:
            raise
        require_same_request(existing, body)
        return existing, existing.labels.get(SUBMISSION) == submission


def drop_schedule_time(body: JsonObject) -> JsonObject:
    """Returns the job with an empty text in place of the schedule's time, which a run without a schedule does not have.

    What Google passes in such a run is not documented. The digest of the request was computed before.
    """
    text = json.dumps(body["pipelineSpec"]).replace(f'"{SCHEDULE_TIME}"', '""')
    return {**body, "pipelineSpec": json.loads(text)}


def send(client: "PipelineServiceClient", settings: Settings, body: JsonObject, job_id: str) -> "PipelineJob":
    """Sends the create and returns the job, through v1beta1 if the body names a persistent resource.

    v1 has no field for it. The call is a plain one, because the import of Google's v1beta1 clients takes seconds.
    """
    from google.cloud.aiplatform_v1.types import PipelineJob
    from google.protobuf import json_format

    parent = resource_names.location(settings)
    if "defaultRuntime" not in body.get("runtimeConfig", {}):
        request = {"parent": parent, "pipeline_job": message(body), "pipeline_job_id": job_id}
        return client.create_pipeline_job(request=request, **clients.reading())
    query = {"pipelineJobId": job_id}
    path = f"v1beta1/{parent}/pipelineJobs"
    answer, job = rest.call(settings, "aiplatform", path, query=query, body=body, **clients.reading()), PipelineJob()
    json_format.ParseDict(answer, PipelineJob.pb(job), ignore_unknown_fields=True)
    return job


def find(client: "PipelineServiceClient", settings: Settings, job_id: str) -> "PipelineJob | None":
    """Returns the PipelineJob, or None if it does not exist."""
    from google.api_core import exceptions

    try:
        return client.get_pipeline_job(name=resource_names.job(settings, job_id), **clients.reading())
    except exceptions.NotFound:
        return None


def require_same_request(job: "PipelineJob", body: JsonObject) -> None:
    """Raises RequestError if the job is a run of another request."""
    if job.labels.get(REQUEST) != body["labels"][REQUEST]:
        taken = resource_names.short(job.name)
        raise RequestError(f"the id {taken} belongs to a run of another request. Omit --id, or choose another id.")


def _build_labels(
    settings: Settings, spec: Mapping[str, object], request: Mapping[str, str], user_labels: Mapping[str, str]
) -> dict[str, str]:
    reserved = [key for key in user_labels if key in _IDENTITY]
    if reserved:
        raise RequestError(
            f"labels.{reserved[0]}: this label is reserved for identifying runs and attempts. Use another name."
        )
    own = {
        MANAGED_BY[0]: MANAGED_BY[1],
        "pipeline": _plain_name(spec)[:_LABEL],
        **request,
        "version": __version__.replace(".", "-"),
    }
    if settings.environment:
        own["environment"] = settings.environment
    # Validates the number of labels with those that an attempt adds.
    resource_names.labels({**dict.fromkeys(_IDENTITY, ""), **user_labels, **own})
    return {**user_labels, **own}
