"""The moment whose data a run reads: `as_of`, or the scheduled time of a late start; and the cache epoch."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from vgp.base.exits import UserError

# ---- the cache epoch: a number in the pins that changes every `EPOCH_DAYS`, so that no cached result outlives files

# Cached results never expire, but the bucket of runs deletes old objects. Keep objects for more than twice the epoch:
# a run on its last day may use a result of its first day, and then needs the files until it ends.

EPOCH_DAYS = 14


def epoch(now: datetime) -> int:
    """Returns the number of the current period of `EPOCH_DAYS` days, counted from 1970-01-01 UTC."""
    return int(now.astimezone(UTC).timestamp()) // (EPOCH_DAYS * 86_400)


#: A run that starts less than this after its scheduled time reads the current data.
FRESH = timedelta(hours=1)
#: An earlier scheduled time means no schedule: Vertex AI has schedules only since 2023.
FIRST_TICK = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Moment:
    """A time whose data a run reads; later data is left out."""

    #: The moment for messages, such as `as_of = 2026-11-20`.
    text: str
    time: datetime
    #: Whether the user set it, so that a run that cannot honour it must fail.
    explicit: bool

    @property
    def day(self) -> int:
        """Returns the day as a number from 1970-01-01: the last day of which rows may exist."""
        return (self.time.date() - date(1970, 1, 1)).days

    @property
    def day_over(self) -> int:
        """Returns the last complete day as a number from 1970-01-01, such as the day before for a run at 3 a.m.

        A minute is added so that 23:59 counts as the end of its day.
        """
        return ((self.time + timedelta(minutes=1)).date() - date(1970, 1, 1)).days - 1


def choose_moment(as_of: str, scheduled: str, now: datetime) -> Moment | None:
    """Returns the moment of `as_of`, else the scheduled time of a late start, else None: the run reads current data.

    Raises:
        UserError: `as_of` is not a time, or is in the future.
    """
    if as_of.strip():
        return parse(as_of, now)
    try:
        tick = _parse_time(scheduled)
    except ValueError:  # "" without a schedule, or a placeholder that was not replaced
        return None
    if tick < FIRST_TICK or now - tick < FRESH:
        return None
    return Moment(f"the scheduled time {scheduled.strip()}", tick, explicit=False)


def parse(as_of: str, now: datetime) -> Moment:
    """Parses `as_of`; a date without a time means the end of that day.

    Raises:
        UserError: `as_of` is not a time, or is in the future.
    """
    try:
        moment = _parse_time(as_of)
    except ValueError:
        raise UserError(
            f"as_of = {as_of!r} is not a time. Write a day, such as 2026-11-20, or a time, such as "
            "2026-11-20T03:00:00Z."
        ) from None
    whole_day = "T" not in as_of.strip().upper() and " " not in as_of.strip()
    if (moment.date() if whole_day else moment) > (now.date() if whole_day else now):
        raise UserError(f"as_of = {as_of} is in the future: it is now {now:%Y-%m-%dT%H:%M:%SZ}. Write an earlier time.")
    return Moment(f"as_of = {as_of.strip()}", moment, explicit=True)


def _parse_time(text: str) -> datetime:
    """Parses a time in UTC, which is also the default zone; a date becomes the day's last microsecond."""
    text = text.strip()
    try:
        return datetime.combine(date.fromisoformat(text), time.max, UTC)
    except ValueError:
        moment = datetime.fromisoformat(text)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(text) from None
