"""Times of Google's messages: read, and written for people and for programs."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from vgp.errors import RequestError


def moment(time: Any) -> datetime | None:
    """A timestamp of Google's messages in UTC; None where there is none."""
    if not time:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time.timestamp())


def local(time: datetime | None) -> str:
    """`Nov 20 14:03`, in the time zone of this machine."""
    return time.astimezone().strftime("%b %d %H:%M") if time else ""


def rfc3339(time: datetime | None) -> str | None:
    """2026-11-20T14:03:07.120000Z."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z") if time else None


def day(text: str | None) -> date | None:
    """The date of `--as-of`; raises RequestError."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise RequestError(f"--as-of {text}: write a date like 2026-08-20.") from None
