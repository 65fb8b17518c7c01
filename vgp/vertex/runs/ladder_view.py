"""The ways up the ladders of a run, from the control folders in its bucket: rungs tried, time and money on each."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from vgp.base.errors import WorkFailed
from vgp.base.text.figures import table, took, usd
from vgp.base.text.printable import one_line
from vgp.base.text.times import local, price_dates
from vgp.protocol.capacity import job_service, ways
from vgp.protocol.capacity.way import MOST, Attempt, Way
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explained
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.run_steps import Step

_TITLES = ("", "rung", "region", "held", "cost", "steps", "ended")


def with_ways(settings: Settings, run: Run) -> Run:
    """The run with the ways up its ladders; a run without any asks for nothing.

    Raises:
        WorkFailed: Google refused or could not be reached.
    """
    if not ways.has_ladder(run.spec.content):
        return run
    root = run.job.runtime_config.gcs_output_directory
    with explained(f"read the ladders of {run.id}", settings):
        found = ways.of_run(clients.storage(settings), root, run.id)
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


def page(settings: Settings, way: Way) -> RenderableType:
    """The way up one ladder: a line, and a row for each attempt."""
    head = Text.assemble((one_line(way.step), "bold"), f": {one_line(way.words)}")
    deadline = [Text(f"deadline {local(way.deadline)}", "dim")] if way.deadline else []
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
        took(attempt.hours * 3600) if attempt.hours else "", usd(attempt.usd) if attempt.hours else "",
        f"{attempt.steps}{lost}", one_line(attempt.state),
    )  # fmt: skip


def job_link(settings: Settings, job: str) -> str:
    """The page of a custom job in the console, from its resource name; empty for none."""
    parts = job.split("/")
    if len(parts) != 6 or parts[4] != "customJobs":
        return ""
    return job_service.page(job, clients.project(settings))
