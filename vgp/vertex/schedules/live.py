"""The schedules that exist: all of a project and region, and which of them are ours."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vgp.settings import Settings
from vgp.vertex import clients, names
from vgp.vertex.runs.pipeline_job import MANAGED_BY
from vgp.vertex.schedules.declaration import ENVIRONMENT, LABEL

STATES = {1: "active", 2: "paused", 3: "completed"}


@dataclass(frozen=True)
class Mark:
    """What the labels of its runs say about a schedule of ours: a Schedule has no labels of its own."""

    name: str
    #: None: declared outside of every environment.
    environment: str | None


def mark(schedule: Any) -> Mark | None:
    """The mark of a schedule that this tool made; None for every other."""
    labels = job(schedule).labels
    if labels.get(MANAGED_BY[0]) != MANAGED_BY[1] or not labels.get(LABEL):
        return None
    return Mark(labels[LABEL], labels.get(ENVIRONMENT) or None)


def job(schedule: Any) -> Any:
    """What every run of the schedule is: a PipelineJob; an empty one for a schedule of notebooks."""
    return schedule.create_pipeline_job_request.pipeline_job


def state(schedule: Any) -> str:
    """active, paused or completed."""
    return STATES.get(int(schedule.state), "unknown")


def schedules(settings: Settings) -> list[Any]:
    """Every schedule of the project and region, whoever made it, the oldest first."""
    client = clients.schedule_service(settings)
    return sorted(client.list_schedules(parent=names.location(settings), **clients.reading()), key=_age)


def ours(settings: Settings, schedules: Iterable[Any]) -> dict[str, list[Any]]:
    """Our schedules of this environment by name, the oldest first: that one is kept if there are several."""
    result: dict[str, list[Any]] = {}
    for schedule in sorted(schedules, key=_age):
        own = mark(schedule)
        if own and own.environment == settings.environment:
            result.setdefault(own.name, []).append(schedule)
    return result


def _age(schedule: Any) -> tuple[float, str]:
    """The same order for everybody who looks, so that all keep the same one."""
    return (schedule.create_time.timestamp() if schedule.create_time else 0.0, schedule.name)
