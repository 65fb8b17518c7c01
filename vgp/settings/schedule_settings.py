"""A recurring run as pipelines.toml declares it.

[schedules.nightly]
pipeline = "training"
cron = "30 2 * * *"
time_zone = "Europe/Berlin"
parameters = {epochs = 3.0}
"""

import json
import re
from datetime import UTC, date, datetime, time
from functools import cache
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from vgp.base.text.nearest import nearest
from vgp.settings.repository import Repository, known
from vgp.settings.template_reference import parse
from vgp.settings.value_rules import optional

#: Of a schedule and of an environment.
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_CRON = "minute hour day month weekday, as in 30 2 * * 1-5"


def name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(f"'{value}' is no name: at most 40 lower-case letters, digits and -, a letter first.")
    return value


def pipeline(value: str, info: ValidationInfo) -> str:
    """A workflow of the repository, as far as one is known: the context of the validation."""
    if isinstance(info.context, Repository):
        known(value, info.context)
    return value


def template(value: str) -> str:
    parse(value)
    return value


def cron(value: str) -> str:
    """Five fields of Unix cron. Extensions (L, W, #, seconds, @daily) are refused: Vertex AI documents none of them."""
    from cronsim import CronSim, CronSimError

    value = " ".join(value.split())
    if value.upper().startswith(("TZ=", "CRON_TZ=")):
        raise ValueError(f"'{value}' holds a time zone: write it as time_zone = \"...\".")
    if len(value.split()) != 5:
        raise ValueError(f"'{value}' is no cron expression: five fields, {_CRON}.")
    try:
        if re.search(r"[^0-9A-Za-z*/, -]|[0-9]L|\bL", value):
            raise CronSimError("Only digits, names, * / , and - are allowed")
        next(CronSim(value, datetime(2000, 1, 1)))
    except CronSimError as error:
        raise ValueError(f"'{value}' is no cron expression: {str(error).lower()}. Write {_CRON}.") from None
    except StopIteration:
        raise ValueError(f"'{value}' never happens. Write {_CRON}.") from None
    return value


def time_zone(value: str) -> str:
    """A name of the IANA data base, https://www.iana.org/time-zones"""
    known = _time_zones()
    if value not in known:
        city = [zone for zone in known if zone.lower().endswith(f"/{value.lower()}")]
        near = next(iter(sorted(city)), None) or nearest(value, known, cutoff=0.5)
        hint = f"Did you mean {near}?" if near else "Write one like UTC or Europe/Berlin."
        raise ValueError(f"there is no time zone '{value}'. {hint}")
    return value


@cache
def _time_zones() -> frozenset[str]:
    from zoneinfo import available_timezones

    return frozenset(available_timezones())  # reads hundreds of files


def moment(value: Any, zone: str) -> datetime | None:
    """A day or time in UTC; without an offset it is local to `zone`, and a day begins at midnight."""
    from zoneinfo import ZoneInfo

    if value is None or value == "":
        return None
    try:
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"'{value}' is no time. Write 2027-01-31 or 2027-01-31T06:00:00.") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise ValueError(f"{value} is no time. Write 2027-01-31 or 2027-01-31T06:00:00.")
    there = value if value.tzinfo else value.replace(tzinfo=ZoneInfo(zone))
    # UTC, because Python compares two times of one zone by their clocks: wrong in the hour that comes twice.
    instant = there.astimezone(UTC)
    if instant.astimezone(there.tzinfo).replace(tzinfo=None) != value.replace(tzinfo=None):
        raise ValueError(f"{value} does not exist in {zone}: the clocks jump over it.")
    return instant


Name = Annotated[str, AfterValidator(name)]
Pipeline = Annotated[str, AfterValidator(pipeline)]
Template = Annotated[str | None, *optional(template)]
Cron = Annotated[str, AfterValidator(cron)]
TimeZone = Annotated[str, AfterValidator(time_zone)]


class Schedule(BaseModel):
    """When a pipeline runs by itself, and with what. https://cloud.google.com/vertex-ai/docs/pipelines/schedule-pipeline-run"""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: By its name: see `vgp list`.
    pipeline: Pipeline
    #: An uploaded version of it instead of the local one: training:latest, training@sha256:...
    template: Template = None
    #: Five fields: minute hour day month weekday, in `time_zone`.
    cron: Cron
    time_zone: TimeZone = "UTC"
    #: Parameters of the pipeline; names and types are checked against its spec.
    parameters: dict[str, Any] = {}
    #: First and last moment of a run, in UTC; None: now, and without end.
    start: datetime | None = None
    end: datetime | None = None
    #: Runs of this schedule at the same time.
    max_concurrent_runs: int = Field(default=1, ge=1)
    #: Whether a run that is due while `max_concurrent_runs` are going waits; else it is skipped.
    queueing: bool = False
    #: Whether runs that fell into a pause are made up for when the schedule is resumed.
    catch_up: bool = False
    #: The schedule ends after so many runs; None: never.
    max_runs: int | None = Field(default=None, ge=1)
    paused: bool = False

    @field_validator("parameters")
    @classmethod
    def _as_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, parameter in value.items():
            try:
                json.dumps(parameter, allow_nan=False)
            except (TypeError, ValueError):
                raise ValueError(f"{name} is a date, or no finite number. Write it in quotes.") from None
        return value

    @field_validator("start", "end", mode="before")
    @classmethod
    def _moment(cls, value: Any, info: ValidationInfo) -> datetime | None:
        return moment(value, info.data.get("time_zone", "UTC"))

    @field_validator("end")
    @classmethod
    def _after_start(cls, value: datetime | None, info: ValidationInfo) -> datetime | None:
        start = info.data.get("start")
        if value and start and value <= start:
            raise ValueError(f"the end, {value.isoformat()}, is not after the start, {start.isoformat()}.")
        return value
