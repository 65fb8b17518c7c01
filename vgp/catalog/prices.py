"""What a machine costs per hour on Vertex AI: Compute Engine prices by region, and Vertex's fee on top.

The files say where each price comes from and of which date it is. A price that is not known is None, never a guess;
where only an upper bound is known (Flex-start costs at most on-demand) the price says so.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vgp.catalog.catalog import document
from vgp.catalog.machine import Machine
from vgp.text.figures import dollars

PROVISIONING = ("standard", "spot", "flex_start", "reservation")


@dataclass(frozen=True)
class Price:
    """US dollars per machine and hour in `region`. `at_most`: the true price is not known, this is its bound."""

    usd_per_hour: float
    region: str
    provisioning: str
    date: str
    at_most: bool = False

    def __str__(self) -> str:
        bound = "at most " if self.at_most else ""
        return f"{bound}${dollars(self.usd_per_hour)}/h"


@dataclass(frozen=True)
class _Compute:
    on_demand: float
    spot: float | None
    local_ssd: float
    date: str


def price(machine: Machine, accelerator: str | None, count: int, region: str, provisioning: str) -> Price | None:
    """Price of one machine with its GPUs, or None where the data has none. N1's GPUs are added to its price."""
    compute = _compute(machine, accelerator, count, region)
    if compute is None:
        return None
    data = document("prices.json")
    base = compute.on_demand - compute.local_ssd
    fee = base * data["vertex"]["fee"]
    if provisioning == "spot":
        return None if compute.spot is None else Price(compute.spot + fee, region, provisioning, compute.date)
    if provisioning == "flex_start":
        usd = data["flex_start"]["usd_h"].get(machine.name, {}).get(region)
        if usd is not None:
            return Price(usd, region, provisioning, data["flex_start"]["date"])
        return Price(base + fee, region, provisioning, compute.date, at_most=True)
    return Price(base + fee, region, provisioning, compute.date)


def _compute(machine: Machine, accelerator: str | None, count: int, region: str) -> _Compute | None:
    """Compute Engine's price of the machine, with attached GPUs where it is an N1."""
    host = _table().get((machine.name, region)) or _of_page(machine, region)
    if host is None or not count or machine.accelerator:
        return host
    parts = document("prices.json")["parts"]
    rate = parts["gpu"].get(accelerator, {}).get(region)
    if rate is None:
        return None
    gpu_on_demand, gpu_spot = rate
    spot = None if host.spot is None or gpu_spot is None else host.spot + count * gpu_spot
    return _Compute(host.on_demand + count * gpu_on_demand, spot, host.local_ssd, min(host.date, parts["date"]))


def _of_page(machine: Machine, region: str) -> _Compute | None:
    """What prices.csv lacks and Google's page quotes, or a copy of the catalog that agrees with the page."""
    for name in ("page", "copy"):
        page = document("prices.json")[name]
        rates = page["usd_h"].get(machine.name, {}).get(region)
        if rates is not None:
            on_demand, spot, local_ssd = rates
            return _Compute(on_demand, spot, local_ssd, page["date"])
    return None


@cache
def _table() -> dict[tuple[str, str], _Compute]:
    date = document("prices.json")["date"]
    text = (files("vgp.catalog") / "data" / "prices.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {
        (row["machine_type"], row["region"]): _Compute(
            float(row["on_demand_usd_h"]),
            float(row["spot_usd_h"]) if row["spot_usd_h"] else None,
            float(row["local_ssd_usd_h"]),
            row["date"] or date,
        )
        for row in rows
    }
