"""Where, or with which GPUs, a step may find capacity that its region does not have now."""

from datetime import date

from vgp.machines.placement.combination import Combination
from vgp.machines.placement.provisioning import STRATEGIES
from vgp.machines.placement.search import Need, Offer, search

#: How many of a kind are proposed.
_MOST = 3


def alternatives(combination: Combination, region: str, strategy: str, as_of: date) -> list[str]:
    """Lines with other ways to provision, other regions for the same machine, and other GPUs in the same region.

    Cheapest first, as far as the catalog knows prices. `strategy` is the API's.
    """
    provisioning = "spot" if STRATEGIES.get(strategy) == "spot" else "standard"
    lines = (
        _waiting(combination, strategy),
        _elsewhere(combination, region, provisioning),
        _other_gpus(combination, region, provisioning, as_of),
    )
    return [line for line in lines if line]


def _waiting(combination: Combination, strategy: str) -> str:
    offered = combination.machine.provisioning
    if STRATEGIES.get(strategy) == "spot":
        return f'{combination.machine_type} on demand: strategy = "standard".' if "standard" in offered else ""
    # A plain step's strategy cannot be chosen; only a training job has a timeout of its own to wait in.
    if "flex_start" in offered and strategy == "STANDARD":
        return 'A training step can wait for capacity: strategy = "flex_start".'
    return ""


def _elsewhere(combination: Combination, region: str, provisioning: str) -> str:
    prices = [price for price in combination.prices(provisioning) if price.region != region]
    offered = [price for price in prices if combination.is_in(price.region)]
    listed = ", ".join(f"{price.region} ({price})" for price in offered[:_MOST])
    return f"{combination.machine_type} elsewhere: {listed}." if listed else ""


def _other_gpus(combination: Combination, region: str, provisioning: str, as_of: date) -> str:
    """Other GPUs in the region: as much GPU memory in all, at least half the vCPU and memory."""
    if combination.accelerator is None:
        return ""
    need = Need(
        as_of=as_of, min_vcpu=combination.vcpu / 2, min_memory_gb=combination.memory_gb / 2,
        min_gpu_memory_gb=combination.gpu_memory_gb, regions=(region,), provisioning=provisioning,
    )  # fmt: skip
    cheapest: dict[str | None, Offer] = {}
    for offer in search(need):
        if offer.price and offer.combination.accelerator != combination.accelerator:
            cheapest.setdefault(offer.combination.accelerator_type, offer)
    listed = ", ".join(f"{offer.combination} ({offer.price})" for offer in list(cheapest.values())[:_MOST])
    return f"Other GPUs in {region}: {listed}." if listed else ""
