"""How often the schedules of a pipelines.toml run in a month, read without its other settings and their mistakes."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vgp.base.documents import toml_text
from vgp.base.documents.bounded_text import Unreadable
from vgp.check.folder_comparison import Recurring
from vgp.settings.schedule_settings import Schedule
from vgp.vertex.schedules.cron import Cron


def declared(file: Path, now: datetime) -> list[Recurring]:
    """The schedules at the top of the file, and those of its environments: `nightly (prod)`; none without a file."""
    if not file.is_file():
        return []
    try:
        settings = toml_text.load(file)
    except Unreadable as error:
        return [Recurring(file.name, "", problem=str(error))]
    return [_recurring(name, value, now) for name, value in _named(settings)]


def _named(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    top = _table(settings.get("schedules"))
    yield from top.items()
    for environment, own in _table(settings.get("environments")).items():
        for name, value in _table(_table(own).get("schedules")).items():
            # What an environment says lies over the schedule of the same name at the top.
            yield f"{name} ({environment})", {**_table(top.get(name)), **_table(value)}


def _recurring(name: str, value: Any, now: datetime) -> Recurring:
    try:
        schedule = Schedule.model_validate(value)
        month = Cron(schedule.cron, schedule.time_zone).per_month(now)
    except ValidationError as error:
        first = error.errors()[0]
        where, said = ".".join(str(part) for part in first["loc"]), first["msg"].removeprefix("Value error, ")
        return Recurring(name, "", problem=f"{where}: {said}" if where else said)
    if schedule.paused:
        return Recurring(name, schedule.pipeline, problem="paused")
    return Recurring(name, schedule.pipeline, min(month, schedule.max_runs or month))


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
