"""The custom jobs that the steps of a run start, and the attempts of their ladders.

A step of Google's components starts a custom job, and returns its name only when it ends. Before, the job is found by
the run's billing label (gcp_labels_util.py of google-cloud-pipeline-components 2.22) and by its display name, which in
this product is the name of the step.

The attempts of a ladder, with the time and cost of each, are in a control folder in the run's bucket.
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
from vgp.protocol.capacity.ladder_view import MOST, Attempt, LadderView, has_ladder, of_run
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.runs.remote_run import Run, Step
from vgp.vertex.runs.run_search import Calls, quote_literal

BILLING = "vertex-ai-pipelines-run-billing-id"
#: The states of a step whose job is not in its outputs.
_WITHOUT_OUTPUTS = ("running", "failed", "cancelling", "cancelled")

_TITLES = ("", "rung", "region", "held", "cost", "steps", "ended")


def with_started_jobs(settings: Settings, run: Run, *, calls: Calls = clients.reading) -> Run:
    """Returns the run with the jobs that its steps started. Raises Google's errors."""
    if BILLING not in run.labels or not any(step.state in _WITHOUT_OUTPUTS for step in run.steps):
        return run
    from google.protobuf.field_mask_pb2 import FieldMask

    request = {
        "parent": resource_names.location(settings), "filter": f"labels.{BILLING}={quote_literal(run.labels[BILLING])}",
        "read_mask": FieldMask(paths=("name", "display_name")),
    }  # fmt: skip
    started: dict[str, list[str]] = {}
    for job in clients.job_service(settings).list_custom_jobs(request=request, **calls()):
        started.setdefault(job.display_name, []).append(resource_names.short(job.name))
    return replace(run, steps=tuple(_with_jobs(step, run, started) for step in run.steps))


def newest_started_job(settings: Settings, run: Run, step: Step) -> str:
    """Returns the resource name of the newest job that the step started, or an empty text. Raises Google's errors."""
    if BILLING not in run.labels:
        return ""
    regional = settings.model_copy(update={"region": _job_region(run, step)})
    label = f"labels.{BILLING}={quote_literal(run.labels[BILLING])}"
    request = {"parent": resource_names.location(regional), "filter": label}
    jobs = clients.job_service(regional).list_custom_jobs(request=request, **clients.once())
    of_step = [job for job in jobs if job.display_name == step.task]
    newest = max(of_step, key=lambda job: job.create_time.timestamp() if job.create_time else 0.0, default=None)
    return str(newest.name) if newest is not None else ""


def _job_region(run: Run, step: Step) -> str:
    """Returns the region of the step's job: the default of its component's input `location`, else the run's region."""
    task = next((task for path, task in run.spec.walk() if path == step.path), None)
    inputs = task.component.content.get("inputDefinitions", {}).get("parameters", {}) if task else {}
    region = str(inputs.get("location", {}).get("defaultValue", ""))
    return run.region if "{{" in region or not region else region


def with_started_jobs_if_allowed(settings: Settings, run: Run) -> Run:
    """Returns the run like `with_started_jobs`, or unchanged if Google refuses to list the jobs."""
    with suppress(WorkFailed), explain_errors("look for the jobs of the run", settings):
        return with_started_jobs(settings, run)
    return run


def _with_jobs(step: Step, run: Run, started: dict[str, list[str]]) -> Step:
    """Returns the step with the started jobs of its name, unless another step has this name, too."""
    if step.state not in _WITHOUT_OUTPUTS or not _has_unique_name(step, run):
        return step
    return replace(step, jobs=tuple(dict.fromkeys([*step.jobs, *started.get(step.task, ())])))


def _has_unique_name(step: Step, run: Run) -> bool:
    return sum(other.task == step.task for other in run.steps) == 1


def with_ladders(settings: Settings, run: Run) -> Run:
    """Returns the run with the histories of its ladders; sends no request for a run without ladders."""
    if not has_ladder(run.spec.content):
        return run
    root = run.job.runtime_config.gcs_output_directory
    with explain_errors(f"read the ladders of {run.id}", settings):
        ways = of_run(clients.storage(settings), root, run.id)
    return replace(run, ways=ways, steps=tuple(replace(step, ladder_usd=_usd(step, run, ways)) for step in run.steps))


def _usd(step: Step, run: Run, ways: Sequence[LadderView]) -> float | None:
    """Returns the cost of the step's ladder; None if a price is unknown, or another step has its name."""
    own = [way for way in ways if way.step == step.task]
    is_known = own and _has_unique_name(step, run) and all(way.is_priced for way in own)
    return sum(way.usd for way in own) if is_known else None


def with_ladders_if_allowed(settings: Settings, run: Run) -> Run:
    """Returns the run like `with_ladders`, or unchanged if Google refuses to return their histories."""
    with suppress(WorkFailed):
        return with_ladders(settings, run)
    return run


def render_ladder(settings: Settings, ladder: LadderView) -> RenderableType:
    """Renders the history of a ladder: a summary, and a row for each attempt."""
    head = Text.assemble((one_line(ladder.step), "bold"), f": {one_line(ladder.words)}")
    deadline = [Text(f"deadline {format_local(ladder.deadline)}", "dim")] if ladder.deadline else []
    last = ladder.attempts[-MOST:]
    more = [Text(f"the last {len(last)} of {len(ladder.attempts)} attempts", "dim")] if last != ladder.attempts else []
    cells = [_format_cells(attempt) for attempt in last]
    rows = table(_TITLES, cells, right=("held", "cost"), whole=("", "held", "cost", "ended"), gap=2)
    outcomes = [
        Text(f"{attempt.number}: {one_line(attempt.words)}", "dim")
        for attempt in last
        if attempt.words and attempt.outcome
    ]
    link = job_link(settings, ladder.job)
    current = [Text(f"current job: {link}", "dim")] if link else []
    dates = [Text(text, "dim") for text in filter(None, [price_dates(ladder.price_dates)])]
    return Group(head, *deadline, *more, rows, *outcomes, *dates, *current)


def _format_cells(attempt: Attempt) -> Sequence[str]:
    lost = f", {attempt.steps_lost:,} lost" if attempt.steps_lost else ""
    return (
        str(attempt.number), one_line(attempt.rung), one_line(attempt.region),
        format_duration(attempt.hours * 3600) if attempt.hours else "",
        format_usd(attempt.usd) if attempt.hours else "",
        f"{attempt.steps}{lost}", one_line(attempt.state),
    )  # fmt: skip


def job_link(settings: Settings, job: str) -> str:
    """Returns the link to a custom job's page in the console; empty if `job` is not the resource name of one."""
    parts = job.split("/")
    if len(parts) != 6 or parts[4] != "customJobs":
        return ""
    return job_service.page(job, clients.project(settings))
