"""A clock that only sleeping moves."""

from vgp.base.clock import Clock


class Stopwatch(Clock):
    """Starts at 0 and keeps the pauses that were slept."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds
