"""`vgp schedule backfill`: runs past nights of a schedule, each once, with the data of its own time.

A night is a run time of the cron expression, even if the schedule did not exist then. The run of a night has a key of
its own, so a command that is repeated, killed, or started twice at once starts no night twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING

from vgp.base.clock import Clock
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.check import cost_bound
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import commit
from vgp.settings import Settings
from vgp.vertex import resource_names, rest
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.preflight import require_basics
from vgp.vertex.runs import attempts, pipeline_job, run_search
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.start_policy import Policy
from vgp.vertex.schedules import declared_schedule, schedule_fields, schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration, marks, without_resource
from vgp.vertex.schedules.scheduled_nights import (
    CANCELLED,
    FAILED,
    MISSED,
    NIGHT,
    WAITING,
    Night,
    format_label,
    list_backfilled,
    list_nights,
)

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import PipelineJob

#: The parameter with the time whose data a run reads.
AS_OF = "as_of"
#: The most nights without --yes, and in any case.
MOST, LIMIT = 100, 10_000
#: Seconds between two polls of the runs: after a change, and at most.
FIRST_S, LONGEST_S = 10.0, 60.0
_ACTIVE = ("queued", "pending", "running", "paused", "cancelling")


@dataclass(frozen=True)
class Backfill:
    """The nights of a range, with the earlier results that decide which of them to run."""

    declaration: Declaration
    times: Sequence[datetime]
    #: Nights of the range that have run already, by the schedule, a rerun or a backfill.
    before: dict[datetime, Night] = field(repr=False)
    retry: bool = False

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def todo(self) -> list[datetime]:
        return [time for time in self.times if self.runs(time)]

    def runs(self, time: datetime) -> bool:
        """Whether to run the night: it has no run, or its run failed and `retry` is set."""
        before = self.before.get(time)
        return before is None or (self.retry and before.kind in (FAILED, CANCELLED))

    def local(self, time: datetime) -> datetime:
        return time.astimezone(self.declaration.cron.zone)

    @property
    def most_usd(self) -> float | None:
        """The highest cost of the nights to run, or None if a step has no price."""
        steps = self.declaration.steps
        return None if cost_bound.find_unpriced_steps(steps) else cost_bound.most_usd(steps) * len(self.todo)


def backfill(
    settings: Settings, name: str, first: date, last: date, *, retry: bool = False, yes: bool = False
) -> Backfill:
    """Plans the nights of the schedule `name` from the day `first` to the day `last`, both in its time zone.

    Raises:
        RequestError: there is no such schedule, its pipeline has no `as_of`, the range has no night or a future one,
            or more than MOST nights without `yes`.
    """
    (declaration,) = declared_schedule.read_declarations(settings, [name])
    _refuse_without_as_of(declaration)
    with explain_errors(f"backfill {name}", settings):
        now = rest.now(
            settings, "aiplatform", f"v1/{resource_names.location(settings)}/schedules", fields="nextPageToken"
        )
        times = _list_times(declaration, first, last, now)
        plan = Backfill(declaration, times, _read_earlier_nights(settings, declaration, times[0], now), retry)
    if len(plan.todo) > MOST and not yes:
        raise RequestError(
            f"these are {len(plan.todo)} nights of {name}, one run each. For more than {MOST}, pass --yes; "
            "--dry-run lists them."
        )
    return plan


def run(
    settings: Settings,
    plan: Backfill,
    *,
    preflight: bool = True,
    clock: Clock | None = None,
    log: Callable[[str], None] = print,
) -> dict[datetime, Run]:
    """Runs the nights, with at most the schedule's concurrent runs, waits for all, and returns the run of each night.

    Raises:
        WorkFailed: Google refused or could not be reached; a repeated command continues.
    """
    if preflight and plan.todo:
        require_basics(without_resource(settings))
    return _Runner(settings, plan, clock or Clock(), log).run()


class _Runner:
    """The loop that starts the waiting nights and follows the active ones."""

    def __init__(self, settings: Settings, plan: Backfill, clock: Clock, log: Callable[[str], None]) -> None:
        self.settings, self.plan, self.clock, self.log = settings, plan, clock, log
        self.waiting = list(plan.todo)
        self.runs = {time: night.run for time, night in plan.before.items() if night.run and time not in self.waiting}
        self.active = {time for time, run in self.runs.items() if not run.over}

    def run(self) -> dict[datetime, Run]:
        wait = FIRST_S
        while self.waiting or self.active:
            changed = self.start()
            if self.active or self.waiting:
                wait = FIRST_S if changed else min(1.4 * wait, LONGEST_S)
                self.clock.sleep(wait)
                self.poll()
        return self.runs

    def start(self) -> bool:
        """Starts as many nights as the schedule's limit allows; returns whether it may have started any."""
        most = self.plan.declaration.declared.max_concurrent_runs
        room = max(0, most - len(self.active | self.list_other_runs())) if self.waiting else 0
        for time in self.waiting[:room]:
            job, fresh = self.start_night(time)
            self.runs[time] = run = read(job)
            self.active |= set() if run.over else {time}
            self.report(time, f"{'started' if fresh else 'is running as' if not run.over else 'ran as'} {run.id}")
        self.waiting = self.waiting[room:]
        return bool(room)

    def start_night(self, time: datetime) -> tuple["PipelineJob", bool]:
        before = self.plan.before.get(time)
        request = build_job(self.settings, self.plan.declaration, time)
        if before and before.run:
            whole = run_search.find(self.settings, before.run.id)
            request = attempts.with_pins_of(request, whole)
        return attempts.start(self.settings, request, Policy(window=None, retry=self.plan.retry))

    def list_other_runs(self) -> set[str]:
        """Lists active runs with the schedule's label that are not nights of this backfill."""
        own_names = {run.name for run in self.runs.values()}
        return {
            run.name
            for run in schedule_list.runs(self.settings, self.plan.name, states=_ACTIVE)
            if run.name not in own_names
        }

    def poll(self) -> None:
        for time in sorted(self.active):
            run = run_search.find(self.settings, self.runs[time].id)
            if run.over:
                self.runs[time] = run
                self.active.discard(time)
                self.report(time, f"{run.state}  {run.id}")

    def report(self, time: datetime, text: str) -> None:
        left = len(self.waiting) - (time in self.waiting)
        more = f"  ({left} to start)" if left else ""
        self.log(f"{self.plan.local(time):%a %Y-%m-%d %H:%M %Z}  {text}{more}")


