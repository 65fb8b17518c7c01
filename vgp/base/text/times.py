"""Times of Google's messages, in formats for people and programs, and the dates of prices.

price_dates(["2026-07-30", "2026-07-09"], date(2026, 8, 1))    # prices of 2026-07-09 to 2026-07-30
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol

from vgp.base.errors import RequestError

_DURATION = re.compile(r"(\d{1,6})\s*([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(time: Any) -> datetime | None:
    """Converts a timestamp of Google's messages to UTC; None if it is empty."""
    if not time:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time.timestamp())


def format_local(time: datetime | None, now: datetime | None = None) -> str:
    """Formats a time in the local zone as `Nov 20 14:03`, or `Nov 20 2025 14:03` in another year than `now`."""
    if time is None:
        return ""
    local_time = time.astimezone()
    year = "" if local_time.year == (now or datetime.now(UTC)).astimezone().year else "%Y "
    return local_time.strftime(f"%b %d {year}%H:%M")


def rfc3339(time: datetime | None) -> str | None:
    """Formats a time as 2026-11-20T14:03:07.120000Z; None stays None."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z") if time else None


def parse_duration(text: str) -> timedelta | None:
    """Parses 90m, 12h, 7d or 2w; None for other texts, also a number without a unit."""
    match = _DURATION.fullmatch(text.strip())
    return timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else None


def parse_as_of(text: str | None) -> date | None:
    """Parses the date of `--as-of`; raises RequestError."""
    return parse_day(text, "--as-of") if text else None


def parse_day(text: str, option: str) -> date:
    """Parses the date of an option; raises RequestError."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise RequestError(f"{option} {text}: write a date like 2026-08-20.") from None


#: Days until prices are too old. Google changes Spot prices up to once a day, others a few times a year.
FRESH_DAYS = 60


class Priced(Protocol):
    """A price with the ids of its SKUs, empty unless all are known."""

    @property
    def skus(self) -> tuple[str, ...]: ...


def price_dates(dates: Iterable[str | None], today: date | None = None) -> str:
    """Returns `prices of 2026-07-30`, with a warning if the oldest is older than 60 days; "" without dates."""
    known = sorted({day for day in dates if day})
    if not known:
        return ""
    span = known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"
    return f"prices of {span}{price_age_warning(known, today)}"


def price_age_warning(dates: Iterable[str], today: date | None = None) -> str:
    """Returns the warning that follows dates of prices older than 60 days, or ""."""
    days = max(((today or date.today()) - date.fromisoformat(day)).days for day in dates)
    return f", up to {days} days old; refresh: vgp machines --refresh --write" if days > FRESH_DAYS else ""


def describe_unknown_skus(prices: Sequence[Priced]) -> str:
    """Returns a note of how many prices have no known SKU, or ""."""
    unknown = sum(not price.skus for price in prices)
    return f"without a known SKU id: {unknown} of {len(prices)} (--json has the ids)" if unknown else ""
