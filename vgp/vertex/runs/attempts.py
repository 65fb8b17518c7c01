"""Starts a request: finds the run that answers it, or starts the next attempt.

A request has at most one open run, and for some time after its end this run still answers the request
(start_policy.py), so a command that is killed, or repeated by CI, starts nothing twice. After that time, the command
starts another attempt: ID-a2, ID-a3 ... Callers at the same moment choose the same number and send the same job, and
Google creates it once.

The step `resolve` of a pipeline turns moving inputs, such as "the newest data", into pins. The parameter `pins` takes
the pins of an earlier run: then its finished steps are cache hits, and training resumes from its checkpoints.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.google_names import is_bucket_uri
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import placeholders
from vgp.protocol.moment import EPOCH_DAYS
from vgp.settings import Settings
from vgp.vertex import clients, resource_names, rest
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.runs import outputs
from vgp.vertex.runs.pipeline_job import (
    ATTEMPT,
    PINNED_BY,
    PINS,
    REQUEST,
    create_free,
    find,
    job_id,
    require_same_request,
)
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.start_policy import ENDED, Policy, end_time, is_failed

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient
    from google.cloud.aiplatform_v1.types import PipelineJob

#: How many of the request's newest runs are listed to find the highest attempt.
_MAX_LISTED = 100
_EPOCH = timedelta(days=EPOCH_DAYS)

#: The step that writes pins, and its output with their URI.
STEP, OUTPUT = "resolve", "uri"
_DONE = ("succeeded", "cached")


def start(settings: Settings, body: JsonObject, policy: Policy | None = None) -> tuple["PipelineJob", bool]:
    """Returns the PipelineJob that answers the request, and whether this call started it.

    Raises:
        WorkFailed: Google refused, or could not be reached; repeating is safe.
    """
    policy, first = policy or Policy(), job_id(body)
    client = clients.pipeline_service(settings)
    with explain_errors(f"start {first}", settings):
        now = rest.now(settings, "aiplatform", f"v1/{resource_names.job(settings, first)}")
        job, number = _latest_attempt(client, settings, body, first)
        while job is None or not policy.answers(job, now):
            number += 1
            resumes = job and is_failed(job) and not policy.begins_anew and now - end_time(job) <= _EPOCH
            attempt = _attempt_body(body, number, job if resumes else None)
            job, started = create_free(client, settings, attempt, _attempt_id(first, number))
            if started or _is_of_another_caller(job, now, policy):
                return job, started
    return job, False


def _latest_attempt(
    client: "PipelineServiceClient", settings: Settings, body: JsonObject, first: str
) -> tuple["PipelineJob | None", int]:
    """Returns the open run of the request, else the one that ended last, and the highest number of an attempt.

    Returns (None, 0) if the request has no run. A list may lack a run that was just created, so the first attempt is
    read by its id; `start` finds a later one when it tries to create it.
    """
    job = find(client, settings, first)
    runs = [*islice(_runs(client, settings, body), _MAX_LISTED), *([job] if job else [])]
    number = max((_attempt_number(first, resource_names.short(run.name)) for run in runs), default=0)
    if runs:
        latest = resource_names.short(max(runs, key=_recency).name)
        if job is None or latest != first:
            job = find(client, settings, latest) or job
    if job:
        require_same_request(job, body)
    return job, number


def _runs(client: "PipelineServiceClient", settings: Settings, body: JsonObject) -> Iterable["PipelineJob"]:
    """Lists the runs of the request, newest first, including runs with an id from --id."""
    from google.protobuf.field_mask_pb2 import FieldMask

    request = {
        "parent": resource_names.location(settings),
        "filter": f'labels.{REQUEST}="{body["labels"][REQUEST]}"',
        "order_by": "create_time desc",
        "page_size": _MAX_LISTED,
        "read_mask": FieldMask(paths=["name", "state", "create_time", "update_time", "end_time"]),
    }
    return client.list_pipeline_jobs(request=request, **clients.reading())


def _recency(job: "PipelineJob") -> tuple[bool, datetime]:
    return job.state.name not in ENDED, end_time(job)


def _is_of_another_caller(job: "PipelineJob", now: datetime, policy: Policy) -> bool:
    """Whether a concurrent caller has created the job, which then answers this caller, too, even if it has failed.

    A job that is older than `now` was missing from the list, and the policy decides on it.
    """
    return policy.if_exists != "new" and bool(job.create_time >= now)


def _attempt_body(body: JsonObject, number: int, before: "PipelineJob | None") -> JsonObject:
    """Returns the body of an attempt, with the pins of the attempt `before`."""
    job = {**body, "labels": {**body["labels"], ATTEMPT: str(number)}}
    return with_pins_of(job, read(before)) if before else job


def _attempt_id(first: str, number: int) -> str:
    return first if number == 1 else f"{first}-a{number}"


def _attempt_number(first: str, id_: str) -> int:
    """Returns the number of the attempt with this id; 0 for an id from --id."""
    attempt = re.fullmatch(rf"{re.escape(first)}(?:-a(\d+))?", id_)
    return int(attempt[1] or 1) if attempt else 0


def pins(run: Run) -> str:
    """Returns the URI of the run's pins; empty if it has none, or if they may be the reason of its failure.

    A run that ended before its step `resolve` has the pins that it was started with.
    """
    if _may_have_bad_pins(run):
        return ""
    uris = [outputs.step_values(step).get(OUTPUT) for step in run.steps if step.task == STEP and step.state in _DONE]
    uri = uris[0] if uris else run.arguments.get(PINS)
    return uri if isinstance(uri, str) and is_bucket_uri(uri) and not placeholders.within(uri) else ""


def _may_have_bad_pins(run: Run) -> bool:
    """Whether the run had the pins of an earlier run, and failed before any step after `resolve` succeeded.

    The pinned data may be deleted or wrong, and there is no finished step to reuse.
    """
    failed = run.list_failed_steps()
    before = takewhile(lambda step: step not in failed, run.steps)
    has_results = any(step.state in _DONE and step.task != STEP for step in before)
    return PINNED_BY in run.labels and bool(failed) and not has_results


def with_pins_of(body: JsonObject, run: Run) -> JsonObject:
    """Returns the job with the pins of an earlier run, or without pins if the run has none.

    Pins from the caller stay, and a pipeline without the parameter `pins` is returned unchanged.
    """
    if not _takes_pins(body) or _has_own_pins(body):
        return dict(body)
    job = without_pins(body)
    uri = pins(run)
    if not uri:
        return job
    config = job["runtimeConfig"]
    values = {**config["parameterValues"], PINS: uri}
    labels = {**job["labels"], PINNED_BY: run.id if resource_names.in_label(run.id) else ""}
    return {**job, "labels": labels, "runtimeConfig": {**config, "parameterValues": values}}


def without_pins(body: JsonObject) -> JsonObject:
    """Returns the job without pins, and without the label that names their run."""
    config = body.get("runtimeConfig", {})
    values = {key: value for key, value in config.get("parameterValues", {}).items() if key != PINS}
    labels = {key: value for key, value in body.get("labels", {}).items() if key != PINNED_BY}
    return {**body, "labels": labels, "runtimeConfig": {**config, "parameterValues": values}}


def _takes_pins(body: JsonObject) -> bool:
    """Whether the pipeline has the parameter `pins`."""
    declared = PipelineSpec(body["pipelineSpec"]).parameters.get(PINS)
    return declared is not None and declared.type == "STRING"


def _has_own_pins(body: JsonObject) -> bool:
    """Whether the caller has set the job's pins."""
    return PINS in body.get("runtimeConfig", {}).get("parameterValues", {}) and PINNED_BY not in body["labels"]
