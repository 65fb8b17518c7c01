"""The moment that a run looks from: `as_of`, or the time of the schedule's tick."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from training.errors import UserError

#: A tick that is younger counts as now: what is in the bucket then is what the night works on.
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
    #: Whether objects are looked for as they were then.
    past: bool = True

    @property
    def day(self) -> int:
        """The last day that counts, from 1970-01-01."""
        return (self.time.date() - date(1970, 1, 1)).days


def chosen(as_of: str, scheduled: str, now: datetime) -> Moment | None:
    """`as_of`; where it is empty the tick, if it is a time; None for a run that looks from now.

    Raises:
        UserError: `as_of` is no time, or has not come yet.
    """
    if as_of.strip():
        return parse(as_of, now)
    try:
        tick = _time(scheduled)
    except ValueError:  # "" where no schedule is, or a placeholder that nobody replaced
        return None
    if tick < FIRST_TICK:
        return None
    return Moment(f"the schedule's time {scheduled.strip()}", tick, explicit=False, past=now - tick > FRESH)


def parse(as_of: str, now: datetime) -> Moment:
    """The moment that `as_of` names; of a day its end. Raises as `chosen`."""
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
