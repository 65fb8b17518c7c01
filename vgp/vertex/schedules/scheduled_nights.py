"""The nights of a live schedule: each of its run times with the run that came of it, or why none did.

A PipelineJob tells its schedule, not the time that it was started for. A workflow that pins first hands that time to
its step `resolve`, as the input `read_scheduled_time`; other runs are counted for the last free time before they were
created. All times are in UTC, because Python compares two of one zone by their clocks: wrong in the hour that comes
twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from vgp.base.text.times import moment
from vgp.check.spec.pipeline_spec import PipelineSpec, list_cached_tasks
from vgp.vertex.runs.remote_run import Run, Step, steps_of
from vgp.vertex.schedules import schedule_list
from vgp.vertex.schedules.cron import Cron

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

#: What a night may have come to.
RAN, NOTHING_NEW, OPEN, WAITING = "ran", "nothing new", "open", "waiting"
FAILED, CANCELLED, MISSED = "failed", "cancelled", "missed"
GOOD, BAD = (RAN, NOTHING_NEW), (FAILED, CANCELLED, MISSED)
#: The label of a backfilled run: the night that it is for.
NIGHT = "night"
#: Labels that name the run whose night a run repeats.
_REPEATS = ("rerun-of", "pinned-by")
_FORM = "%Y%m%dt%H%Mz"
#: How late a run may be before its night counts as missed.
GRACE = timedelta(minutes=15)


@dataclass(frozen=True)
class Night:
    """A run time of a schedule and what became of it."""

    time: datetime
    kind: str
    run: Run | None = None
    steps: Sequence[Step] = ()
    #: Of one without a run: why, as far as it is known.
    why: str = ""

    @property
    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.state == "failed"]


def label(time: datetime) -> str:
    """The night as the value of a label: 20261001t0030z."""
    return f"{time.astimezone(UTC):{_FORM}}"


def parse_label(labels: Mapping[str, str]) -> datetime | None:
    """The night that a backfilled run is for; None for any other run."""
    try:
        return datetime.strptime(labels.get(NIGHT, ""), _FORM).replace(tzinfo=UTC)
    except ValueError:
        return None


def list_nights(
    schedule: "LiveSchedule", spec: PipelineSpec, runs: Iterable[Run], since: datetime, now: datetime
) -> list[Night]:
    """The nights of a live schedule from `since` until now, oldest first.

    `spec` is what it runs; `runs` are those with its label: its own, their reruns, and those of backfills.
    """
    ordered = sorted(runs, key=lambda run: run.created or now)
    own = [run for run in ordered if run.job.schedule_name]
    times = _times(schedule, since, now)
    started = _assigned(times, own, moment(schedule.update_time))
    sure = _sure(schedule, times, started, own)
    latest = started | _repeated(ordered, started)
    result = []
    for time in sorted({*times, *latest}):
        if time in latest:
            result.append(_ran(time, spec, latest[time]))
        elif time >= sure and now - time > GRACE:
            result.append(_without_run(schedule, time, own))
    return result


def list_backfilled(spec: PipelineSpec, runs: Iterable[Run]) -> dict[datetime, Night]:
    """The nights that backfills have run, by their labels; where several did, the newest."""
    ordered = sorted(runs, key=lambda run: run.created or datetime.min.replace(tzinfo=UTC))
    return {time: _ran(time, spec, run) for time, run in _repeated(ordered, {}).items()}


def find_last_good(nights: Sequence[Night]) -> Night | None:
    """The newest night whose run succeeded."""
    return next((night for night in reversed(nights) if night.kind in GOOD), None)


def read_scheduled_time(run: Run) -> datetime | None:
    """Returns the scheduled time of the run, or None if no step of it received one."""
    for detail in run.job.job_detail.task_details:
        try:
            time = datetime.fromisoformat(str((detail.execution.metadata or {}).get("input:scheduled")))
        except ValueError:
            continue
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return None


def _times(schedule: "LiveSchedule", since: datetime, now: datetime) -> list[datetime]:
    """The run times of the schedule while it was there, as far as its own end allows."""
    first = max(filter(None, [since, moment(schedule.create_time), moment(schedule.start_time)]))
    end = min(filter(None, [now, moment(schedule.end_time)]))
    if schedule_list.state_of(schedule) == "completed":
        last = moment(schedule.last_scheduled_run_response.scheduled_run_time)
        end = min(filter(None, [end, last]))
    runs = Cron.parse(schedule.cron).runs(first - timedelta(seconds=1))
    return [time.astimezone(UTC) for time in takewhile(lambda time: time.astimezone(UTC) <= end, runs)]


def _assigned(times: Sequence[datetime], runs: Sequence[Run], changed: datetime | None) -> dict[datetime, Run]:
    """The time that each run was started for -> the run.

    Where the run does not tell it, that is the last free one of `times`; a run from before the schedule was `changed`
    was started for another time, unless it began with one of them.
    """
    times_by_run = {run.name: read_scheduled_time(run) for run in runs}
    result = {time: run for run in runs if (time := times_by_run[run.name])}
    for run in runs:
        if times_by_run[run.name] is None and run.created:
            free = next((time for time in reversed(times) if time not in result and time <= run.created), None)
            late = changed and run.created < changed and (not free or run.created - free > GRACE)
            result[run.created if late or not free else free] = run
    return result


def _repeated(runs: Sequence[Run], started: Mapping[datetime, Run]) -> dict[datetime, Run]:
    """Returns the newest run started by hand for a night: a backfill, or a rerun of what the schedule had started."""
    night = {run.id: time for time, run in started.items()}
    result = {}
    for run in runs:
        of = [night[run.labels[key]] for key in _REPEATS if run.labels.get(key) in night]
        if not run.job.schedule_name and (time := parse_label(run.labels) or next(iter(of), None)):
            night[run.id] = time
            result[time] = run
    return result


def _sure(
    schedule: "LiveSchedule", times: Sequence[datetime], started: Mapping[datetime, Run], runs: Sequence[Run]
) -> datetime:
    """From when on a time without a run was missed.

    An update may have changed the cron: before it, only where the runs that there were fit the present one.
    """
    changed = moment(schedule.update_time) or datetime.min.replace(tzinfo=UTC)
    before = [time for time in times if time < changed]
    if not before:
        return changed
    earlier = [run.name for run in runs if run.created and run.created < changed]
    fitting = {started[time].name for time in before if time in started}
    same = earlier and 2 * len(fitting) >= len(before) and fitting.issuperset(earlier)
    return before[0] if same else changed


def _ran(time: datetime, spec: PipelineSpec, run: Run) -> Night:
    # A list tells no spec: names and groups are those of the schedule's.
    steps = steps_of(spec, run.job.job_detail.task_details, run.id, over=run.over)
    return Night(time, _kind(run, steps, list_cached_tasks(spec)), run, steps)


def _kind(run: Run, steps: Sequence[Step], pinned: Sequence[str]) -> str:
    if not run.over:
        return OPEN
    if run.state != "succeeded":
        return run.state
    states = {step.state for step in steps if step.task in pinned} - {"not triggered", "not run"}
    return NOTHING_NEW if states == {"cached"} else RAN


def _without_run(schedule: "LiveSchedule", time: datetime, runs: Sequence[Run]) -> Night:
    pause, resumed = moment(schedule.last_pause_time), moment(schedule.last_resume_time)
    if pause and time >= pause and (schedule_list.state_of(schedule) == "paused" or (resumed and resumed > time)):
        return Night(time, MISSED, why="the schedule was paused")
    going = [run for run in runs if run.created and run.created < time and (run.ended is None or run.ended > time)]
    limit = schedule.max_concurrent_active_run_count
    if not limit or len(going) < limit:
        return Night(time, MISSED, why="Vertex AI started no run; why is not known")
    full = f"{going[-1].id} had not ended, and max_concurrent_runs = {limit}"
    if schedule.allow_queueing and any(run.ended is None for run in going):
        return Night(time, WAITING, why=full)
    return Night(time, MISSED, why=full)
