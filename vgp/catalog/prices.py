"""What a machine costs per hour on Vertex AI: Compute Engine prices by region, and Vertex's fee on top.

The files say where each price comes from and of which date it is. A price that is not known is None, never a guess;
where only an upper bound is known (Flex-start costs at most on-demand) the price says so.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from vgp.catalog import skus
from vgp.catalog.catalog import document
from vgp.catalog.machine import Machine
from vgp.text.figures import dollars

PROVISIONING = ("standard", "spot", "flex_start", "reservation")


@dataclass(frozen=True)
class Price:
    """US dollars per machine and hour in `region`. `at_most`: the true price is not known, this is its bound.

    `sources` names where it is from, as `source` tells it; `skus` are the ids of the SKUs that are in it, empty where
    not all are known.
    """

    usd_per_hour: float
    region: str
    provisioning: str
    date: str
    at_most: bool = False
    sources: tuple[str, ...] = ()
    skus: tuple[str, ...] = ()

    def __str__(self) -> str:
        bound = "at most " if self.at_most else ""
        return f"{bound}${dollars(self.usd_per_hour)}/h"


@dataclass(frozen=True)
class _Compute:
    on_demand: float
    spot: float | None
    local_ssd: float
    sources: tuple[str, ...]


def source(key: str) -> dict[str, Any]:
    """Page, date and words of what a price or a SKU is from.

    Raises:
        KeyError: prices.json has no such source.
    """
    found: dict[str, Any] = document("prices.json")["sources"][key]
    return found


def price(machine: Machine, accelerator: str | None, count: int, region: str, provisioning: str) -> Price | None:
    """Price of one machine with its GPUs, or None where the data has none. N1's GPUs are added to its price."""
    compute = _compute(machine, accelerator, count, region)
    if compute is None:
        return None
    base = compute.on_demand - compute.local_ssd
    fee = base * document("prices.json")["vertex"]["fee"]
    if provisioning == "flex_start" and (known := _flex_start(machine, region)):
        return known
    usages: tuple[str, ...] = (skus.ON_DEMAND,)
    usd = base + fee
    if provisioning == "spot":
        if compute.spot is None:
            return None
        usages, usd = (skus.SPOT, skus.ON_DEMAND), compute.spot + fee
    return Price(
        usd,
        region,
        provisioning,
        min(source(key)["date"] for key in compute.sources),
        at_most=provisioning == "flex_start",
        sources=compute.sources,
        skus=skus.ids(machine, accelerator, count, region, usages),
    )


def _flex_start(machine: Machine, region: str) -> Price | None:
    """What its own SKUs say, those of Vertex AI's fee included."""
    data = document("prices.json")["flex_start"]
    usd = data["usd_h"].get(machine.name, {}).get(region)
    if usd is None:
        return None
    ids = tuple(sku for part in data["skus"].values() for sku, _ in part)
    return Price(usd, region, "flex_start", data["date"], sources=("flex_start",), skus=ids)


def _compute(machine: Machine, accelerator: str | None, count: int, region: str) -> _Compute | None:
    """Compute Engine's price of the machine, with attached GPUs where it is an N1."""
    host = _table().get((machine.name, region))
    if host is None or not count or machine.accelerator:
        return host
    gpu = _table().get((accelerator or "", region))
    if gpu is None:
        return None
    spot = None if host.spot is None or gpu.spot is None else host.spot + count * gpu.spot
    sources = tuple(dict.fromkeys((*host.sources, *gpu.sources)))
    return _Compute(host.on_demand + count * gpu.on_demand, spot, host.local_ssd, sources)


@cache
def _table() -> dict[tuple[str, str], _Compute]:
    """prices.csv: the machine types, and the GPUs that attach to N1."""
    reading = document("prices.json")["reading"]
    text = (files("vgp.catalog") / "data" / "prices.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {
        (row["machine_type"], row["region"]): _Compute(
            float(row["on_demand_usd_h"]),
            float(row["spot_usd_h"]) if row["spot_usd_h"] else None,
            float(row["local_ssd_usd_h"]),
            (row["source"] or reading,),
        )
        for row in rows
    }
