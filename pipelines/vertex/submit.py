"""Starting a run exactly once: the job's body, an id that follows from it, and a create that can be repeated."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from pipelines import __version__
from pipelines.errors import RequestError
from pipelines.settings import Settings
from pipelines.vertex import clients, names
from pipelines.vertex.errors import explained

#: The label that tells our runs and schedules from others.
MANAGED_BY = ("managed-by", "vertex-gpu-pipelines")
_POLICIES = {"fast": "PIPELINE_FAILURE_POLICY_FAIL_FAST", "slow": "PIPELINE_FAILURE_POLICY_FAIL_SLOW"}


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
    spec's. The label `request` is the digest of everything that determines what the run does.
    """
    made = {
        "pipelineSpec": spec if caching is None else cached(spec, caching),
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
    made = {key: value for key, value in made.items() if value is not None}
    text = json.dumps(made, sort_keys=True, separators=(",", ":"))
    request = hashlib.sha256(text.encode()).hexdigest()[:32]
    return {**made, "labels": _labels(settings, spec, request, labels or {})}


def job_id(body: Mapping[str, Any], *, given: str | None = None, new: bool = False) -> str:
    """The id of the run: `given`, or one that follows from the request, or with `new` a random one.

    The same request gives the same id, so a repeated submission finds the run that it started before.
    """
    if given:
        return names.job_id(given)
    return f"{pipeline_name(body['pipelineSpec'])}-{secrets.token_hex(10) if new else body['labels']['request'][:20]}"


def pipeline_name(spec: Mapping[str, Any]) -> str:
    return str(spec["pipelineInfo"]["name"])


def message(body: Mapping[str, Any]) -> Any:
    """`body` as Google's message; fields that it does not have are refused."""
    from google.cloud.aiplatform_v1.types import PipelineJob
    from google.protobuf import json_format

    made = PipelineJob()
    json_format.ParseDict(body, PipelineJob.pb(made))
    return made


def create(settings: Settings, body: Mapping[str, Any], job_id: str) -> tuple[Any, bool]:
    """The PipelineJob of this id, and whether this call started it. At most one run is started, however often called.

    A create whose answer was lost is repeated under the same id; Google then says that it exists, and the label
    `request` proves that it is the same one.

    Raises:
        RequestError: the id belongs to a run of another request.
        WorkFailed: Google refused, or could not be reached.
    """
    from google.api_core import exceptions

    client = clients.pipeline_service(settings)
    with explained(f"start {job_id}", settings):
        found, started = _find(client, settings, job_id), False
        if found is None:
            job = message({"displayName": job_id, **body})
            request = {"parent": names.location(settings), "pipeline_job": job, "pipeline_job_id": job_id}
            started = True
            try:
                found = client.create_pipeline_job(request=request, **clients.reading())
            except exceptions.Conflict:
                found = _find(client, settings, job_id)
                if found is None:
                    raise
    if found.labels.get("request") != body["labels"]["request"]:
        raise RequestError(f"the id {job_id} belongs to a run of another request. Leave --id out, or choose another.")
    return found, started


def _find(client: Any, settings: Settings, job_id: str) -> Any:
    from google.api_core import exceptions

    try:
        return client.get_pipeline_job(name=names.job(settings, job_id), **clients.reading())
    except exceptions.NotFound:
        return None


def _labels(settings: Settings, spec: Mapping[str, Any], request: str, more: Mapping[str, str]) -> dict[str, str]:
    ours = {
        MANAGED_BY[0]: MANAGED_BY[1],
        "pipeline": pipeline_name(spec),
        "request": request,
        "version": __version__.replace(".", "-"),
    }
    if settings.environment:
        ours["environment"] = settings.environment
    return names.labels({**settings.labels, **more, **ours})


def cached(spec: Mapping[str, Any], enabled: bool) -> dict[str, Any]:
    """The spec with caching of every task, in all its DAGs, switched on or off."""
    copied: dict[str, Any] = json.loads(json.dumps(spec))
    for dag in [copied["root"], *copied.get("components", {}).values()]:
        for task in dag.get("dag", {}).get("tasks", {}).values():
            task["cachingOptions"] = {"enableCache": True} if enabled else {}
    return copied
