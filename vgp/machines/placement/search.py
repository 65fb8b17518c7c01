"""Searches for machines that meet a need, cheapest first, and for the nearest to an impossible request.

    search(Need(accelerator=accelerator("L4"), count=4, regions=("europe-west4",), provisioning="spot", as_of=today))[0]

Placement, the proposals of findings and `vgp machines` all use this search.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import NamedTuple

from vgp.base.text.nearest import MAX_NAME, count_searches, nearest
from vgp.machines.catalog import catalog
from vgp.machines.catalog.catalog import Accelerator, Machine, accelerator_key
from vgp.machines.catalog.prices import Price
from vgp.machines.placement import provisioning
from vgp.machines.placement.combination import Combination, combinations, without_gpus
from vgp.machines.placement.machine_rules import first_error


@dataclass(frozen=True, kw_only=True)
class Need:
    """Requirements for a machine and its provisioning. None, 0 and empty values mean no requirement."""

    #: Date on which retirements are judged.
    as_of: date
    #: False: machines without GPUs.
    gpus: bool = True
    accelerator: Accelerator | None = None
    #: GPUs of one machine.
    count: int | None = None
    min_vcpu: float = 0
    min_memory_gb: float = 0
    #: GPU memory of one machine in total.
    min_gpu_memory_gb: float = 0
    #: Regions; each that has the machine gives an offer of its own.
    regions: tuple[str, ...] = ()
    #: standard, spot, flex_start or reservation; empty: standard if offered, else the machine's first one.
    provisioning: str | None = None
    #: Upper limit of the price; also excludes machines without a price.
    max_usd_per_hour: float | None = None


@dataclass(frozen=True)
class Offer:
    """A machine on offer. If the need has no region, `region` is that of the price."""

    combination: Combination
    provisioning: str
    region: str | None
    price: Price | None


def search(need: Need) -> list[Offer]:
    """Returns every offer that meets the need, cheapest first; those without a price last, smallest first."""
    offers = [_offer(combination, region, need) for combination, region in obtainable(need)]
    if need.max_usd_per_hour is not None:
        offers = [offer for offer in offers if offer.price and offer.price.usd_per_hour <= need.max_usd_per_hour]
    return sorted(offers, key=_order)


def obtainable(need: Need) -> Iterator[tuple[Combination, str | None]]:
    """Yields machines with all requirements but the price: size, retirement, provisioning, region."""
    for combination in large_enough(need):
        accelerator, offered = combination.accelerator, combination.machine.provisioning
        if accelerator and accelerator.is_retired(need.as_of) or need.provisioning not in (None, *offered):
            continue
        for region in need.regions or (None,):
            if region is None or combination.is_in(region):
                yield combination, region


def large_enough(need: Need) -> Iterator[Combination]:
    """Yields the machines with enough of the accelerator and the sizes of the need, in any region and provisioning."""
    for combination in _list_by_kind(need.gpus, need.accelerator.name if need.accelerator else None):
        fits = need.count in (None, combination.count) and combination.gpu_memory_gb >= need.min_gpu_memory_gb
        if fits and combination.vcpu >= need.min_vcpu and combination.memory_gb >= need.min_memory_gb:
            yield combination


@cache
def _list_by_kind(gpus: bool, accelerator: str | None) -> tuple[Combination, ...]:
    kind = combinations() if gpus else without_gpus()
    return tuple(row for row in kind if accelerator in (None, row.accelerator_type))


def _offer(combination: Combination, region: str | None, need: Need) -> Offer:
    provisioning = need.provisioning or combination.default_provisioning
    price = combination.price(provisioning, region)
    return Offer(combination, provisioning, region or (price.region if price else None), price)


def _order(offer: Offer) -> tuple[bool, float, int, float, int, str, str]:
    combination, price = offer.combination, offer.price
    size = combination.vcpu, combination.memory_gb, combination.count
    return (
        price is None,
        price.usd_per_hour if price else 0,
        *size,
        combination.machine_type,
        offer.region or "",
    )


@dataclass(frozen=True)
class Conditions:
    """Region and provisioning of a request; proposals must be available there."""

    regions: tuple[str, ...] = ()
    #: Strategy of the API; empty: any.
    strategy: str = ""
    #: Whether it comes from a reservation; None: unknown.
    is_reserved: bool | None = False
    serving: bool = False
    #: Machines that a plain step can get; None if it is not a plain step.
    among: frozenset[Combination] | None = None

    def allow(self, near: Combination) -> bool:
        """Whether the machine and its GPUs are offered under these conditions."""
        found = list(provisioning.strategy(near, self.strategy, self.is_reserved)) if self.strategy else []
        if near.accelerator is not None:
            for where in self.regions:
                found += provisioning.region(near.machine, near.accelerator, where, serving=self.serving)
        return first_error(found) is None and (self.among is None or near in self.among)


@count_searches
def nearest_combination(
    machine: Machine | None, accelerator: Accelerator | None, count: int, *, as_of: date, region: str | None = None,
    conditions: Conditions | None = None,
) -> Combination | None:  # fmt: skip
    """Returns the closest available combination: in the region if possible, else anywhere.

    The accelerator has the most weight, then the count. With `conditions`, only combinations that they allow.
    """
    for regions in ((region,), ()) if region else ((),):
        pool = [near for near, _ in obtainable(Need(as_of=as_of, regions=regions))]
        pool = [near for near in pool if conditions is None or conditions.allow(near)]
        living = _replace_retired(accelerator, count, as_of)
        if living is None:
            pool = [near for near in pool if near.machine == machine] or (pool if machine else [])
        if pool:
            return min(pool, key=lambda near: _measure_distance(near, machine, living, count))
    return None


def nearest_accelerator(name: str) -> str | None:
    """Returns the accelerator meant by a wrong name: by its short name first, then by spelling."""
    if len(name) > MAX_NAME:
        return None
    short, key = catalog.short_names(), accelerator_key(name)
    return short.get(key) or nearest(name, catalog.accelerators(), 0.7) or short.get(nearest(key, short, 0.5) or "")


class Elsewhere(NamedTuple):
    """A GPU that Vertex AI lacks, in words, and the nearest one on Vertex AI."""

    what: str
    near: str


def find_elsewhere(name: str) -> Elsewhere | None:
    """Returns a real GPU that Vertex AI lacks: a desktop card, or one of other clouds; None for other names."""
    key = re.sub(r"[^A-Z0-9]", "", name[:MAX_NAME].upper())
    for row in catalog.document("accelerators.json")["not_on_vertex"]:
        if re.fullmatch(row["pattern"], key):
            return Elsewhere(f"{name.strip()} is {row['what']}", row["near"])
    return None


def nearest_machine(name: str, has_gpu: bool) -> str | None:
    """Returns the machine meant by a wrong name: by series and next size, by the GPU in its name, or by spelling."""
    return _find_machine_type(name.lower().strip(), has_gpu) if len(name) <= MAX_NAME else None


@count_searches
def _find_machine_type(text: str, has_gpu: bool) -> str | None:
    choices = [machine for machine in catalog.machines().values() if machine.choices or not has_gpu]
    numbers = [int(digits) for digits in re.findall(r"\d+", text)]
    series = [machine for machine in choices if machine.series == text.rsplit("-", 1)[0]]
    if series and numbers:
        return min(series, key=lambda machine: (abs(_measure_size(machine) - numbers[-1]), _measure_size(machine))).name
    for short in re.findall(r"[a-z]+[0-9]+", text):
        gpu = catalog.short_names().get(short.upper()) or catalog.short_names().get(short.upper()[:4])
        having = [machine for machine in choices if gpu and machine.accelerator == gpu]
        if having:
            return min(having, key=lambda machine: abs(machine.gpus - numbers[-1])).name
    return nearest(text, [machine.name for machine in choices], 0.6)


def _measure_size(machine: Machine) -> int:
    return int(re.sub(r"\D", "", machine.name.rsplit("-", 1)[1]))


def _replace_retired(accelerator: Accelerator | None, count: int, as_of: date) -> Accelerator | None:
    """Returns the accelerator or, if it is retired, its first successor with this count."""
    if accelerator is None or not accelerator.is_retired(as_of):
        return accelerator
    successors = [catalog.accelerators()[name] for name in accelerator.successors]
    alive = [successor for successor in successors if not successor.is_retired(as_of)]
    offered = [row for row in alive if any(obtainable(Need(as_of=as_of, accelerator=row, count=count)))]
    return next(iter(offered or alive), None)


def _measure_distance(
    near: Combination, machine: Machine | None, accelerator: Accelerator | None, count: int
) -> tuple[float, ...]:
    # Too few GPUs are further away than too many by the same step: the job may not fit.
    return (
        near.accelerator != accelerator,
        abs(near.count - count) + (0.5 if near.count < count else 0),
        near.machine != machine,
        machine is not None and near.machine.series != machine.series,
        abs(near.vcpu - machine.vcpu) + abs(near.memory_gb - machine.memory_gb) / 8 if machine else 0,
        near.vcpu,
    )
