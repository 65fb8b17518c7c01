"""Lists every schedule of a project and region with its state, times and last run, those of vgp first."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.times import moment, rfc3339
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explain_errors
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
    """The name and environment of a schedule of vgp, from the labels of its runs: a Schedule itself has no labels."""

    name: str
    #: None for a schedule outside every environment.
    environment: str | None


def read_mark(schedule: "LiveSchedule") -> Mark | None:
    """Returns the mark of a schedule that vgp made, or None for any other schedule."""
    labels = job_of_schedule(schedule).labels
    if labels.get(MANAGED_BY[0]) != MANAGED_BY[1] or not labels.get(LABEL):
        return None
    return Mark(labels[LABEL], labels.get(ENVIRONMENT) or None)


def job_of_schedule(schedule: "LiveSchedule") -> "PipelineJob":
    """Returns the PipelineJob of the schedule's runs; an empty one for a schedule of notebooks."""
    return schedule.create_pipeline_job_request.pipeline_job


def read_state(schedule: "LiveSchedule") -> str:
    """Returns active, paused or completed."""
    return STATES.get(int(schedule.state), "unknown")


def existing_schedules(settings: Settings) -> list["LiveSchedule"]:
    """Lists every schedule of the project and region, by any creator, the oldest first."""
    client = clients.schedule_service(settings)
    return sorted(client.list_schedules(parent=resource_names.location(settings), **clients.reading()), key=_sort_key)


def group_by_name(settings: Settings, schedules: Iterable["LiveSchedule"]) -> dict[str, list["LiveSchedule"]]:
    """Groups the schedules of vgp in this environment by name, the oldest first, which is kept among duplicates."""
    result: dict[str, list[LiveSchedule]] = {}
    for schedule in sorted(schedules, key=_sort_key):
        own = read_mark(schedule)
        if own and own.environment == settings.environment:
            result.setdefault(own.name, []).append(schedule)
    return result


def _sort_key(schedule: "LiveSchedule") -> tuple[float, str]:
    """Returns a sort key that is equal for every caller, so that all callers keep the same duplicate."""
    return (schedule.create_time.timestamp() if schedule.create_time else 0.0, schedule.name)


@dataclass(frozen=True)
class Row:
    """One live schedule, as a row of `vgp schedule list`."""

    #: The declared name; of a schedule that vgp did not make, the name in the console.
    name: str
    id: str
    ours: bool
    environment: str | None
    state: str
    cron: str
    time_zone: str
    next_run: datetime | None
    last_run: datetime | None
    #: State and id of the last run; empty if unknown.
    last_state: str
    last_id: str
    started: int
    #: None for a schedule of another environment, or one that vgp did not make.
    declared: bool | None
    url: str

    def as_json(self) -> JsonObject:
        return {**self.__dict__, "next_run": rfc3339(self.next_run), "last_run": rfc3339(self.last_run)}


def list_rows(settings: Settings) -> list[Row]:
    """Lists all schedules as rows by name, those of vgp in this environment first."""
    with explain_errors("list the schedules", settings):
        schedules = [_build_row(settings, schedule) for schedule in existing_schedules(settings)]
    return sorted(schedules, key=lambda row: (not row.ours, row.environment != settings.environment, row.name, row.id))


def last_run(settings: Settings, name: str) -> Run | None:
    """Returns the newest run that a live or deleted schedule of vgp with this name has started."""
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
    """Lists the runs with the label of the schedule `name`, newest first: its own runs, reruns and backfills."""
    labels = [f"{key}={value}" for key, value in marks(settings, name).items()]
    only = Filter(labels=labels, ours=True, since=since, states=states)

    def is_of_environment(run: Run) -> bool:
        # Settings without an environment match the schedule's label in every environment.
        return run.labels.get(ENVIRONMENT) == settings.environment and fits(run)

    return list_runs(settings, only, limit=limit, steps=steps, fits=is_of_environment)


def _build_row(settings: Settings, schedule: "LiveSchedule") -> Row:
    own_mark, cron = read_mark(schedule), Cron.parse(schedule.cron)
    here = own_mark is not None and own_mark.environment == settings.environment
    last = last_run(settings, own_mark.name) if own_mark and here and schedule.started_run_count else None
    return Row(
        name=own_mark.name if own_mark else schedule.display_name,
        id=resource_names.short(schedule.name),
        ours=own_mark is not None,
        environment=own_mark.environment if own_mark else None,
        state=read_state(schedule),
        cron=cron.expression,
        time_zone=cron.time_zone,
        next_run=moment(schedule.next_run_time) if read_state(schedule) == "active" else None,
        last_run=moment(schedule.last_scheduled_run_response.scheduled_run_time),
        last_state=last.state if last else "",
        last_id=resource_names.short(last.name) if last else "",
        started=schedule.started_run_count,
        declared=own_mark.name in settings.schedules if own_mark and here else None,
        url=resource_names.schedule_link(settings, resource_names.short(schedule.name)),
    )
