"""The custom jobs that steps of a run started and do not name (yet).

A step of Google's components starts a job of its own and returns its name when it is done; a step that runs, or failed,
may not have returned anything. Such a job carries the label with which Google bills the run (gcp_labels_util.py of
google-cloud-pipeline-components 2.22) and the display name that the step gave it: here, the step's name.
"""

from contextlib import suppress
from dataclasses import replace

from vgp.base.errors import WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.run_search import Calls, quoted
from vgp.vertex.runs.run_steps import Step

BILLING = "vertex-ai-pipelines-run-billing-id"
_MAY_HAVE = ("running", "failed", "cancelling", "cancelled")


def with_started(settings: Settings, run: Run, *, calls: Calls = clients.reading) -> Run:
    """The run, its steps with the jobs that they started. Google's own errors come through."""
    if BILLING not in run.labels or not any(step.state in _MAY_HAVE for step in run.steps):
        return run
    from google.protobuf.field_mask_pb2 import FieldMask

    request = {
        "parent": resource_names.location(settings), "filter": f"labels.{BILLING}={quoted(run.labels[BILLING])}",
        "read_mask": FieldMask(paths=("name", "display_name")),
    }  # fmt: skip
    started: dict[str, list[str]] = {}
    for job in clients.job_service(settings).list_custom_jobs(request=request, **calls()):
        started.setdefault(job.display_name, []).append(resource_names.short(job.name))
    return replace(run, steps=tuple(_with(step, run, started) for step in run.steps))


def started_by(settings: Settings, run: Run, step: Step) -> str:
    """Resource name of the newest job that the step started; empty where there is none. Google's own errors come
    through.
    """
    if BILLING not in run.labels:
        return ""
    there = settings.model_copy(update={"region": _region(run, step)})
    request = {"parent": resource_names.location(there), "filter": f"labels.{BILLING}={quoted(run.labels[BILLING])}"}
    listed = clients.job_service(there).list_custom_jobs(request=request, **clients.once())
    found = [job for job in listed if job.display_name == step.task]
    newest = max(found, key=lambda job: job.create_time.timestamp() if job.create_time else 0.0, default=None)
    return str(newest.name) if newest is not None else ""


def _region(run: Run, step: Step) -> str:
    """Where the step's job runs: the default of the wrapper's input `location`, or with the run."""
    task = next((task for path, task in run.spec.walk() if path == step.path), None)
    inputs = task.component.content.get("inputDefinitions", {}).get("parameters", {}) if task else {}
    region = str(inputs.get("location", {}).get("defaultValue", ""))
    return run.region if "{{" in region or not region else region


def with_started_if_told(settings: Settings, run: Run) -> Run:
    """The run with the jobs that its steps started; where Google refuses to tell, as it is: enough for a link."""
    with suppress(WorkFailed), explained("look for the jobs of the run", settings):
        return with_started(settings, run)
    return run


def _with(step: Step, run: Run, started: dict[str, list[str]]) -> Step:
    """Two steps of one name leave open which of them a job belongs to: it is given to neither."""
    alone = sum(other.task == step.task for other in run.steps) == 1
    if step.state not in _MAY_HAVE or not alone:
        return step
    return replace(step, jobs=tuple(dict.fromkeys([*step.jobs, *started.get(step.task, ())])))
