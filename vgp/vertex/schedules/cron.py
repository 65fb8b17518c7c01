"""When a cron expression is due across the changes of its clocks; how often schedules run in a month.

Google says that Vertex AI takes five fields and a zone of the IANA data base
(https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.schedules), not what happens when the
clocks change; of Cloud Scheduler it says that jobs then may "run or not run unexpectedly"
(https://cloud.google.com/scheduler/docs/configuring/cron-job-schedules). Taken here is what cron does on Debian
(https://manpages.debian.org/cron.8): a fixed time that the clocks jump over comes right after the jump, one that comes
twice counts once, and an expression whose minute or hour begins with * goes by what the wall clock shows.
Not verified on Vertex: `clock_changes` finds the runs in doubt.

cronsim reads the fields. Its own stepping loses or adds runs where clocks change by half an hour or at midnight
(Lord Howe, Havana, Beirut; cronsim 2.8), so the calendar is walked here.
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
#: Days without a run after which there is none: 29 February on a given weekday can take 40 years.
_NEVER_DAYS = 41 * 366


@dataclass(frozen=True)
class ClockChange:
    """A declared time of day that a change of the clocks takes away or doubles."""

    #: As the wall clock would show it, without a zone.
    local: datetime
    #: What the clocks show at the change: before, and after.
    before: time
    after: time
    #: The runs that are counted for it, with the offset of the zone.
    runs: tuple[datetime, ...]

    @property
    def missing(self) -> bool:
        """The time does not exist; else it comes twice."""
        return self.before < self.after


@dataclass(frozen=True)
class Cron:
    """Five fields of cron, in a time zone."""

    expression: str
    time_zone: str

    def __str__(self) -> str:
        """As Vertex AI takes it: CRON_TZ=Europe/Berlin 0 3 * * *."""
        return f"CRON_TZ={self.time_zone} {self.expression}"

    @classmethod
    def parse(cls, text: str) -> "Cron":
        """Of what Vertex AI holds; without a zone it is UTC."""
        prefix, equals, rest = text.strip().partition("=")
        if equals and prefix in ("CRON_TZ", "TZ"):
            zone, _, fields = rest.partition(" ")
            return cls(" ".join(fields.split()), zone)
        return cls(" ".join(text.split()), "UTC")

    def runs(self, after: datetime) -> Iterator[datetime]:
        """The moments after `after`, as local times of the zone; `fold` marks the second of two equal ones."""
        first = after.astimezone(self.zone).date() - _DAY
        waiting: set[datetime] = set()
        quiet = 0
        for day in (first + number * _DAY for number in range((date.max - first).days)):
            waiting.update(self._on(day))
            # Clocks that are set back over midnight mix the times of two days.
            midnight = datetime.combine(day + _DAY, time(), self.zone).astimezone(UTC)
            due = sorted(moment for moment in waiting if moment < midnight)
            waiting.difference_update(due)
            yield from (moment.astimezone(self.zone) for moment in due if moment > after)
            quiet = 0 if due else quiet + 1
            if quiet > _NEVER_DAYS:
                return

    def next(self, count: int, after: datetime) -> list[datetime]:
        """The first `count` runs after `after`."""
        return list(islice(self.runs(after), count))

    def per_month(self, now: datetime) -> float:
        """Runs in a month, averaged over the year from `now`."""
        return sum(map(self._matches, self._year(now))) * len(self._minutes) * len(self._hours) / 12

    def clock_changes(self, now: datetime) -> list[ClockChange]:
        """The declared times of the coming year that a change of the clocks takes away or doubles.

        None where every hour matches: such a schedule goes on in steps of real time.
        """
        if len(self._hours) == 24:
            return []
        days = [day for day in self._year(now) if self._changes(day) and self._matches(day)]
        return [self._described(local) for day in days for local in self._times(day) if _doubtful(local)]

    @property
    def days_differ(self) -> bool:
        """Both days are narrowed, one of them by a step from *: some crons take either day, others only both."""
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
    def _fixed(self) -> bool:
        return not any(field.startswith("*") for field in self.expression.split()[:2])

    def _matches(self, day: date) -> bool:
        return day.month in self._fields.months and self._fields.match_day(day)

    def _year(self, now: datetime) -> Iterator[date]:
        first = now.astimezone(self.zone).date()
        return (first + number * _DAY for number in range(_YEAR_DAYS))

    def _times(self, day: date) -> Iterator[datetime]:
        """The declared times of a day, by the wall clock."""
        for hour in self._hours:
            for minute in self._minutes:
                yield datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)

    def _on(self, day: date) -> list[datetime]:
        """The moments of a day of the wall calendar, in UTC."""
        if not self._matches(day):
            return []
        if self._changes(day):
            return [moment for local in self._times(day) for moment in self._moments(local)]
        return [local.astimezone(UTC) for local in self._times(day)]

    def _changes(self, day: date) -> bool:
        start, end = (datetime.combine(date_, time(), self.zone).utcoffset() for date_ in (day, day + _DAY))
        return start != end

    def _moments(self, local: datetime) -> list[datetime]:
        before, after = _offsets(local)
        if before == after:
            return [local.astimezone(UTC)]
        if before < after:
            return [_change(local)] if self._fixed else []
        return [local.replace(fold=fold).astimezone(UTC) for fold in ((0,) if self._fixed else (0, 1))]

    def _described(self, local: datetime) -> ClockChange:
        change = _change(local)
        before, after = ((change + offset).time() for offset in _offsets(local))
        runs = tuple(moment.astimezone(self.zone) for moment in self._moments(local))
        return ClockChange(local.replace(tzinfo=None), before, after, runs)


def _offsets(local: datetime) -> tuple[timedelta, timedelta]:
    """The offsets before and after a change of the clocks; two equal ones where there is none (PEP 495)."""
    before, after = (local.replace(fold=fold).utcoffset() for fold in (0, 1))
    assert before is not None and after is not None
    return before, after


def _doubtful(local: datetime) -> bool:
    before, after = _offsets(local)
    return before != after


def _change(local: datetime) -> datetime:
    """The moment, in UTC and to the minute, of the change of the clocks that `local` falls into."""
    early, late = (local.replace(tzinfo=UTC) - offset for offset in sorted(_offsets(local), reverse=True))
    before, _ = _offsets(local)
    # Between the two readings of `local` lies the change, or at the first of them.
    while late - early > timedelta(minutes=1):
        middle = early + (late - early) // 2
        middle = middle.replace(second=0, microsecond=0)
        if middle.astimezone(local.tzinfo).utcoffset() == before:
            early = middle
        else:
            late = middle
    return late


def monthly_runs(file: Path, now: datetime) -> list[Recurring]:
    """The schedules at the top of the file, and those of its environments: `nightly (prod)`; none without a file."""
    if not file.is_file():
        return []
    try:
        settings = toml_text.load(file)
    except Unreadable as error:
        return [Recurring(file.name, "", problem=str(error))]
    return [_recurring(name, value, now) for name, value in _named(settings)]


def _named(settings: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    top = table(settings, "schedules")
    yield from top.items()
    for environment, own in table(settings, "environments").items():
        for name, value in table(own, "schedules").items():
            # The values of an environment replace those of the schedule of the same name at the top.
            yield f"{name} ({environment})", {**table(top, name), **table(value)}


def _recurring(name: str, value: object, now: datetime) -> Recurring:
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
