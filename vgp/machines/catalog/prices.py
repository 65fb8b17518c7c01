"""$/hour of a machine on Vertex AI: Compute Engine's price in the region, plus Vertex AI's fee.

The fee is the difference between Vertex AI's and Compute Engine's SKUs of the same date, or 15 % without such SKUs. The
files have source and date of each price. An unknown price is None, never a guess; if only an upper bound is known
(Flex-start costs at most on-demand) the price is marked as one.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import format_dollars
from vgp.machines.catalog import skus
from vgp.machines.catalog.catalog import Machine, document, machines, regions

PROVISIONING = ("standard", "spot", "flex_start", "reservation")


@dataclass(frozen=True)
class Price:
    """US dollars per machine and hour in `region`. `at_most`: an upper bound, because the price is unknown.

    `sources` are keys for `source`; `skus` are the ids of the SKUs in the price, empty if
    one of them is unknown.
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
        return f"{bound}${format_dollars(self.usd_per_hour)}/h"


@dataclass(frozen=True)
class _Compute:
    on_demand: float
    spot: float | None
    local_ssd: float
    sources: tuple[str, ...]


def source(key: str) -> JsonObject:
    """Returns page, date and text of the source of a price or a SKU.

    Raises:
        KeyError: prices.json has no such source.
    """
    found: JsonObject = document("prices.json")["sources"][key]
    return found


def price(machine: Machine, accelerator: str | None, count: int, region: str, provisioning: str) -> Price | None:
    """Returns the price of one machine with its GPUs; None without data. N1's GPUs are added to its price."""
    if provisioning == "flex_start" and (known := _flex_start(machine, region)):
        return known
    request = machine, accelerator, count, region
    compute = _compute(*request)
    if compute is None:
        return _by_skus(*request, provisioning)
    base = compute.on_demand - compute.local_ssd
    if provisioning == "spot" and compute.spot is None:
        return None
    usd = (compute.spot or 0) if provisioning == "spot" else base
    usage = skus.TRAINING if provisioning in ("standard", "flex_start") else skus.FEE
    return Price(
        usd + base * _fee(*request, usage),
        region,
        provisioning,
        min(source(key)["date"] for key in compute.sources),
        at_most=provisioning == "flex_start",
        sources=compute.sources,
        skus=_ids(*request, provisioning),
    )


def _fee(machine: Machine, accelerator: str | None, count: int, region: str, usage: str) -> float:
    """Returns Vertex AI's share of Compute Engine's on-demand price: by the SKUs of that usage, or by the 15 % rule."""
    own, compute = (skus.find_skus(machine, accelerator, count, region, each) for each in (usage, skus.ON_DEMAND))
    if own is None or compute is None or own.sources != compute.sources:
        return float(document("prices.json")["vertex"]["fee"])
    return own.usd / compute.usd - (1 if usage == skus.TRAINING else 0)


def _ids(machine: Machine, accelerator: str | None, count: int, region: str, provisioning: str) -> tuple[str, ...]:
    """Returns the billed SKUs or, if Vertex AI's own are unknown, those that its fee is based on."""

    def of(usage: str) -> tuple[str, ...]:
        found = skus.find_skus(machine, accelerator, count, region, usage)
        return found.ids if found else ()

    if provisioning in ("standard", "flex_start"):
        return of(skus.TRAINING) or of(skus.ON_DEMAND)
    compute = of(skus.SPOT if provisioning == "spot" else skus.ON_DEMAND)
    fee = of(skus.FEE) or (of(skus.ON_DEMAND) if provisioning == "spot" else ())
    return compute + fee if compute and (fee or provisioning != "spot") else ()


