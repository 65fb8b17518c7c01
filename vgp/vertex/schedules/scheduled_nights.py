"""The nights of a live schedule: each run time with its run, or the reason why it has none.

A PipelineJob names its schedule, but not its scheduled time. A workflow with pins passes that time to its step
`resolve` as the input `scheduled`; other runs are assigned to the last free time before their creation. All times are
in UTC, because Python compares two times of one zone by the wall clock, which is wrong in the hour that comes twice.
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

#: The kinds of nights.
RAN, NOTHING_NEW, OPEN, WAITING = "ran", "nothing new", "open", "waiting"
FAILED, CANCELLED, MISSED = "failed", "cancelled", "missed"
GOOD, BAD = (RAN, NOTHING_NEW), (FAILED, CANCELLED, MISSED)
#: The label of a backfilled run with its night.
NIGHT = "night"
#: Labels of a rerun that name the original run.
_REPEATS = ("rerun-of", "pinned-by")
_FORM = "%Y%m%dt%H%Mz"
#: How late a run may be before its night counts as missed.
GRACE = timedelta(minutes=15)


@dataclass(frozen=True)
class Night:
    """A run time of a schedule with its run."""

    time: datetime
    kind: str
    run: Run | None = None
    steps: Sequence[Step] = ()
    #: The reason why there is no run, if it is known.
    why: str = ""

    @property
    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.state == "failed"]


def format_label(time: datetime) -> str:
    """Formats a night as the value of a label: 20261001t0030z."""
    return f"{time.astimezone(UTC):{_FORM}}"


def parse_label(labels: Mapping[str, str]) -> datetime | None:
    """Returns the night of a backfilled run, or None for any other run."""
    try:
        return datetime.strptime(labels.get(NIGHT, ""), _FORM).replace(tzinfo=UTC)
    except ValueError:
        return None


def list_nights(
    schedule: "LiveSchedule", spec: PipelineSpec, runs: Iterable[Run], since: datetime, now: datetime
) -> list[Night]:
    """Lists the nights of a live schedule from `since` until now, oldest first.

    `spec` is its pipeline; `runs` are all runs with its label: its own, reruns and backfills.
    """
    ordered = sorted(runs, key=lambda run: run.created or now)
    scheduled = [run for run in ordered if run.job.schedule_name]
    times = _list_times(schedule, since, now)
    started = _assign_runs(times, scheduled, moment(schedule.update_time))
    certain_from = _find_certain_start(schedule, times, started, scheduled)
    latest = started | _list_manual_runs(ordered, started)
    result = []
    for time in sorted({*times, *latest}):
        if time in latest:
            result.append(_build_night(time, spec, latest[time]))
        elif time >= certain_from and now - time > GRACE:
            result.append(_build_empty_night(schedule, time, scheduled))
    return result


def list_backfilled(spec: PipelineSpec, runs: Iterable[Run]) -> dict[datetime, Night]:
    """Returns the nights that backfills have run, by time; of several runs of a night, the newest."""
    ordered = sorted(runs, key=lambda run: run.created or datetime.min.replace(tzinfo=UTC))
    return {time: _build_night(time, spec, run) for time, run in _list_manual_runs(ordered, {}).items()}


def find_last_good(nights: Sequence[Night]) -> Night | None:
    """Returns the newest night whose run succeeded."""
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


def _list_times(schedule: "LiveSchedule", since: datetime, now: datetime) -> list[datetime]:
    """Returns the run times of the schedule while it existed, until its own end."""
    first = max(filter(None, [since, moment(schedule.create_time), moment(schedule.start_time)]))
    end = min(filter(None, [now, moment(schedule.end_time)]))
    if schedule_list.read_state(schedule) == "completed":
        last = moment(schedule.last_scheduled_run_response.scheduled_run_time)
        end = min(filter(None, [end, last]))
    runs = Cron.parse(schedule.cron).runs(first - timedelta(seconds=1))
    return [time.astimezone(UTC) for time in takewhile(lambda time: time.astimezone(UTC) <= end, runs)]


def _assign_runs(times: Sequence[datetime], runs: Sequence[Run], changed: datetime | None) -> dict[datetime, Run]:
    """Returns the run of each scheduled time.

    A run that does not record its time gets the last free one of `times`. A run from before the schedule was `changed`
    gets its own creation time, unless it started at one of `times`.
    """
    times_by_run = {run.name: read_scheduled_time(run) for run in runs}
    result = {time: run for run in runs if (time := times_by_run[run.name])}
    for run in runs:
        if times_by_run[run.name] is None and run.created:
            free = next((time for time in reversed(times) if time not in result and time <= run.created), None)
            late = changed and run.created < changed and (not free or run.created - free > GRACE)
            result[run.created if late or not free else free] = run
    return result


def _list_manual_runs(runs: Sequence[Run], started: Mapping[datetime, Run]) -> dict[datetime, Run]:
    """Returns the newest run that was started by hand for each night: a backfill, or a rerun of the schedule's run."""
    night = {run.id: time for time, run in started.items()}
    result = {}
    for run in runs:
        of = [night[run.labels[key]] for key in _REPEATS if run.labels.get(key) in night]
        if not run.job.schedule_name and (time := parse_label(run.labels) or next(iter(of), None)):
            night[run.id] = time
            result[time] = run
    return result


def _find_certain_start(
    schedule: "LiveSchedule", times: Sequence[datetime], started: Mapping[datetime, Run], runs: Sequence[Run]
) -> datetime:
    """Returns the time from which a run time without a run counts as missed.

    An update may have changed the cron, so times before it count only if the runs before it fit the present cron.
    """
    changed = moment(schedule.update_time) or datetime.min.replace(tzinfo=UTC)
    before = [time for time in times if time < changed]
    if not before:
        return changed
    earlier = [run.name for run in runs if run.created and run.created < changed]
    matching = {started[time].name for time in before if time in started}
    same = earlier and 2 * len(matching) >= len(before) and matching.issuperset(earlier)
    return before[0] if same else changed


def _build_night(time: datetime, spec: PipelineSpec, run: Run) -> Night:
    # A list of runs has no specs, so names and groups come from the schedule's spec.
    steps = steps_of(spec, run.job.job_detail.task_details, run.id, over=run.over)
    return Night(time, _decide_kind(run, steps, list_cached_tasks(spec)), run, steps)


def _decide_kind(run: Run, steps: Sequence[Step], pinned: Sequence[str]) -> str:
    if not run.over:
        return OPEN
    if run.state != "succeeded":
        return run.state
    states = {step.state for step in steps if step.task in pinned} - {"not triggered", "not run"}
    return NOTHING_NEW if states == {"cached"} else RAN


def _build_empty_night(schedule: "LiveSchedule", time: datetime, runs: Sequence[Run]) -> Night:
    pause, resumed = moment(schedule.last_pause_time), moment(schedule.last_resume_time)
    if pause and time >= pause and (schedule_list.read_state(schedule) == "paused" or (resumed and resumed > time)):
        return Night(time, MISSED, why="the schedule was paused")
    active = [run for run in runs if run.created and run.created < time and (run.ended is None or run.ended > time)]
    limit = schedule.max_concurrent_active_run_count
    if not limit or len(active) < limit:
        return Night(time, MISSED, why="Vertex AI started no run; why is not known")
    reason = f"{active[-1].id} had not ended, and max_concurrent_runs = {limit}"
    if schedule.allow_queueing and any(run.ended is None for run in active):
        return Night(time, WAITING, why=reason)
    return Night(time, MISSED, why=reason)
