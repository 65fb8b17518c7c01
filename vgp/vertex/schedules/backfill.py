"""`vgp schedule backfill`: past nights of a schedule, each run once, as of its own time.

A night is a time at which the cron fell due, whether the schedule was there then or not. Its run has a key of its own,
so that a command which is repeated, was killed, or is given twice at once starts none twice.
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
from vgp.vertex.google_errors import explained
from vgp.vertex.preflight import refuse_cheaply
from vgp.vertex.runs import attempts, pipeline_job, run_search
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.start_policy import Policy
from vgp.vertex.schedules import declared_schedule, schedule_fields, schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration, marks
from vgp.vertex.schedules.scheduled_nights import (
    CANCELLED,
    FAILED,
    MISSED,
    NIGHT,
    WAITING,
    Night,
    label,
    list_backfilled,
    list_nights,
)

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import PipelineJob

#: The parameter that a run sees its data as of.
AS_OF = "as_of"
#: Nights that are run without --yes, and at all.
MOST, LIMIT = 100, 10_000
#: Seconds between two looks at the runs: the first after a change, and the longest.
FIRST_S, LONGEST_S = 10.0, 60.0
_GOING = ("queued", "pending", "running", "paused", "cancelling")


@dataclass(frozen=True)
class Backfill:
    """The nights of a range, and those of them that are to be run."""

    declaration: Declaration
    times: Sequence[datetime]
    #: What nights of the range have come to before.
    before: dict[datetime, Night] = field(repr=False)
    retry: bool = False

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def todo(self) -> list[datetime]:
        return [time for time in self.times if self.runs(time)]

    def runs(self, time: datetime) -> bool:
        """Whether the night is to be run: it was not, or it failed and is to be retried."""
        before = self.before.get(time)
        return before is None or (self.retry and before.kind in (FAILED, CANCELLED))

    def local(self, time: datetime) -> datetime:
        return time.astimezone(self.declaration.cron.zone)

    @property
    def most_usd(self) -> float | None:
        """The most that the nights to run can cost; None where a step has no price."""
        steps = self.declaration.steps
        return None if cost_bound.find_unpriced_steps(steps) else cost_bound.most_usd(steps) * len(self.todo)


def backfill(
    settings: Settings, name: str, first: date, last: date, *, retry: bool = False, yes: bool = False
) -> Backfill:
    """The nights of the schedule `name` from the day `first` to the day `last`, both by its own time zone.

    Raises:
        RequestError: there is no such schedule, its pipeline has no `as_of`, a night has not come yet, there is none,
            or there are more than MOST without `yes`.
    """
    (declaration,) = declared_schedule.read_declarations(settings, [name])
    _refuse_without_as_of(declaration)
    with explained(f"backfill {name}", settings):
        now = rest.now(
            settings, "aiplatform", f"v1/{resource_names.location(settings)}/schedules", fields="nextPageToken"
        )
        times = _times(declaration, first, last, now)
        made = Backfill(declaration, times, _before(settings, declaration, times[0], now), retry)
    if len(made.todo) > MOST and not yes:
        raise RequestError(
            f"these are {len(made.todo)} nights of {name}, one run each. For more than {MOST}, pass --yes; "
            "--dry-run lists them."
        )
    return made


def run(
    settings: Settings,
    made: Backfill,
    *,
    preflight: bool = True,
    clock: Clock | None = None,
    tell: Callable[[str], None] = print,
) -> dict[datetime, Run]:
    """Runs the nights, no more at a time than the schedule may, and waits for all; the runs by night.

    Raises:
        WorkFailed: Google refused or could not be reached; repeating the command goes on where it ended.
    """
    if preflight and made.todo:
        refuse_cheaply(settings)
    return _Work(settings, made, clock or Clock(), tell).done()


class _Work:
    def __init__(self, settings: Settings, made: Backfill, clock: Clock, tell: Callable[[str], None]) -> None:
        self.settings, self.made, self.clock, self.tell = settings, made, clock, tell
        self.waiting = list(made.todo)
        self.runs = {time: night.run for time, night in made.before.items() if night.run and time not in self.waiting}
        self.going = {time for time, run in self.runs.items() if not run.over}

    def done(self) -> dict[datetime, Run]:
        wait = FIRST_S
        while self.waiting or self.going:
            changed = self.start()
            if self.going or self.waiting:
                wait = FIRST_S if changed else min(1.4 * wait, LONGEST_S)
                self.clock.sleep(wait)
                self.look()
        return self.runs

    def start(self) -> bool:
        """Starts as many nights as there is room for."""
        most = self.made.declaration.declared.max_concurrent_runs
        room = max(0, most - len(self.going | self.others())) if self.waiting else 0
        for time in self.waiting[:room]:
            job, fresh = self.started(time)
            self.runs[time] = run = read(job)
            self.going |= set() if run.over else {time}
            self.print_night(time, f"{'started' if fresh else 'is running as' if not run.over else 'ran as'} {run.id}")
        self.waiting = self.waiting[room:]
        return bool(room)

    def started(self, time: datetime) -> tuple["PipelineJob", bool]:
        before = self.made.before.get(time)
        request = body(self.settings, self.made.declaration, time)
        if before and before.run:
            whole = run_search.find(self.settings, before.run.id)
            request = attempts.going_on(request, whole)
        return attempts.start(self.settings, request, Policy(window=None, retry=self.made.retry))

    def others(self) -> set[str]:
        """Open runs with the schedule's label that are no nights of this backfill."""
        ours = {run.name for run in self.runs.values()}
        return {
            run.name for run in schedule_list.runs(self.settings, self.made.name, states=_GOING) if run.name not in ours
        }

    def look(self) -> None:
        for time in sorted(self.going):
            run = run_search.find(self.settings, self.runs[time].id)
            if run.over:
                self.runs[time] = run
                self.going.discard(time)
                self.print_night(time, f"{run.state}  {run.id}")

    def print_night(self, time: datetime, text: str) -> None:
        left = len(self.waiting) - (time in self.waiting)
        more = f"  ({left} to start)" if left else ""
        self.tell(f"{self.made.local(time):%a %Y-%m-%d %H:%M %Z}  {text}{more}")


def body(settings: Settings, declaration: Declaration, time: datetime) -> JsonObject:
    """The PipelineJob of a night: the schedule's own, as of that time and under a key of its own."""
    job = declaration.job
    values = {**job["runtimeConfig"]["parameterValues"], AS_OF: f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    return pipeline_job.body(
        settings,
        job["pipelineSpec"],
        values,
        labels={**marks(settings, declaration.name), NIGHT: label(time)},
        template_uri=job.get("templateUri"),
        code=job["labels"].get(commit.LABEL, ""),
        key=f"{time.astimezone(UTC):%Y-%m-%d-%H%M}",
    )


def _before(settings: Settings, declaration: Declaration, first: datetime, now: datetime) -> dict[datetime, Night]:
    """What nights from `first` on have come to: by the schedule itself, a rerun, or a backfill before."""
    runs = schedule_list.runs(settings, declaration.name, since=first.isoformat(), steps=True)
    result = list_backfilled(PipelineSpec(declaration.job["pipelineSpec"]), runs)
    for schedule in schedule_list.ours(settings, schedule_list.existing_schedules(settings)).get(declaration.name, [])[
        :1
    ]:
        lived = list_nights(schedule, schedule_fields.spec(schedule), runs, first, now)
        result |= {night.time: night for night in lived if night.kind not in (MISSED, WAITING)}
    return result


def _times(declaration: Declaration, first: date, last: date, now: datetime) -> list[datetime]:
    """The nights of the range, in UTC."""
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
