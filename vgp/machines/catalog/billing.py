"""Prices from Google's Cloud Billing catalog: SKUs of parts, summed to the machines of our catalog.

The catalog API sells machines by the part (a core, a GB, a GPU, each by region and usage), Compute Engine's and Vertex
AI's. Recorded answers are tested; against the live API it is not verified.
https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vgp.machines.catalog import catalog, skus

COMPUTE_ENGINE = "6F81-5844-456A"

#: Two prices of a part that differ by less are one.
_SAME_USD = 1e-6
_SPOT = re.compile(r"\bSpot Preemptible ")
_NOT_PLAIN = re.compile(r"\b(Custom|Sole Tenancy|Commitment|Reserved|Calendar|DWS|Flex|Premium)\b", re.I)


@dataclass(frozen=True)
class Rate:
    """What an hour of one vCPU, GB or GPU costs in USD, and the SKU that says so."""

    usd: float
    sku: str


#: (part, region, usage) -> its rate.
Rates = dict[tuple[str, str, str], Rate]


@dataclass(frozen=True)
class MachinePrice:
    """Compute Engine's $/hour of a machine without local SSD, or of one GPU that attaches; `spot` None where a part has
    no Spot price."""

    on_demand: float
    spot: float | None


def rates(catalog_skus: Iterable[dict[str, Any]]) -> Rates:
    """The rates of the parts of our machines. Some Spot SKUs are filed as on demand: their description says it.

    Where Vertex AI has two SKUs of the same words at different prices, as for the fee on G4's cores, it has none.
    """
    found: Rates = {}
    doubtful = set()
    for sku in catalog_skus:
        sold, price = _sold(sku), unit_price(sku)
        if sold is None or price is None:
            continue
        for region in sku.get("serviceRegions", ()):
            key = (sold[0], region, sold[1])
            rate = Rate(price, str(sku.get("skuId", "")))
            before = found.setdefault(key, rate)
            if sold[1] not in (skus.TRAINING, skus.FEE):
                found[key] = rate
            elif abs(before.usd - price) > _SAME_USD:
                doubtful.add(key)
    return {key: rate for key, rate in found.items() if key not in doubtful}


def _sold(sku: dict[str, Any]) -> tuple[str, str] | None:
    """Part and usage of a SKU, or None where it sells something else."""
    description = str(sku.get("description", ""))
    usage = str(sku.get("category", {}).get("usageType", ""))
    if training := skus.vertex_ai_part(description):
        return training if usage == skus.ON_DEMAND else None
    if usage not in (skus.ON_DEMAND, skus.SPOT) or _NOT_PLAIN.search(description):
        return None
    part = _part(description)
    return (part, skus.SPOT if _SPOT.search(description) else usage) if part else None


def _part(description: str) -> str | None:
    """The part that the description begins with, by its first name."""
    plain = description.removeprefix("Spot Preemptible ")
    return next((part for name, part in skus.NAMES.items() if plain.startswith(f"{name} ")), None)


def unit_price(sku: dict[str, Any]) -> float | None:
    """The price of a unit after all free tiers, in USD; None where the SKU has none."""
    for info in sku.get("pricingInfo", ()):
        tiers = info.get("pricingExpression", {}).get("tieredRates", ())
        amounts = [
            int(tier["unitPrice"].get("units", 0)) + int(tier["unitPrice"].get("nanos", 0)) / 1e9 for tier in tiers
        ]
        if amounts:
            return amounts[-1]
    return None


def machine_prices(rates: Rates) -> dict[tuple[str, str], MachinePrice]:
    """(machine type, or GPU that attaches to N1; region) -> price, where every part of it is sold there."""
    sums = [(machine.name, list(skus.parts(machine))) for machine in catalog.machines().values()]
    sums += [(name, [(part, 1)]) for name, part in skus.ATTACHED.items()]
    prices = {}
    for region in sorted({region for _, region, _ in rates}):
        for name, parts in sums:
            on_demand = _sum(parts, region, skus.ON_DEMAND, rates)
            if on_demand is not None:
                prices[name, region] = MachinePrice(on_demand, _sum(parts, region, skus.SPOT, rates))
    return prices


def _sum(parts: list[tuple[str, float]], region: str, usage: str, rates: Rates) -> float | None:
    amounts = [(rates.get((part, region, usage)), amount) for part, amount in parts]
    known = [rate.usd * amount for rate, amount in amounts if rate]
    return round(sum(known), 6) if known and len(known) == len(amounts) else None
