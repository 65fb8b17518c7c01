"""The SKUs of Google's catalog that make up a price, and the part that a SKU of Vertex AI's training sells.

The catalog sells machines by the part (vCPU, GB, GPU), region and usage, with separate SKUs for Compute Engine and for
Vertex AI's training. skus.csv has the known SKUs with their prices, prices.json their sources.
Look up an id at https://cloud.google.com/skus?filter=ID

part("Vertex AI: Training/Pipelines Management fee on G2 Instance Core in Iowa")  # ("G2 Instance Core", "Fee")
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vgp.base.documents.json_text import JsonObject
from vgp.machines.catalog import catalog
from vgp.machines.catalog.catalog import Machine, document

#: Generation of a TPU machine -> description of the SKU of one chip hour.
CHIPS = {"v5e": "TpuV5e", "v6e": "TpuV6e", "TPU7x": "TPU7x"}
#: TPU v2 and v3 -> descriptions of the SKUs of one core hour: on a single board, and in a Pod. Vertex AI only.
CORES = {
    "TPU_V2": ("Tpu-v2 Accelerator", "Tpu-v2 Pod Accelerator"),
    "TPU_V3": ("Tpu-v3 Accelerator", "Tpu-v3 Pod Accelerator"),
}
#: Type of a boot disk -> description of the SKU of one GB hour; the IOPS and the throughput that hyperdisk-balanced
#: begins with are free of charge: https://cloud.google.com/compute/disks-image-pricing
DISKS = {
    "pd-ssd": "SSD backed PD Capacity",
    "pd-standard": "Storage PD Capacity",
    "pd-balanced": "Balanced PD Capacity",
    "hyperdisk-balanced": "Hyperdisk Balanced Capacity",
}
#: Other names of a part in some regions or usages.
ALSO = {
    "Nvidia H100 80GB Plus GPU": "Nvidia H100 80GB Mega GPU",
    "A3 Ultra Instance Core": "A3Ultra Instance Core",
    "A3 Ultra Instance Ram": "A3Ultra Instance Ram",
    "Compute optimized Instance Core": "Compute optimized Core",
    "Compute optimized Instance Ram": "Compute optimized Ram",
}
COLUMNS = ("part", "region", "usage", "sku", "usd_h", "source")
#: Usages of Compute Engine, in the catalog's words: on demand, and Spot.
ON_DEMAND, SPOT = "OnDemand", "Preemptible"
#: Usages of Vertex AI: on-demand training, and the fee on machines billed as Compute Engine's.
TRAINING, FEE = "Training", "Fee"


@dataclass(frozen=True)
class SkuPrice:
    """The SKUs of a machine for one usage, with their hourly sum in USD."""

    usd: float
    ids: tuple[str, ...]
    sources: tuple[str, ...]


def parts(machine: Machine, accelerator: str | None = None, count: int = 0) -> Iterator[tuple[str, float]]:
    """Yields each part of the machine with its amount: vCPU, GB, GPUs. Nothing for a family that is sold in another
    way."""
    yield from zip(machine.skus, (machine.vcpu, machine.memory_gb), strict=False)
    if machine.accelerator:
        yield catalog.accelerators()[machine.accelerator].sku, machine.gpus
    elif accelerator and count and (sku := attachable_skus().get(accelerator)):
        yield sku, count


@cache
def attachable_skus() -> dict[str, str]:
    """Returns the SKU of each GPU that attaches to N1."""
    names = {name for machine in catalog.machines().values() for name in machine.attachable}
    return {name: row.sku for name, row in catalog.accelerators().items() if name in names}


@cache
def part_names() -> dict[str, str]:
    """Returns the main name of a part by every name of it."""
    parts = {sku for machine in catalog.machines().values() for sku in machine.skus}
    parts |= {row.sku for row in catalog.accelerators().values() if row.sku}
    parts |= {*CHIPS.values(), *DISKS.values(), *(part for pair in CORES.values() for part in pair)}
    return {**{part: part for part in sorted(parts)}, **ALSO}


def price_machine(machine: Machine, accelerator: str | None, count: int, region: str, usage: str) -> SkuPrice | None:
    """Returns the SKUs of every part of the machine with its GPUs; None if one is unknown."""
    return total(list(parts(machine, accelerator, count)), region, usage)


def total(amounts: Sequence[tuple[str, float]], region: str, usage: str) -> SkuPrice | None:
    """Returns the SKUs of these amounts of parts; None if one is unknown."""
    prices = [_read_table().get((part, region, usage)) for part, _ in amounts]
    rows = [row for row in prices if row is not None]
    if not rows or len(rows) < len(amounts):
        return None
    usd = sum(float(row["usd_h"]) * amount for row, (_, amount) in zip(rows, amounts, strict=True))
    return SkuPrice(usd, tuple(row["sku"] for row in rows), tuple(dict.fromkeys(row["source"] for row in rows)))


@cache
def _read_table() -> dict[tuple[str, str, str], dict[str, str]]:
    text = (files("vgp.machines.catalog") / "data" / "skus.csv").read_text(encoding="utf-8")
    rows, reading = csv.DictReader(text.splitlines()), document("prices.json")["reading"]
    return {(row["part"], row["region"], row["usage"]): {**row, "source": row["source"] or reading} for row in rows}


VERTEX_AI = "C7E2-9256-1C43"
_TRAINING = re.compile(
    r"\s*(?:Vertex AI: ?Training(?:/Pipelines)? |Training - )(management fee on )?(?:on )?(.+?)(?: running)?"
    r"(?: in \S| (?:USA|Europe|Asia)$|(?<= PD Capacity)$)",
    re.I,
)
#: Words that only some names of a part contain.
_LOOSE = {"nvidia", "tesla", "gpu", "predefined", "instance"}


def _split_name(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.lower())) - _LOOSE


#: Other names of parts in Vertex AI's SKUs.
_VERTEX_AI_NAMES = {
    "C2 Core": "Compute optimized Core", "C2 RAM": "Compute optimized Ram", "M1 Core": "Memory-optimized Instance Core",
    "M1 RAM": "Memory-optimized Instance Ram", "Tpu-v5e Accelerator": "TpuV5e", "Tpu V6e": "TpuV6e",
    "Tpu-7x Accelerator": "TPU7x", "Tpu 7x": "TPU7x",
}  # fmt: skip


@cache
def _list_vertex_ai_parts() -> dict[frozenset[str], str]:
    gpus = {row.vertex_ai_sku: row.sku for row in catalog.accelerators().values() if row.vertex_ai_sku}
    names = {**part_names(), **_VERTEX_AI_NAMES, **gpus}
    return {_split_name(name): part for name, part in names.items()}


def vertex_ai_part(description: str) -> tuple[str, str] | None:
    """Returns the part and the usage in a description of Vertex AI; None if it sells something else."""
    match = _TRAINING.match(description)
    part = _list_vertex_ai_parts().get(_split_name(match.group(2))) if match else None
    return (part, FEE if match.group(1) else TRAINING) if match and part else None


#: From Google's Cloud Billing catalog, whose SKUs sell parts of machines. Recorded answers are tested; against the live
#: API it is not verified. https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list
COMPUTE_ENGINE = "6F81-5844-456A"
#: Two prices of a part that differ by less are equal.
_SAME_USD = 1e-6
_SPOT = re.compile(r"\bSpot Preemptible ")
_NOT_PLAIN = re.compile(r"\b(Custom|Sole Tenancy|Commitment|Reserved|Calendar|DWS|Flex|Premium|Confidential)\b", re.I)
#: Hours of a month of a GB: the catalog's factor from byte seconds to GB months assumes 30 days.
_HOURS_OF_MONTH = 720


@dataclass(frozen=True)
class Rate:
    """The USD price of an hour of one vCPU, GB or GPU, and its SKU."""

    usd: float
    sku: str


#: (part, region, usage) -> its rate.
Rates = dict[tuple[str, str, str], Rate]


@dataclass(frozen=True)
class MachinePrice:
    """Compute Engine's $/hour of a machine without local SSD, or of one attachable GPU; `spot` is None if a part has
    no Spot price."""

    on_demand: float
    spot: float | None


def rates(catalog_skus: Iterable[JsonObject]) -> Rates:
    """Returns the rates of the parts of the catalog's machines. Some Spot SKUs are filed as on demand, so the text
    decides.

    If Vertex AI has two SKUs with equal text and different prices, as for the fee on G4's cores, the part has no rate.
    """
    table: Rates = {}
    doubtful = set()
    for sku in catalog_skus:
        sold, price = _identify_sku(sku), unit_price(sku)
        if sold is None or price is None:
            continue
        for region in sku.get("serviceRegions", ()):
            key = (sold[0], region, sold[1])
            rate = Rate(price, str(sku.get("skuId", "")))
            before = table.setdefault(key, rate)
            if sold[1] not in (TRAINING, FEE):
                table[key] = rate
            elif abs(before.usd - price) > _SAME_USD:
                doubtful.add(key)
    return {key: rate for key, rate in table.items() if key not in doubtful}


def _identify_sku(sku: JsonObject) -> tuple[str, str] | None:
    """Returns the part and the usage of a SKU; None if it sells something else."""
    description = str(sku.get("description", ""))
    usage = str(sku.get("category", {}).get("usageType", ""))
    if training := vertex_ai_part(description):
        return training if usage == ON_DEMAND else None
    if usage not in (ON_DEMAND, SPOT) or _NOT_PLAIN.search(description):
        return None
    part = _part(description)
    return (part, SPOT if _SPOT.search(description) else usage) if part else None


def _part(description: str) -> str | None:
    """Returns the main name of the part that the description begins with."""
    plain = description.removeprefix("Spot Preemptible ")
    return next((part for name, part in part_names().items() if f"{plain} ".startswith(f"{name} ")), None)


def unit_price(sku: JsonObject) -> float | None:
    """Returns the USD price of a unit hour after all free tiers; None if the SKU has none."""
    for info in sku.get("pricingInfo", ()):
        expression = info.get("pricingExpression", {})
        tiers, hours = expression.get("tieredRates", ()), 1
        if str(expression.get("usageUnit", "")).endswith(".mo"):
            hours = _HOURS_OF_MONTH
        amounts = [
            int(tier["unitPrice"].get("units", 0)) + int(tier["unitPrice"].get("nanos", 0)) / 1e9 for tier in tiers
        ]
        if amounts:
            return amounts[-1] / hours
    return None


def machine_prices(rates: Rates) -> dict[tuple[str, str], MachinePrice]:
    """Returns prices by (machine type or attachable GPU, region), if every part is sold there."""
    sums = [(machine.name, list(parts(machine))) for machine in catalog.machines().values()]
    sums += [(name, [(part, 1)]) for name, part in attachable_skus().items()]
    prices = {}
    for region in sorted({region for _, region, _ in rates}):
        for name, amounts in sums:
            on_demand = _sum(amounts, region, ON_DEMAND, rates)
            if on_demand is not None:
                prices[name, region] = MachinePrice(on_demand, _sum(amounts, region, SPOT, rates))
    return prices


def _sum(parts: list[tuple[str, float]], region: str, usage: str, rates: Rates) -> float | None:
    amounts = [(rates.get((part, region, usage)), amount) for part, amount in parts]
    known = [rate.usd * amount for rate, amount in amounts if rate]
    return round(sum(known), 6) if known and len(known) == len(amounts) else None
