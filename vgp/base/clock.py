"""The clock that everything waits on, and times as documents hold them: RFC 3339 in UTC."""

import threading
import time
from datetime import UTC, datetime


class Clock:
    """The time of this machine; tests pass a clock of their own, which they move.

    The system's time is read once, and from then on the monotonic clock counts: a system clock that is set back by an
    hour would otherwise prolong every wait by an hour.
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
        """Waits for so long."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Waits for the event, at most for so long; returns whether the event came."""
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