def _by_skus(machine: Machine, accelerator: str | None, count: int, region: str, provisioning: str) -> Price | None:
    """Returns the price from SKUs alone, for machines without an on-demand price in Compute Engine, such as A4.

    SKUs of parts also exist in regions without the machine.
    """
    if region not in (machine.compute_regions or ()):
        return None
    spot, fee, training = (
        skus.find_skus(machine, accelerator, count, region, usage) for usage in (skus.SPOT, skus.FEE, skus.TRAINING)
    )
    found = [spot, fee] if provisioning == "spot" else [training]
    known = [each for each in found if each]
    if len(known) < len(found):
        return None
    sources = tuple(dict.fromkeys(key for each in known for key in each.sources))
    return Price(
        sum(each.usd for each in known),
        region,
        provisioning,
        min(source(key)["date"] for key in sources),
        at_most=provisioning in ("flex_start", "reservation"),
        sources=sources,
        skus=tuple(sku for each in known for sku in each.ids),
    )


def _flex_start(machine: Machine, region: str) -> Price | None:
    """Returns the price from the Flex-start SKUs, Vertex AI's fee included."""
    data = document("prices.json")["flex_start"]
    usd = data["usd_h"].get(machine.name, {}).get(region)
    if usd is None:
        return None
    ids = tuple(sku for part in data["skus"].values() for sku, _ in part)
    return Price(usd, region, "flex_start", data["date"], sources=("flex_start",), skus=ids)


def _compute(machine: Machine, accelerator: str | None, count: int, region: str) -> _Compute | None:
    """Returns Compute Engine's price of the machine, with the GPUs attached to an N1."""
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
    """Reads prices.csv: the machine types, and the GPUs that attach to N1."""
    reading = document("prices.json")["reading"]
    text = (files("vgp.machines.catalog") / "data" / "prices.csv").read_text(encoding="utf-8")
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


@cache
def boot_disk(disk_type: str, size_gb: int, region: str) -> Price | None:
    """Returns the hourly price of a boot disk, Vertex AI's fee included; None for a type without a price.

    A region without a price gets that of the most expensive region, as a bound.
    """
    part = skus.DISKS.get(disk_type)
    if part is None:
        return None
    known = _disk_rate(part, region)
    if known is not None:
        found, at_most = known, False
    else:
        found, at_most = max(filter(None, (_disk_rate(part, where) for where in sorted(regions())))), True
    usd, ids, sources = found
    date = min(source(key)["date"] for key in sources)
    return Price(usd * size_gb, region, "standard", date, at_most, sources, ids)


def _disk_rate(part: str, region: str) -> tuple[float, tuple[str, ...], tuple[str, ...]] | None:
    """Returns $/hour of a GB by Vertex AI's SKU, else by Compute Engine's plus the fee; its SKU, and the sources."""
    for usage in (skus.TRAINING, skus.ON_DEMAND):
        if found := skus.total([(part, 1)], region, usage):
            fee = 0.0 if usage == skus.TRAINING else float(document("prices.json")["vertex"]["fee"])
            return found.usd * (1 + fee), found.ids, found.sources
    return None


_GIB_PER_TIB = 1024


def bigquery_usd(gib: float, location: str = "") -> float:
    """Returns the price of queries that read `gib`; an unknown location has the price of the most expensive one."""
    prices: JsonObject = document("prices.json")["bigquery"]
    return gib / _GIB_PER_TIB * float(prices["usd_tib"].get(location, prices["dearest"]))


def dataflow_usd(machine: str, disk_gb: int, workers: int, hours: float, region: str) -> float | None:
    """Returns the price of batch workers without shuffled bytes; None if a price or the machine is unknown.

    The rates cover vCPU, memory and disk: a machine with GPUs costs more.
    """
    rates = document("prices.json")["dataflow"]["usd_h"].get(region)
    known = machines().get(machine)
    if rates is None or known is None or known.gpus:
        return None
    hourly = known.vcpu * rates["vcpu"] + known.memory_gb * rates["memory_gb"] + disk_gb * rates["disk_gb"]
    return float(hourly * workers * hours)


def shuffle_usd_per_gb() -> float:
    return float(document("prices.json")["dataflow"]["shuffle_usd_gb"])


def service_price_date(service: str) -> str:
    """Returns the date of the prices of BigQuery or Dataflow."""
    return str(document("prices.json")[service.lower()]["date"])
