"""The clock of what waits for Google."""

import time
from datetime import UTC, datetime


class Clock:
    """Time as the waiting sees it; tests bring their own."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)
