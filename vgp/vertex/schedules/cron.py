"""The times of a cron expression across changes of the clocks, and the number of runs in a month.

Vertex AI takes five fields and an IANA time zone
(https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.schedules). Its behaviour at a change of
the clocks is not documented; for Cloud Scheduler, Google warns that jobs may "run or not run unexpectedly"
(https://cloud.google.com/scheduler/docs/configuring/cron-job-schedules). This module follows Debian's cron
(https://manpages.debian.org/cron.8): a fixed time that the clocks skip runs right after the change, a fixed time that
comes twice runs once, and an expression whose minute or hour begins with * follows the wall clock. This is not verified
on Vertex AI; `clock_changes` finds the runs in doubt.

cronsim parses the fields. It is not used to find the times, because cronsim 2.8 loses or adds runs where clocks change
by half an hour or at midnight (Lord Howe, Havana, Beirut).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

from cronsim import CronSim
from pydantic import ValidationError

from vgp.base.documents import toml_text
from vgp.base.documents.bounded_text import Unreadable
from vgp.base.documents.json_text import JsonObject
from vgp.check.folder_comparison import Recurring
from vgp.check.spec.dag import table
from vgp.settings.schedule_settings import Schedule

_DAY = timedelta(days=1)
_YEAR_DAYS = 365
#: Days without a run after which the search ends: 29 February on a given weekday can take 40 years.
_NEVER_DAYS = 41 * 366


@dataclass(frozen=True)
class ClockChange:
    """A declared time of day that a change of the clocks skips or doubles."""

    #: The declared time on the wall clock, without a zone.
    local: datetime
    #: The time on the wall clock right before the change, and right after it.
    before: time
    after: time
    #: The runs that are counted for it, with the offset of the zone.
    runs: tuple[datetime, ...]

    @property
    def missing(self) -> bool:
        """Whether the clocks skip the time; otherwise it comes twice."""
        return self.before < self.after


@dataclass(frozen=True)
class Cron:
    """A cron expression of five fields, in a time zone."""

    expression: str
    time_zone: str

    def __str__(self) -> str:
        """Returns the form of Vertex AI: CRON_TZ=Europe/Berlin 0 3 * * *."""
        return f"CRON_TZ={self.time_zone} {self.expression}"

    @classmethod
    def parse(cls, text: str) -> "Cron":
        """Parses the form of Vertex AI, in which a missing zone means UTC."""
        prefix, equals, rest = text.strip().partition("=")
        if equals and prefix in ("CRON_TZ", "TZ"):
            zone, _, fields = rest.partition(" ")
            return cls(" ".join(fields.split()), zone)
        return cls(" ".join(text.split()), "UTC")

    def runs(self, after: datetime) -> Iterator[datetime]:
        """Yields the run times after `after`, in the zone; `fold` is 1 in the second of two equal local times."""
        first = after.astimezone(self.zone).date() - _DAY
        waiting: set[datetime] = set()
        days_without_run = 0
        for day in (first + number * _DAY for number in range((date.max - first).days)):
            waiting.update(self._list_day(day))
            # Clocks that are set back across midnight mix the times of two days.
            midnight = datetime.combine(day + _DAY, time(), self.zone).astimezone(UTC)
            due = sorted(moment for moment in waiting if moment < midnight)
            waiting.difference_update(due)
            yield from (moment.astimezone(self.zone) for moment in due if moment > after)
            days_without_run = 0 if due else days_without_run + 1
            if days_without_run > _NEVER_DAYS:
                return

    def next(self, count: int, after: datetime) -> list[datetime]:
        """Returns the first `count` run times after `after`."""
        return list(islice(self.runs(after), count))

    def per_month(self, now: datetime) -> float:
        """Returns the number of runs in a month, averaged over the year from `now`."""
        return sum(map(self._matches, self._list_days_of_a_year(now))) * len(self._minutes) * len(self._hours) / 12

    def clock_changes(self, now: datetime) -> list[ClockChange]:
        """Lists the declared times of the coming year that a change of the clocks skips or doubles.

        The list is empty if every hour matches, because such a schedule runs at a steady interval.
        """
        if len(self._hours) == 24:
            return []
        days = [day for day in self._list_days_of_a_year(now) if self._has_change(day) and self._matches(day)]
        return [self._describe(local) for day in days for local in self._list_times(day) if _is_doubtful(local)]

    @property
    def days_differ(self) -> bool:
        """Whether day and weekday are both restricted and one starts with *, which crons combine in different ways."""
        _, _, day, _, weekday = self.expression.split()
        return "*" not in (day, weekday) and (day.startswith("*") or weekday.startswith("*"))

    @cached_property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)

    @cached_property
    def _fields(self) -> CronSim:
        return CronSim(self.expression, datetime(2000, 1, 1))

    @cached_property
    def _minutes(self) -> list[int]:
        return sorted(self._fields.minutes)

    @cached_property
    def _hours(self) -> list[int]:
        return sorted(self._fields.hours)

    @cached_property
    def _has_fixed_times(self) -> bool:
        return not any(field.startswith("*") for field in self.expression.split()[:2])

    def _matches(self, day: date) -> bool:
        return day.month in self._fields.months and self._fields.match_day(day)

    def _list_days_of_a_year(self, now: datetime) -> Iterator[date]:
        first = now.astimezone(self.zone).date()
        return (first + number * _DAY for number in range(_YEAR_DAYS))

    def _list_times(self, day: date) -> Iterator[datetime]:
        """Yields the declared times of a day on the wall clock."""
        for hour in self._hours:
            for minute in self._minutes:
                yield datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)

    def _list_day(self, day: date) -> list[datetime]:
        """Returns the run times of a local day, in UTC."""
        if not self._matches(day):
            return []
        if self._has_change(day):
            return [moment for local in self._list_times(day) for moment in self._list_moments(local)]
        return [local.astimezone(UTC) for local in self._list_times(day)]

    def _has_change(self, day: date) -> bool:
        start, end = (datetime.combine(date_, time(), self.zone).utcoffset() for date_ in (day, day + _DAY))
        return start != end

    def _list_moments(self, local: datetime) -> list[datetime]:
        before, after = _offsets(local)
        if before == after:
            return [local.astimezone(UTC)]
        if before < after:
            return [_find_change(local)] if self._has_fixed_times else []
        return [local.replace(fold=fold).astimezone(UTC) for fold in ((0,) if self._has_fixed_times else (0, 1))]

    def _describe(self, local: datetime) -> ClockChange:
        change = _find_change(local)
        before, after = ((change + offset).time() for offset in _offsets(local))
        runs = tuple(moment.astimezone(self.zone) for moment in self._list_moments(local))
        return ClockChange(local.replace(tzinfo=None), before, after, runs)


def _offsets(local: datetime) -> tuple[timedelta, timedelta]:
    """Returns the UTC offsets of `local` with fold 0 and 1, which differ only at a change of the clocks (PEP 495)."""
    before, after = (local.replace(fold=fold).utcoffset() for fold in (0, 1))
    assert before is not None and after is not None
    return before, after


def _is_doubtful(local: datetime) -> bool:
    before, after = _offsets(local)
    return before != after


def _find_change(local: datetime) -> datetime:
    """Returns the time, in UTC and to the minute, of the change of the clocks that `local` falls into."""
    early, late = (local.replace(tzinfo=UTC) - offset for offset in sorted(_offsets(local), reverse=True))
    before, _ = _offsets(local)
    # The change lies between the two readings of `local`, or at the first one.
    while late - early > timedelta(minutes=1):
        middle = early + (late - early) // 2
        middle = middle.replace(second=0, microsecond=0)
        if middle.astimezone(local.tzinfo).utcoffset() == before:
            early = middle
        else:
            late = middle
    return late


def monthly_runs(file: Path, now: datetime) -> list[Recurring]:
    """Lists the schedules of the settings file, those of environments as `nightly (prod)`; none without a file."""
    if not file.is_file():
        return []
    try:
        settings = toml_text.load(file)
    except Unreadable as error:
        return [Recurring(file.name, "", problem=str(error))]
    return [_build_recurring(name, value, now) for name, value in _list_schedules(settings)]


def _list_schedules(settings: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    top = table(settings, "schedules")
    yield from top.items()
    for environment, own in table(settings, "environments").items():
        for name, value in table(own, "schedules").items():
            # The values of an environment replace those of the schedule of the same name at the top.
            yield f"{name} ({environment})", {**table(top, name), **table(value)}


def _build_recurring(name: str, value: object, now: datetime) -> Recurring:
    try:
        schedule = Schedule.model_validate(value)
        month = Cron(schedule.cron, schedule.time_zone).per_month(now)
    except ValidationError as error:
        first = error.errors()[0]
        where, problem = ".".join(str(part) for part in first["loc"]), first["msg"].removeprefix("Value error, ")
        return Recurring(name, "", problem=f"{where}: {problem}" if where else problem)
    if schedule.paused:
        return Recurring(name, schedule.pipeline, problem="paused")
    return Recurring(name, schedule.pipeline, min(month, schedule.max_runs or month))
