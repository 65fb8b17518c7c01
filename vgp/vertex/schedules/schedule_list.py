"""Every schedule of a project and region with its state, times and last run: ours first, the others marked."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.times import moment, rfc3339
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.runs.pipeline_job import MANAGED_BY
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.run_search import Filter, list_runs
from vgp.vertex.schedules.cron import Cron
from vgp.vertex.schedules.declared_schedule import ENVIRONMENT, LABEL, marks

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import PipelineJob
    from google.cloud.aiplatform_v1.types import Schedule as LiveSchedule

STATES = {1: "active", 2: "paused", 3: "completed"}


@dataclass(frozen=True)
class Mark:
    """What the labels of its runs say about a schedule of ours: a Schedule has no labels of its own."""

    name: str
    #: None: declared outside of every environment.
    environment: str | None


def mark_of(schedule: "LiveSchedule") -> Mark | None:
    """The mark of a schedule that this tool made; None for every other."""
    labels = job_of_schedule(schedule).labels
    if labels.get(MANAGED_BY[0]) != MANAGED_BY[1] or not labels.get(LABEL):
        return None
    return Mark(labels[LABEL], labels.get(ENVIRONMENT) or None)


def job_of_schedule(schedule: "LiveSchedule") -> "PipelineJob":
    """What every run of the schedule is: a PipelineJob; an empty one for a schedule of notebooks."""
    return schedule.create_pipeline_job_request.pipeline_job


def state_of(schedule: "LiveSchedule") -> str:
    """active, paused or completed."""
    return STATES.get(int(schedule.state), "unknown")


def existing_schedules(settings: Settings) -> list["LiveSchedule"]:
    """Every schedule of the project and region, by any creator, the oldest first."""
    client = clients.schedule_service(settings)
    return sorted(client.list_schedules(parent=resource_names.location(settings), **clients.reading()), key=_age)


def ours(settings: Settings, schedules: Iterable["LiveSchedule"]) -> dict[str, list["LiveSchedule"]]:
    """Our schedules of this environment by name, the oldest first: that one is kept if there are several."""
    result: dict[str, list[LiveSchedule]] = {}
    for schedule in sorted(schedules, key=_age):
        own = mark_of(schedule)
        if own and own.environment == settings.environment:
            result.setdefault(own.name, []).append(schedule)
    return result


def _age(schedule: "LiveSchedule") -> tuple[float, str]:
    """The same order for everybody who looks, so that all keep the same one."""
    return (schedule.create_time.timestamp() if schedule.create_time else 0.0, schedule.name)


@dataclass(frozen=True)
class Row:
    """One live schedule."""

    #: As declared; of others, what the console shows.
    name: str
    id: str
    ours: bool
    environment: str | None
    state: str
    cron: str
    time_zone: str
    next_run: datetime | None
    last_run: datetime | None
    #: State and id of the last run; empty where it is not known.
    last_state: str
    last_id: str
    started: int
    #: None: not ours, or of another environment.
    declared: bool | None
    url: str

    def as_json(self) -> JsonObject:
        return {**self.__dict__, "next_run": rfc3339(self.next_run), "last_run": rfc3339(self.last_run)}


def rows(settings: Settings) -> list[Row]:
    """All schedules, ours of this environment first, by name."""
    with explained("list the schedules", settings):
        schedules = [_row(settings, schedule) for schedule in existing_schedules(settings)]
    return sorted(schedules, key=lambda row: (not row.ours, row.environment != settings.environment, row.name, row.id))


def last_run(settings: Settings, name: str) -> Run | None:
    """The newest run that a schedule of ours of this name has started, be it still there or not."""
    return next(iter(runs(settings, name, limit=1, fits=lambda run: bool(run.job.schedule_name))), None)


def runs(
    settings: Settings,
    name: str,
    *,
    limit: int = 0,
    since: str = "",
    states: Sequence[str] = (),
    steps: bool = False,
    fits: Callable[[Run], bool] = lambda run: True,
) -> list[Run]:
    """The runs with the label of our schedule `name`, newest first: its own, their reruns, and those of backfills."""
    labels = [f"{key}={value}" for key, value in marks(settings, name).items()]
    only = Filter(labels=labels, ours=True, since=since, states=states)

    def here(run: Run) -> bool:  # without an environment the label of the schedule is that of every environment
        return run.labels.get(ENVIRONMENT) == settings.environment and fits(run)

    return list_runs(settings, only, limit=limit, steps=steps, fits=here)


def _row(settings: Settings, schedule: "LiveSchedule") -> Row:
    own_mark, cron = mark_of(schedule), Cron.parse(schedule.cron)
    here = own_mark is not None and own_mark.environment == settings.environment
    last = last_run(settings, own_mark.name) if own_mark and here and schedule.started_run_count else None
    return Row(
        name=own_mark.name if own_mark else schedule.display_name,
        id=resource_names.short(schedule.name),
        ours=own_mark is not None,
        environment=own_mark.environment if own_mark else None,
        state=state_of(schedule),
        cron=cron.expression,
        time_zone=cron.time_zone,
        next_run=moment(schedule.next_run_time) if state_of(schedule) == "active" else None,
        last_run=moment(schedule.last_scheduled_run_response.scheduled_run_time),
        last_state=last.state if last else "",
        last_id=resource_names.short(last.name) if last else "",
        started=schedule.started_run_count,
        declared=own_mark.name in settings.schedules if own_mark and here else None,
        url=resource_names.schedule_link(settings, resource_names.short(schedule.name)),
    )
