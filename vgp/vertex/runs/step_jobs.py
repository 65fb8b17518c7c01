"""The custom jobs behind the steps of a run: those that a step started, and the attempts of a ladder.

A step of Google's components starts a job of its own and returns its name when it is done; a step that runs, or
failed, may not have returned anything. Such a job carries the label with which Google bills the run
(gcp_labels_util.py of google-cloud-pipeline-components 2.22) and the display name that the step gave it: here, the
step's name. The attempts of a ladder, with the time and money spent on each rung, are in a control folder of the
run's bucket.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from vgp.base.errors import WorkFailed
from vgp.base.text.figures import format_duration, format_usd, table
from vgp.base.text.printable import one_line
from vgp.base.text.times import format_local, price_dates
from vgp.protocol.capacity import job_service
from vgp.protocol.capacity.ladder_view import MOST, Attempt, Way, has_ladder, of_run
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.runs.remote_run import Run, Step
from vgp.vertex.runs.run_search import Calls, quoted

BILLING = "vertex-ai-pipelines-run-billing-id"
_MAY_HAVE = ("running", "failed", "cancelling", "cancelled")

_TITLES = ("", "rung", "region", "held", "cost", "steps", "ended")


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


def with_ways(settings: Settings, run: Run) -> Run:
    """The run with the ways up its ladders; a run without any asks for nothing."""
    if not has_ladder(run.spec.content):
        return run
    root = run.job.runtime_config.gcs_output_directory
    with explained(f"read the ladders of {run.id}", settings):
        found = of_run(clients.storage(settings), root, run.id)
    return replace(run, ways=found, steps=tuple(replace(step, ladder_usd=_usd(step, run, found)) for step in run.steps))


def _usd(step: Step, run: Run, found: Sequence[Way]) -> float | None:
    """Two steps of one name leave open whose a way is."""
    own = [way for way in found if way.step == step.task]
    alone = sum(other.task == step.task for other in run.steps) == 1
    return sum(way.usd for way in own) if own and alone and all(way.is_priced for way in own) else None


def with_ways_if_told(settings: Settings, run: Run) -> Run:
    """The same; where Google refuses to tell, the run as it is."""
    with suppress(WorkFailed):
        return with_ways(settings, run)
    return run


def ladder_page(settings: Settings, way: Way) -> RenderableType:
    """The way up one ladder: a line, and a row for each attempt."""
    head = Text.assemble((one_line(way.step), "bold"), f": {one_line(way.words)}")
    deadline = [Text(f"deadline {format_local(way.deadline)}", "dim")] if way.deadline else []
    shown = way.attempts[-MOST:]
    more = [Text(f"the last {len(shown)} of {len(way.attempts)} attempts", "dim")] if shown != way.attempts else []
    lines = [_line(attempt) for attempt in shown]
    drawn = table(_TITLES, lines, right=("held", "cost"), whole=("", "held", "cost", "ended"), gap=2)
    said = [Text(f"{each.number}: {one_line(each.words)}", "dim") for each in shown if each.words and each.outcome]
    link = job_link(settings, way.job)
    now = [Text(f"the job of the moment: {link}", "dim")] if link else []
    days = [Text(each, "dim") for each in filter(None, [price_dates(way.price_dates)])]
    return Group(head, *deadline, *more, drawn, *said, *days, *now)


def _line(attempt: Attempt) -> Sequence[str]:
    lost = f", {attempt.steps_lost:,} lost" if attempt.steps_lost else ""
    return (
        str(attempt.number), one_line(attempt.rung), one_line(attempt.region),
        format_duration(attempt.hours * 3600) if attempt.hours else "",
        format_usd(attempt.usd) if attempt.hours else "",
        f"{attempt.steps}{lost}", one_line(attempt.state),
    )  # fmt: skip


def job_link(settings: Settings, job: str) -> str:
    """The page of a custom job in the console, from its resource name; empty for none."""
    parts = job.split("/")
    if len(parts) != 6 or parts[4] != "customJobs":
        return ""
    return job_service.page(job, clients.project(settings))
