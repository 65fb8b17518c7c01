"""What a run had pinned, and the attempt after its failure, which goes on with that.

The step `resolve` of a pipeline turns what moves into pins, and the parameter `pins` takes those of an earlier run:
then the finished steps are found in the cache, and training goes on from its checkpoints.
"""

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from vgp.base.text.bucket_uri import is_bucket_uri
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import placeholders
from vgp.vertex import names
from vgp.vertex.runs import outputs
from vgp.vertex.runs.pipeline_job import PINNED_BY
from vgp.vertex.runs.state import Run

#: The parameter that takes the URI of pins, the step that makes them, and its output with their URI.
PARAMETER, STEP, OUTPUT = "pins", "resolve", "uri"
_DONE = ("succeeded", "cached")


def pins(run: Run) -> str:
    """URI of what the run has pinned; empty if it has resolved nothing, or if its pins may be what failed.

    A run that ended before its step `resolve` did has those that it was to go on with.
    """
    if _at_fault(run):
        return ""
    uris = [outputs.values(step).get(OUTPUT) for step in run.steps if step.task == STEP and step.state in _DONE]
    uri = uris[0] if uris else run.arguments.get(PARAMETER)
    return uri if isinstance(uri, str) and is_bucket_uri(uri) and not placeholders.within(uri) else ""


def _at_fault(run: Run) -> bool:
    """Whether no step but `resolve`, or not even that, got through with the pins of an earlier run: what they name
    may be gone or wrong, and there is nothing that one could go on with.
    """
    failed = run.failed()
    before = takewhile(lambda step: step not in failed, run.steps)
    done = any(step.state in _DONE and step.task != STEP for step in before)
    return PINNED_BY in run.labels and bool(failed) and not done


def going_on(body: Mapping[str, Any], run: Run) -> dict[str, Any]:
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
    values = {**config["parameterValues"], PARAMETER: uri}
    labels = {**job["labels"], PINNED_BY: run.id if names.in_label(run.id) else ""}
    return {**job, "labels": labels, "runtimeConfig": {**config, "parameterValues": values}}


def unpinned(body: Mapping[str, Any]) -> dict[str, Any]:
    """The job without pins, and without the label that says whose they were."""
    config = body.get("runtimeConfig", {})
    values = {key: value for key, value in config.get("parameterValues", {}).items() if key != PARAMETER}
    labels = {key: value for key, value in body.get("labels", {}).items() if key != PINNED_BY}
    return {**body, "labels": labels, "runtimeConfig": {**config, "parameterValues": values}}


def _takes(body: Mapping[str, Any]) -> bool:
    """Whether the pipeline has a parameter for pins."""
    declared = PipelineSpec(body["pipelineSpec"]).parameters.get(PARAMETER)
    return declared is not None and declared.type == "STRING"


def _is_given(body: Mapping[str, Any]) -> bool:
    """Whether the job has pins of the caller's own."""
    return PARAMETER in body.get("runtimeConfig", {}).get("parameterValues", {}) and PINNED_BY not in body["labels"]
