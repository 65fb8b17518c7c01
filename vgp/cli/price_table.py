"""Prices of a machine: a column for each way to pay, and where they are from."""

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from vgp.base.text.figures import dollars
from vgp.base.text.table import table
from vgp.machines.catalog.prices import Price, source

WAYS = {"standard": "standard", "spot": "Spot", "flex_start": "Flex-start", "reservation": "reservation"}


def price_table(titles: tuple[str, ...], prices: Iterable[tuple[tuple[str, ...], Price]]) -> Table:
    """A row for each of what is priced and each day.

    Args:
        titles: Of the cells that say what is priced, the region among them.
        prices: Those cells, and a price.
    """
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for cells, price in prices:
        usd = f"{'<= ' if price.at_most else ''}{dollars(price.usd_per_hour)}"
        rows.setdefault((*cells, price.date), {})[price.provisioning] = usd
    ways = [way for way in WAYS if any(way in row for row in rows.values())]
    lines = ((*cells, *(usd.get(way, "") for way in ways), day) for (*cells, day), usd in rows.items())
    paid = [WAYS[way] for way in ways]
    return table((*titles, *paid, "price of"), lines, right=paid, whole=("region", *paid))


def price_sources(prices: Iterable[Price]) -> dict[str, dict[str, Any]]:
    """Name of a source -> page, date and words, of every price."""
    return {key: source(key) for key in sorted({key for price in prices for key in price.sources})}
