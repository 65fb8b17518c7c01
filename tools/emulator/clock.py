"""The clock of the loopback cloud, which stands still until a test moves it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class Clock:
    """A clock that starts at the real time, because clients compare Google's times with their own."""

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
        """Moves the clock forward; events that become due happen in order."""
        return self.set(self.now() + timedelta(seconds=seconds))

    def set(self, now: datetime) -> datetime:
        """Moves the clock to a later time."""
        assert now >= self.now(), "time does not go back"
        self._base, self._started_s = now.astimezone(UTC), time.monotonic()
        self._on_move()
        return self._base

    def wait_for_noon(self) -> datetime:
        """Moves the clock to the next 12:00 UTC, so that a test does not depend on the hour at which it runs."""
        now = self.now()
        return self.set(now.replace(hour=12, minute=0, second=0, microsecond=0) + timedelta(days=now.hour >= 12))

    def run(self, speed: float = 1.0) -> None:
        """Lets time pass by itself, `speed` seconds in a real one; 0 stops it."""
        self._base, self._started_s, self._speed = self.now(), time.monotonic(), speed

    @property
    def variables(self) -> dict[str, str]:
        """Returns the variables of processes that use this clock: container/sitecustomize.py."""
        if not self._speed:
            return {}
        return {"LOOPBACK_CLOCK": f"{self._base.timestamp()!r} {self._started_s!r} {self._speed!r}"}
