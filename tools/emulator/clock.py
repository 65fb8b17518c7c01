"""The time of the loopback cloud: it stands still, until a test moves it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class Clock:
    """Starts at the real time, because clients compare Google's times with their own."""

    def __init__(self, now: datetime | None = None, on_move: Callable[[], None] | None = None):
        self._base = (now or datetime.now(UTC).replace(microsecond=0)).astimezone(UTC)
        self._started_s = 0.0
        self._speed = 0.0
        self._on_move = on_move or (lambda: None)

    def now(self) -> datetime:
        if not self._speed:
            return self._base
        return self._base + timedelta(seconds=(time.monotonic() - self._started_s) * self._speed)

    def advance(self, seconds: float) -> datetime:
        """Moves on; what falls due on the way happens, in order."""
        return self.set(self.now() + timedelta(seconds=seconds))

    def set(self, now: datetime) -> datetime:
        """Moves to this time, not before the present one."""
        assert now >= self.now(), "time does not go back"
        self._base, self._started_s = now.astimezone(UTC), time.monotonic()
        self._on_move()
        return self._base

    def wait_for_noon(self) -> datetime:
        """Moves to the next 12:00 UTC, for whom the hour of our own day must not matter."""
        now = self.now()
        return self.set(now.replace(hour=12, minute=0, second=0, microsecond=0) + timedelta(days=now.hour >= 12))

    def run(self, speed: float = 1.0) -> None:
        """From now on time passes by itself, `speed` seconds in a real one; 0 stops it."""
        self._base, self._started_s, self._speed = self.now(), time.monotonic(), speed

    @property
    def variables(self) -> dict[str, str]:
        """Of processes for which time is to pass as it does here: container/sitecustomize.py."""
        if not self._speed:
            return {}
        return {"LOOPBACK_CLOCK": f"{self._base.timestamp()!r} {self._started_s!r} {self._speed!r}"}
