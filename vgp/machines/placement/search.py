"""The one search for machines: what meets a need, cheapest first.

    search(Need(accelerator=accelerator("L4"), count=4, regions=("europe-west4",), provisioning="spot", as_of=today))[0]

Placement by need, the proposals of findings and `vgp machines` all ask it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache

from vgp.machines.catalog.hardware import Accelerator
from vgp.machines.catalog.prices import Price
from vgp.machines.placement.combination import Combination, combinations, without_gpus


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a machine must have and how it is got. What is None, 0 or empty does not matter."""

    #: Day on which retirements are judged.
    as_of: date
    #: False: machines that have no GPU.
    gpus: bool = True
    accelerator: Accelerator | None = None
    #: GPUs of one machine.
    count: int | None = None
    min_vcpu: float = 0
    min_memory_gb: float = 0
    #: All GPUs of one machine together.
    min_gpu_memory_gb: float = 0
    #: Each of them that has the machine is an offer of its own.
    regions: tuple[str, ...] = ()
    #: standard, spot, flex_start or reservation; else standard where it is offered, and what there is for the others.
    provisioning: str | None = None
    #: Leaves out what costs more, and what has no price.
    max_usd_per_hour: float | None = None


@dataclass(frozen=True)
class Offer:
    """A machine as it can be had. Without a region in the need, `region` is that of the price."""

    combination: Combination
    provisioning: str
    region: str | None
    price: Price | None


def search(need: Need) -> list[Offer]:
    """Every offer that meets the need, cheapest first; those without a price last, smallest first."""
    offers = [_offer(combination, region, need) for combination, region in obtainable(need)]
    if need.max_usd_per_hour is not None:
        offers = [offer for offer in offers if offer.price and offer.price.usd_per_hour <= need.max_usd_per_hour]
    return sorted(offers, key=_order)


def obtainable(need: Need) -> Iterator[tuple[Combination, str | None]]:
    """What is large enough, alive, offered as asked and in a region of the need; before any price is looked up."""
    for combination in large_enough(need):
        accelerator, offered = combination.accelerator, combination.machine.provisioning
        if accelerator and accelerator.is_retired(need.as_of) or need.provisioning not in (None, *offered):
            continue
        for region in need.regions or (None,):
            if region is None or combination.is_in(region):
                yield combination, region


def large_enough(need: Need) -> Iterator[Combination]:
    """The machines with that many of that accelerator and the sizes of the need, wherever and however they are had."""
    for combination in _of_kind(need.gpus, need.accelerator.name if need.accelerator else None):
        fits = need.count in (None, combination.count) and combination.gpu_memory_gb >= need.min_gpu_memory_gb
        if fits and combination.vcpu >= need.min_vcpu and combination.memory_gb >= need.min_memory_gb:
            yield combination


@cache
def _of_kind(gpus: bool, accelerator: str | None) -> tuple[Combination, ...]:
    kind = combinations() if gpus else without_gpus()
    return tuple(row for row in kind if accelerator in (None, row.accelerator_type))


def _offer(combination: Combination, region: str | None, need: Need) -> Offer:
    provisioning = need.provisioning or combination.default_provisioning
    price = combination.price(provisioning, region)
    return Offer(combination, provisioning, region or (price.region if price else None), price)


def _order(offer: Offer) -> tuple[bool, float, int, float, int, str, str]:
    combination, price = offer.combination, offer.price
    size = combination.vcpu, combination.memory_gb, combination.count
    return price is None, price.usd_per_hour if price else 0, *size, combination.machine_type, offer.region or ""
