"""Every schedule of a project and region with its state, times and last run: ours first, the others marked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vgp.base.text.times import moment, rfc3339
from vgp.settings import Settings
from vgp.vertex import names
from vgp.vertex.errors import explained
from vgp.vertex.runs.search import Filter, listed
from vgp.vertex.runs.state import Run
from vgp.vertex.schedules import live
from vgp.vertex.schedules.cron import Cron
from vgp.vertex.schedules.declaration import ENVIRONMENT, marks


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

    def as_json(self) -> dict[str, Any]:
        return {**self.__dict__, "next_run": rfc3339(self.next_run), "last_run": rfc3339(self.last_run)}


def rows(settings: Settings) -> list[Row]:
    """All schedules, ours of this environment first, by name.

    Raises:
        WorkFailed: Google refused or could not be reached.
    """
    with explained("list the schedules", settings):
        schedules = [_row(settings, schedule) for schedule in live.schedules(settings)]
    return sorted(schedules, key=lambda row: (not row.ours, row.environment != settings.environment, row.name, row.id))


def last_run(settings: Settings, name: str) -> Run | None:
    """The newest run that a schedule of ours of this name has started, be it still there or not.

    Raises:
        WorkFailed: Google refused or could not be reached.
    """
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
    """The runs with the label of our schedule `name`, newest first: its own, their reruns, and those of backfills.

    Raises:
        WorkFailed: Google refused or could not be reached.
    """
    labels = [f"{key}={value}" for key, value in marks(settings, name).items()]
    only = Filter(labels=labels, ours=True, since=since, states=states)

    def here(run: Run) -> bool:  # without an environment the label of the schedule is that of every environment
        return run.labels.get(ENVIRONMENT) == settings.environment and fits(run)

    return listed(settings, only, limit=limit, steps=steps, fits=here)


def _row(settings: Settings, schedule: Any) -> Row:
    mark, cron = live.mark(schedule), Cron.parse(schedule.cron)
    here = mark is not None and mark.environment == settings.environment
    last = last_run(settings, mark.name) if mark and here and schedule.started_run_count else None
    return Row(
        name=mark.name if mark else schedule.display_name,
        id=names.short(schedule.name),
        ours=mark is not None,
        environment=mark.environment if mark else None,
        state=live.state(schedule),
        cron=cron.expression,
        time_zone=cron.time_zone,
        next_run=moment(schedule.next_run_time) if live.state(schedule) == "active" else None,
        last_run=moment(schedule.last_scheduled_run_response.scheduled_run_time),
        last_state=last.state if last else "",
        last_id=names.short(last.name) if last else "",
        started=schedule.started_run_count,
        declared=mark.name in settings.schedules if mark and here else None,
        url=names.schedule_link(settings, names.short(schedule.name)),
    )
