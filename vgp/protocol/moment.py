"""The moment that a run looks back from: `as_of`, or the time of a schedule's late tick; and the cache epoch."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from vgp.base.exits import UserError

# ---- the cache epoch: a number in the pins that changes every `EPOCH_DAYS`, so that no cached result outlives files

# Cached results never expire, while the bucket of the runs deletes what is old. Keep its objects for more than twice as
# long: a result of the epoch's first day is taken until its last, and its run goes on for a while.

EPOCH_DAYS = 14


def epoch(now: datetime) -> int:
    """The number of the period of `EPOCH_DAYS` days, counted from 1970-01-01 UTC."""
    return int(now.astimezone(UTC).timestamp()) // (EPOCH_DAYS * 86_400)


#: A tick that is younger is no look back: the night works on what is there.
FRESH = timedelta(hours=1)
#: Vertex AI's schedules came in 2023: an earlier time stands for none.
FIRST_TICK = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Moment:
    """What came later is left out."""

    #: As it is said to people, such as `as_of = 2026-11-20`.
    text: str
    time: datetime
    #: Whether somebody asked for it, and must be told where it cannot be had.
    explicit: bool

    @property
    def day(self) -> int:
        """The day, from 1970-01-01: no row that was there then is of a later one."""
        return (self.time.date() - date(1970, 1, 1)).days

    @property
    def day_over(self) -> int:
        """The last day that was over, to the minute: of data that came since, a night at three has the day before."""
        return ((self.time + timedelta(minutes=1)).date() - date(1970, 1, 1)).days - 1


def choose_moment(as_of: str, scheduled: str, now: datetime) -> Moment | None:
    """`as_of`; where it is empty the tick, if it is a time and long past; None for a run that looks from now.

    Raises:
        UserError: `as_of` is no time, or has not come yet.
    """
    if as_of.strip():
        return parse(as_of, now)
    try:
        tick = _time(scheduled)
    except ValueError:  # "" where no schedule is, or a placeholder that nobody replaced
        return None
    if tick < FIRST_TICK or now - tick < FRESH:
        return None
    return Moment(f"the schedule's time {scheduled.strip()}", tick, explicit=False)


def parse(as_of: str, now: datetime) -> Moment:
    """The moment that `as_of` names; of a day its end. Raises as `choose_moment`."""
    try:
        moment = _time(as_of)
    except ValueError:
        raise UserError(
            f"as_of = {as_of!r} is no time: give a day, such as 2026-11-20, or a moment, such as 2026-11-20T03:00:00Z."
        ) from None
    whole_day = "T" not in as_of.strip().upper() and " " not in as_of.strip()
    if (moment.date() if whole_day else moment) > (now.date() if whole_day else now):
        raise UserError(f"as_of = {as_of} has not come yet: it is {now:%Y-%m-%dT%H:%M:%SZ}.")
    return Moment(f"as_of = {as_of.strip()}", moment, explicit=True)


def _time(text: str) -> datetime:
    """In UTC, which also stands where no zone is written; of a day its last microsecond."""
    text = text.strip()
    try:
        return datetime.combine(date.fromisoformat(text), time.max, UTC)
    except ValueError:
        moment = datetime.fromisoformat(text)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(text) from None
