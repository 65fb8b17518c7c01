"""Prices from Google's Cloud Billing catalog: SKUs of parts, summed to the machines of our catalog.

The catalog API sells Compute Engine by the part (a core, a GB, a GPU, each by region and usage). Recorded shapes are
tested; against the live API it is not verified. https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vgp.catalog import catalog
from vgp.catalog.machine import Machine

COMPUTE_ENGINE = "6F81-5844-456A"

#: Family -> how the descriptions of its core, memory and GPU SKUs begin.
_PARTS = {
    "a2-highgpu": ("A2 Instance Core", "A2 Instance Ram", "Nvidia Tesla A100 GPU"),
    "a2-megagpu": ("A2 Instance Core", "A2 Instance Ram", "Nvidia Tesla A100 GPU"),
    "a2-ultragpu": ("A2 Instance Core", "A2 Instance Ram", "Nvidia Tesla A100 80GB GPU"),
    "a3-highgpu": ("A3 Instance Core", "A3 Instance Ram", "Nvidia H100 80GB GPU"),
    "a3-megagpu": ("A3Plus Instance Core", "A3Plus Instance Ram", "Nvidia H100 80GB Mega GPU"),
    "a3-ultragpu": ("A3Ultra Instance Core", "A3Ultra Instance Ram", "Nvidia H200 141GB GPU"),
    "a4-highgpu": ("A4 Instance Core", "A4 Instance Ram", "Nvidia B200"),
    "g2": ("G2 Instance Core", "G2 Instance Ram", "Nvidia L4 GPU"),
    "g4": ("G4 Instance Core", "G4 Instance Ram", "Nvidia RTX Pro 6000 96GB"),
    "n1": ("N1 Predefined Instance Core", "N1 Predefined Instance Ram", None),
    "e2": ("E2 Instance Core", "E2 Instance Ram", None),
    "n2": ("N2 Instance Core", "N2 Instance Ram", None),
    "n4": ("N4 Instance Core", "N4 Instance Ram", None),
    "c2": ("Compute optimized Core", "Compute optimized Ram", None),
}
_ATTACHED = {
    "NVIDIA_TESLA_T4": "Nvidia Tesla T4 GPU",
    "NVIDIA_TESLA_P4": "Nvidia Tesla P4 GPU",
    "NVIDIA_TESLA_P100": "Nvidia Tesla P100 GPU",
    "NVIDIA_TESLA_V100": "Nvidia Tesla V100 GPU",
}
_SPOT = re.compile(r"^Spot Preemptible ")
_NOT_PLAIN = re.compile(r"\b(Custom|Sole Tenancy|Commitment|Reserved|Calendar|DWS|Flex)\b", re.I)

Rates = dict[tuple[str, str, str], float]


@dataclass(frozen=True)
class MachinePrice:
    """Compute Engine's $/hour of a machine without local SSD; `spot` None where a part has no Spot price."""

    on_demand: float
    spot: float | None


def rates(skus: Iterable[dict[str, Any]]) -> Rates:
    """(part, region, usage) -> $/hour, for the parts of our machines; usage is OnDemand or Preemptible."""
    prices: Rates = {}
    parts = {part for row in _PARTS.values() for part in row if part} | set(_ATTACHED.values())
    for sku in skus:
        description = str(sku.get("description", ""))
        usage = str(sku.get("category", {}).get("usageType", ""))
        plain = _SPOT.sub("", description)
        if usage not in ("OnDemand", "Preemptible") or _NOT_PLAIN.search(plain):
            continue
        part = next((part for part in parts if re.match(rf"{re.escape(part)}\b", plain)), None)
        price = unit_price(sku)
        if part is None or price is None:
            continue
        for region in sku.get("serviceRegions", ()):
            prices[part, region, usage] = price
    return prices


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
    """(machine type, region) -> price, where every part of the machine is sold there."""
    regions = {region for _, region, _ in rates}
    prices = {}
    for machine in catalog.machines().values():
        for region in sorted(regions):
            on_demand = _sum(machine, region, "OnDemand", rates)
            if on_demand is not None:
                spot = _sum(machine, region, "Preemptible", rates)
                prices[machine.name, region] = MachinePrice(round(on_demand, 6), spot and round(spot, 6))
    return prices


def attached_prices(rates: Rates) -> dict[tuple[str, str], list[float | None]]:
    """(accelerator, region) -> [on demand, Spot] $/hour of one GPU that attaches to N1."""
    return {
        (name, region): [price, rates.get((part, region, "Preemptible"))]
        for name, part in _ATTACHED.items()
        for (sold, region, usage), price in sorted(rates.items())
        if sold == part and usage == "OnDemand"
    }


def _sum(machine: Machine, region: str, usage: str, rates: Rates) -> float | None:
    core, ram, gpu = _PARTS.get(machine.family, (None, None, None))
    if core is None or ram is None:
        return None
    amounts = [(core, machine.vcpu), (ram, machine.memory_gb)] + ([(gpu, machine.gpus)] if gpu else [])
    total = 0.0
    for part, quantity in amounts:
        rate = rates.get((part, region, usage))
        if rate is None:
            return None
        total += rate * quantity
    return total
