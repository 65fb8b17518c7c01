"""Starting a request: the run that it has, or the next attempt.

A request has at most one open run, and for a while after its end that run still answers (start_policy.py), so that a
command which was killed, or is repeated by CI, starts nothing twice. Afterwards the request starts anew, as ID-a2,
ID-a3 ... Everybody who asks at the same moment chooses the same number and sends the same job, and Google lets one
have it.

The step `resolve` of a pipeline turns what moves into pins, and the parameter `pins` takes those of an earlier run:
then the finished steps are found in the cache, and training goes on from its checkpoints.
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
from vgp.vertex.google_errors import explained
from vgp.vertex.runs import outputs
from vgp.vertex.runs.pipeline_job import ATTEMPT, PINNED_BY, PINS, REQUEST, created, find, job_id, same
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.start_policy import ENDED, Policy, end_time, is_failed

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient
    from google.cloud.aiplatform_v1.types import PipelineJob

#: The newest runs of the request among which the highest attempt is looked for; beyond them it is found by trying.
_LOOKED_AT = 100
_EPOCH = timedelta(days=EPOCH_DAYS)

#: The step that makes pins, and its output with their URI.
STEP, OUTPUT = "resolve", "uri"
_DONE = ("succeeded", "cached")


def start(settings: Settings, body: JsonObject, policy: Policy | None = None) -> tuple["PipelineJob", bool]:
    """The PipelineJob that answers the request, and whether this call started it.

    Raises:
        WorkFailed: Google refused, or could not be reached; repeating is safe.
    """
    policy, first = policy or Policy(), job_id(body)
    client = clients.pipeline_service(settings)
    with explained(f"start {first}", settings):
        asked = rest.now(settings, "aiplatform", f"v1/{resource_names.job(settings, first)}")
        job, number = _answering(client, settings, body, first)
        while job is None or not policy.answers(job, asked):
            number += 1
            goes_on = job and is_failed(job) and not policy.begins_anew and asked - end_time(job) <= _EPOCH
            attempt = _attempt(body, number, job if goes_on else None)
            job, started = created(client, settings, attempt, _id(first, number))
            if started or _is_of_another_caller(job, asked, policy):
                return job, started
    return job, False


def _answering(
    client: "PipelineServiceClient", settings: Settings, body: JsonObject, first: str
) -> tuple["PipelineJob | None", int]:
    """The run that stands for the request, and the highest of its attempts; (None, 0) if it has none.

    That is one which is open, else the one that ended last. A list may lack what was created a moment ago: the first
    attempt is asked for by its id, later ones are found when their id turns out to be taken.
    """
    job = find(client, settings, first)
    runs = [*islice(_runs(client, settings, body), _LOOKED_AT), *([job] if job else [])]
    number = max((_number(first, resource_names.short(run.name)) for run in runs), default=0)
    if runs:
        chosen = resource_names.short(max(runs, key=_recency).name)
        if job is None or chosen != first:
            job = find(client, settings, chosen) or job
    if job:
        same(job, body)
    return job, number


def _runs(client: "PipelineServiceClient", settings: Settings, body: JsonObject) -> Iterable["PipelineJob"]:
    """The runs of the request, newest first; those of --id are among them."""
    from google.protobuf.field_mask_pb2 import FieldMask

    request = {
        "parent": resource_names.location(settings),
        "filter": f'labels.{REQUEST}="{body["labels"][REQUEST]}"',
        "order_by": "create_time desc",
        "page_size": _LOOKED_AT,
        "read_mask": FieldMask(paths=["name", "state", "create_time", "update_time", "end_time"]),
    }
    return client.list_pipeline_jobs(request=request, **clients.reading())


def _recency(job: "PipelineJob") -> tuple[bool, datetime]:
    return job.state.name not in ENDED, end_time(job)


def _is_of_another_caller(job: "PipelineJob", asked: datetime, policy: Policy) -> bool:
    """Whether the attempt, whose id was taken, is that of somebody who asked at the same time: it answers, even if it
    failed at once. An older one is one that the list did not have.
    """
    return policy.if_exists != "new" and bool(job.create_time >= asked)


def _attempt(body: JsonObject, number: int, before: "PipelineJob | None") -> JsonObject:
    """The job of one attempt; it goes on with what the one `before` had pinned."""
    job = {**body, "labels": {**body["labels"], ATTEMPT: str(number)}}
    return going_on(job, read(before)) if before else job


def _id(first: str, number: int) -> str:
    return first if number == 1 else f"{first}-a{number}"


def _number(first: str, id_: str) -> int:
    """Which attempt the id is; 0: none, but a run of --id."""
    attempt = re.fullmatch(rf"{re.escape(first)}(?:-a(\d+))?", id_)
    return int(attempt[1] or 1) if attempt else 0


def pins(run: Run) -> str:
    """URI of what the run has pinned; empty if it has resolved nothing, or if its pins may be what failed.

    A run that ended before its step `resolve` did has those that it was to go on with.
    """
    if _at_fault(run):
        return ""
    uris = [outputs.values(step).get(OUTPUT) for step in run.steps if step.task == STEP and step.state in _DONE]
    uri = uris[0] if uris else run.arguments.get(PINS)
    return uri if isinstance(uri, str) and is_bucket_uri(uri) and not placeholders.within(uri) else ""


def _at_fault(run: Run) -> bool:
    """Whether no step but `resolve`, or not even that, got through with the pins of an earlier run: what they name
    may be gone or wrong, and there is nothing that one could go on with.
    """
    failed = run.failed()
    before = takewhile(lambda step: step not in failed, run.steps)
    done = any(step.state in _DONE and step.task != STEP for step in before)
    return PINNED_BY in run.labels and bool(failed) and not done


def going_on(body: JsonObject, run: Run) -> JsonObject:
    """The job `body` with the pins of an earlier run, or to be pinned anew where that has none.

    Pins that the caller gave stay; so does a pipeline that knows no pins.
    """
    if not _takes(body) or _is_given(body):
        return dict(body)
    job = unpinned(body)
    uri = pins(run)
    if not uri:
        return job
    config = job["runtimeConfig"]
    values = {**config["parameterValues"], PINS: uri}
    labels = {**job["labels"], PINNED_BY: run.id if resource_names.in_label(run.id) else ""}
    return {**job, "labels": labels, "runtimeConfig": {**config, "parameterValues": values}}


def unpinned(body: JsonObject) -> JsonObject:
    """The job without pins, and without the label that says whose they were."""
    config = body.get("runtimeConfig", {})
    values = {key: value for key, value in config.get("parameterValues", {}).items() if key != PINS}
    labels = {key: value for key, value in body.get("labels", {}).items() if key != PINNED_BY}
    return {**body, "labels": labels, "runtimeConfig": {**config, "parameterValues": values}}


def _takes(body: JsonObject) -> bool:
    """Whether the pipeline has a parameter for pins."""
    declared = PipelineSpec(body["pipelineSpec"]).parameters.get(PINS)
    return declared is not None and declared.type == "STRING"


def _is_given(body: JsonObject) -> bool:
    """Whether the job has pins of the caller's own."""
    return PINS in body.get("runtimeConfig", {}).get("parameterValues", {}) and PINNED_BY not in body["labels"]