def build_job(settings: Settings, declaration: Declaration, time: datetime) -> JsonObject:
    """Returns the PipelineJob of a night: that of the schedule, with the night's time as `as_of` and as its key."""
    job = declaration.job
    values = {**job["runtimeConfig"]["parameterValues"], AS_OF: f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    return pipeline_job.build_body(
        without_resource(settings),
        job["pipelineSpec"],
        values,
        labels={**marks(settings, declaration.name), NIGHT: format_label(time)},
        template_uri=job.get("templateUri"),
        code=job["labels"].get(commit.LABEL, ""),
        key=f"{time.astimezone(UTC):%Y-%m-%d-%H%M}",
    )


def _read_earlier_nights(
    settings: Settings, declaration: Declaration, first: datetime, now: datetime
) -> dict[datetime, Night]:
    """Returns the nights from `first` on that have run already: by the schedule, a rerun or a backfill."""
    runs = schedule_list.runs(settings, declaration.name, since=first.isoformat(), steps=True)
    result = list_backfilled(PipelineSpec(declaration.job["pipelineSpec"]), runs)
    for schedule in schedule_list.group_by_name(settings, schedule_list.existing_schedules(settings)).get(
        declaration.name, []
    )[:1]:
        nights = list_nights(schedule, schedule_fields.spec(schedule), runs, first, now)
        result |= {night.time: night for night in nights if night.kind not in (MISSED, WAITING)}
    return result


def _list_times(declaration: Declaration, first: date, last: date, now: datetime) -> list[datetime]:
    """Returns the nights of the range, in UTC."""
    cron, name = declaration.cron, declaration.name
    if last < first:
        raise RequestError(f"--from {first} is after --to {last}.")
    begin = datetime(first.year, first.month, first.day, tzinfo=cron.zone) - timedelta(days=1)
    due = dropwhile(lambda moment: moment.date() < first, cron.runs(begin))
    local = list(islice(takewhile(lambda moment: moment.date() <= last, due), LIMIT + 1))
    if not local:
        raise RequestError(f"{name} ({cron}) has no night from {first} to {last}.")
    if len(local) > LIMIT:
        raise RequestError(f"{name} has more than {LIMIT:,} nights from {first} to {last}: take a shorter range.")
    if local[-1].astimezone(UTC) > now:
        next_ = next(moment for moment in local if moment.astimezone(UTC) > now)
        past = [moment for moment in local if moment.date() < next_.date()]  # the nights of whole days
        until = (
            f"Give --to {past[-1]:%Y-%m-%d} at the latest."
            if past
            else "Only days of which all nights are past can be run."
        )
        raise RequestError(f"the night of {next_:%a %Y-%m-%d %H:%M %Z} has not come yet. {until}")
    return [moment.astimezone(UTC) for moment in local]


def _refuse_without_as_of(declaration: Declaration) -> None:
    spec = PipelineSpec(declaration.job["pipelineSpec"])
    if AS_OF not in spec.parameters:
        raise RequestError(
            f"the pipeline {spec.name} has no parameter {AS_OF}: every night would see the data of today. "
            "Give it one, and hand it to the step that resolves what moves: pipelines/training.py shows how."
        )
    values = declaration.job["runtimeConfig"]["parameterValues"]
    for key in filter(values.get, (AS_OF, pipeline_job.PINS)):
        raise RequestError(
            f"schedules.{declaration.name} sets {key}: every night would be the same. Take it out there."
        )
