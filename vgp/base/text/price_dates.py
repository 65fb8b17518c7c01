"""Of which day prices are, in words for every table that shows some, and when they are too old to rely on.

words(["2026-07-30", "2026-07-09"], date(2026, 8, 1))    # prices of 2026-07-09 to 2026-07-30
"""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Protocol

#: Google changes Spot prices up to once a day and others a few times a year.
FRESH_DAYS = 60


class Priced(Protocol):
    """A price with the ids of its SKUs, empty where not all are known."""

    @property
    def skus(self) -> tuple[str, ...]: ...


def words(dates: Iterable[str | None], today: date | None = None) -> str:
    """`prices of 2026-07-30`, and a warning where the oldest is older than 60 days; empty where there is none."""
    known = sorted({day for day in dates if day})
    if not known:
        return ""
    span = known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"
    return f"prices of {span}{too_old(known, today)}"


def too_old(dates: Iterable[str], today: date | None = None) -> str:
    """What follows the dates of prices that are older than 60 days; empty where none is."""
    days = max(((today or date.today()) - date.fromisoformat(day)).days for day in dates)
    return f", up to {days} days old: refresh them (vgp machines --refresh --write)" if days > FRESH_DAYS else ""


def without_skus(prices: Sequence[Priced]) -> str:
    """How many of the prices have no known SKU, below a table of many; empty where each has its SKUs."""
    unknown = sum(not price.skus for price in prices)
    return f"without a known SKU id: {unknown} of {len(prices)} (--json has the ids)" if unknown else ""
