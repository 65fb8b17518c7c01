"""The clock that all waiting uses, and times in RFC 3339, the format of documents."""

import threading
import time
from datetime import UTC, datetime


class Clock:
    """The time of this machine; tests pass a clock that they advance.

    The system time is read once and the monotonic clock added to it, because a system clock that is set back by an
    hour would prolong every wait by an hour.
    """

    def __init__(self) -> None:
        self._ahead_s = time.time() - time.monotonic()

    def now(self) -> float:
        """Returns seconds since 1970."""
        return time.monotonic() + self._ahead_s

    def moment(self) -> datetime:
        """Returns the present time in UTC."""
        return datetime.fromtimestamp(self.now(), UTC)

    def sleep(self, seconds: float) -> None:
        """Sleeps for `seconds`."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Waits up to `seconds` for the event; returns whether it is set."""
        return event.wait(seconds)


def format_time(seconds: float | None) -> str | None:
    """Formats seconds since 1970 as `2026-11-20T14:03:07.120Z`; None stays None."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: object) -> float | None:
    """Returns the seconds since 1970 of a time in RFC 3339, or None for anything else."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment.timestamp() if moment and moment.tzinfo else None
