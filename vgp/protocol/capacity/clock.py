"""Time as the launcher sees it, and as its documents and Google's write it."""

import threading
import time
from datetime import UTC, datetime
from typing import Any


class Clock:
    """The time of this machine. What runs faster, or stands still until it is moved, takes its place in tests.

    It is read once: from then on time passes as it does, also where somebody sets the clock. One that is set back by an
    hour would else stop every wait for an hour.
    """

    def __init__(self) -> None:
        self._ahead_s = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since 1970."""
        return time.monotonic() + self._ahead_s

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Until the event or for so long; whether the event came. For threads beside the one that sleeps."""
        return event.wait(seconds)


def written(seconds: float | None) -> str | None:
    """2026-11-20T14:03:07.120Z."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read(text: Any) -> float | None:
    """Seconds since 1970 of a time in RFC 3339; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment.timestamp() if moment.tzinfo else None
