"""Proposes a ladder for a need: Spot, Spot in other regions, Flex-start, on demand; with cost and reason of each rung.

proposed(need, gpus=8, region="us-central1", deadline_s=43200, max_usd=None).rungs
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.figures import format_dollars, format_duration, format_usd
from vgp.machines.catalog import catalog
from vgp.machines.catalog.prices import boot_disk
from vgp.machines.placement import job_fields, plain, provisioning
from vgp.machines.placement.combination import Combination
from vgp.machines.placement.dearest import Terms, find_dearest_course
from vgp.machines.placement.machine_rules import first_error
from vgp.machines.placement.placed_ladder import MAX_DEADLINE_S, START_S, climber_s
from vgp.machines.placement.search import Need, search
from vgp.machines.placement.spot_advice import SpotAdvice, rank_of

#: Maximum number of other regions for one kind of rung.
_MOST_REGIONS = 2
#: Number of other regions that advice is asked for.
_CANDIDATES = 6
#: Maximum share of the deadline that Flex-start waits, because the next rungs need time too.
_WAIT_SHARE = 6
_DEFAULT_WAIT_S = 2 * 3600


@dataclass(frozen=True)
class ProposedRung:
    """A rung in the form of pipelines.toml, and the reason for it."""

    keys: JsonObject
    #: $/hour of all nodes, in the most expensive of its regions; None if unknown.
    usd_per_hour: float | None
    reason: str
    #: $/hour of the boot disks of all nodes, in the most expensive of its regions.
    disks_usd_per_hour: float = 0.0

    def as_json(self) -> JsonObject:
        hourly = None if self.usd_per_hour is None else round(self.usd_per_hour, 4)
        return {**self.keys, "usd_per_hour": hourly, "reason": self.reason}


@dataclass(frozen=True)
class Proposal:
    """A ladder, best rung first; `notes` name the rungs left out, with reasons."""

    rungs: tuple[ProposedRung, ...]
    deadline_s: int
    #: Maximum cost of the ladder and its launcher; None if a price is unknown.
    max_usd: float | None
    notes: tuple[str, ...] = ()


def propose_ladder(
    need: Need,
    *,
    region: str,
    gpus: int | None = None,
    deadline_s: int | None = None,
    max_usd: float | None = None,
    advice: Mapping[str, SpotAdvice] | None = None,
) -> Proposal:
    """Returns a ladder for a need.
    Args:
        need: Need of one machine; its regions and provisioning are ignored.
        region: Region of the run.
        gpus: Number of GPUs of all machines together; None: those of one machine.
        deadline_s: Time limit of the work; None: what the budget allows, else 24 hours.
        max_usd: Maximum cost.
        advice: Region -> Compute Engine's advice on Spot; None: regions are ordered by distance and price.

    Raises:
        RequestError: no offered machine meets the need, or the budget is below the cost of the cheapest rung.
    """
    machine, nodes = choose_machine(need, region, gpus)
    rungs_of_need = list(_propose_rungs(machine, nodes, region, deadline_s, advice or {}))
    every = [rung for rung in rungs_of_need if rung.usd_per_hour is not None]
    unpriced = [rung for rung in rungs_of_need if rung.usd_per_hour is None]
    if not every and (max_usd is not None or not unpriced):
        raise RequestError(f"no price of {machine} is known for {region} or elsewhere: no budget can be guaranteed.")
    climber = plain.default().price("standard", region)
    if max_usd is not None and climber is None:
        raise RequestError(
            f"no price of {plain.DEFAULT_MACHINE}, the ladder's launcher, is known for {region}: "
            "no budget can be guaranteed."
        )
    climber_usd = climber.usd_per_hour + _disk_usd(plain.default(), (region,)) if climber else 0.0
    kept, deadline_s, notes = _fit_budget(every, deadline_s, max_usd, climber_usd)
    rungs = kept if max_usd is not None else [*kept, *unpriced]
    if any("regions" in rung.keys for rung in rungs):
        notes = [*notes, "reading the bucket from another region is billed by the GB: vgp preflight"]
    priced = climber and all(rung.usd_per_hour is not None for rung in rungs)
    most_usd = _most_usd(rungs, deadline_s, climber_usd) if priced else None
    return Proposal(tuple(rungs), deadline_s, most_usd, tuple(notes))


def choose_machine(need: Need, region: str, gpus: int | None) -> tuple[Combination, int]:
    """Returns the machine and its number: the fewest machines, then the cheapest in the region, else anywhere."""
    anyhow = replace(need, provisioning=None, regions=())
    for where in ((region,), ()):
        offers = [offer for offer in search(replace(anyhow, regions=where)) if _nodes(offer.combination, gpus)]
        if offers:
            best = min(
                offers,
                key=lambda offer: (
                    _nodes(offer.combination, gpus),  # what stays within a machine needs no network between GPUs
                    offer.price is None,
                    offer.price.usd_per_hour if offer.price else 0.0,
                ),
            )
            return best.combination, _nodes(best.combination, gpus)
    if gpus:
        raise RequestError(f"no machine type with the other options adds up to --gpus {gpus}.")
    raise RequestError("no machine meets all options. Run the command without --ladder to see which one is too strict.")


def _nodes(combination: Combination, gpus: int | None) -> int:
    """Returns the number of machines with that many GPUs in total; 0 if none fits."""
    if gpus is None:
        return 1
    return gpus // combination.count if combination.count and gpus % combination.count == 0 else 0


def _propose_rungs(
    machine: Combination, nodes: int, region: str, deadline_s: int | None, advice: Mapping[str, SpotAdvice]
) -> Iterator[ProposedRung]:
    offered, is_here = machine.machine.provisioning, _is_accepted(machine, region)
    if "spot" in offered:
        yield from _spot_rungs(machine, nodes, region, advice)
    if "flex_start" in offered and machine.machine.accelerator:
        wait_s = min(_DEFAULT_WAIT_S, max(START_S, (deadline_s or 86_400) // _WAIT_SHARE))
        where = () if is_here else _list_other_regions(machine, region, "flex_start")[:1]
        if is_here or where:
            why = "Flex-start: waits in a queue, then runs without preemption"
            rung = _propose_rung(machine, nodes, "flex_start", where, region, why)
            yield replace(
                rung, keys={**rung.keys, "max_wait": f"{wait_s // 3600}h" if wait_s % 3600 == 0 else f"{wait_s // 60}m"}
            )
    if "standard" in offered:
        where = () if is_here else _list_other_regions(machine, region, "standard")
        if is_here or where:
            yield _propose_rung(
                machine, nodes, "standard", where, region, "on demand: meets the deadline, if there is capacity"
            )


def _spot_rungs(
    machine: Combination, nodes: int, region: str, advice: Mapping[str, SpotAdvice]
) -> Iterator[ProposedRung]:
    """Yields the rung in the region of the run, and the one in other regions; the first of them if Google expects to
    have machines only there."""
    others = _list_other_regions(machine, region, "spot", _CANDIDATES if advice else _MOST_REGIONS)
    others = tuple(sorted(others, key=lambda where: rank_of(advice.get(where)))[:_MOST_REGIONS])
    places: list[tuple[tuple[str, ...], str]] = []
    if _is_accepted(machine, region):
        places.append(((), "Spot in the region of the run: may be preempted at any moment"))
    if others:
        places.append((others, "Spot in other regions: preempted at other times"))
    for where, reason in sorted(places, key=lambda place: _is_unlikely(place[0] or (region,), advice)):
        known = "; ".join(f"{one}: {advice[one]}" for one in where or (region,) if one in advice)
        yield _propose_rung(machine, nodes, "spot", where, region, f"{reason} ({known})" if known else reason)


def _is_unlikely(regions: Sequence[str], advice: Mapping[str, SpotAdvice]) -> bool:
    return all(rank_of(advice.get(region)) == 2 for region in regions)


def list_spot_regions(machine: Combination, region: str) -> tuple[str, ...]:
    """Returns the regions that a ladder may choose for Spot: that of the run and the nearest others."""
    return (region, *_list_other_regions(machine, region, "spot", _CANDIDATES))


def _propose_rung(
    machine: Combination, nodes: int, provisioning: str, regions: tuple[str, ...], region: str, reason: str
) -> ProposedRung:
    prices = [machine.price(provisioning, where) for where in regions or (region,)]
    known = [price.usd_per_hour for price in prices if price]
    keys: JsonObject = {"machine": machine.machine_type}
    if machine.accelerator and not machine.machine.accelerator:
        keys |= {"accelerator": machine.accelerator.name, "count": machine.count}
    keys |= {"nodes": nodes} if nodes > 1 else {}
    keys |= {"strategy": provisioning} if provisioning != "standard" else {}
    keys |= {"regions": list(regions)} if regions else {}
    hourly = max(known) * nodes if len(known) == len(prices) else None
    return ProposedRung(keys, hourly, reason, _disk_usd(machine, regions or (region,)) * nodes)


def _disk_usd(machine: Combination, regions: tuple[str, ...]) -> float:
    """Returns $/hour of the machine's default boot disk, in the most expensive of the regions."""
    disk = job_fields.default_disk(machine.machine)
    priced = [price.usd_per_hour for where in regions if (price := boot_disk(*disk, where))]
    return max(priced, default=0.0)


def _list_other_regions(
    machine: Combination, region: str, provisioning: str, most: int = _MOST_REGIONS
) -> tuple[str, ...]:
    """Returns other regions with the machine, the same continent first, then by price."""
    continent = region.split("-")[0]

    def order(where: str) -> tuple[bool, bool, float, str]:
        price = machine.price(provisioning, where)
        return where.split("-")[0] != continent, price is None, price.usd_per_hour if price else 0.0, where

    others = (where for where in catalog.regions() if where != region and _is_accepted(machine, where))
    return tuple(sorted(others, key=order)[:most])


def _is_accepted(machine: Combination, region: str) -> bool:
    """Whether compile accepts the machine in the region."""
    gpu = machine.accelerator
    return machine.is_in(region) and not (gpu and first_error(provisioning.region(machine.machine, gpu, region)))


def _fit_budget(
    rungs: list[ProposedRung], deadline_s: int | None, max_usd: float | None, climber_usd: float
) -> tuple[list[ProposedRung], int, list[str]]:
    """Returns the rungs that the budget allows until the deadline; without a deadline, the one that it allows."""
    if max_usd is None:
        return rungs, deadline_s or 86_400, []
    if deadline_s is None:
        deadline_s = _affordable_s(rungs, max_usd, climber_usd)
        return rungs, deadline_s, [f"the deadline follows from --max-usd {max_usd:g}"]
    selected, left = rungs, list[str]()
    while selected and (most_usd := _most_usd(selected, deadline_s, climber_usd)) > max_usd:
        dearest = max(selected, key=lambda rung: rung.usd_per_hour or 0.0)
        selected = [rung for rung in selected if rung is not dearest]
        left.append(
            f"left out, as a ladder of {format_duration(deadline_s)} with it can cost {format_usd(most_usd)}: "
            f"{dearest.reason}"
        )
    if not selected:
        least = min(_most_usd([rung], deadline_s, climber_usd) for rung in rungs)
        raise RequestError(
            f"--max-usd {max_usd:g} is less than the maximum cost of {format_duration(deadline_s)} on the "
            "cheapest rung, "
            f"{format_usd(least)}. Raise it, use fewer or smaller GPUs, or set an earlier deadline."
        )
    return selected, deadline_s, left


def _affordable_s(rungs: list[ProposedRung], max_usd: float, climber_usd: float) -> int:
    """Returns the latest deadline whose most expensive course the budget covers, in whole minutes."""
    minutes = range(MAX_DEADLINE_S // 60 + 1)
    beyond = bisect_right(minutes, max_usd, key=lambda minute: _most_usd(rungs, 60 * minute, climber_usd))
    affords_s = 60 * max(0, beyond - 1)
    if affords_s <= START_S:
        pays = (
            f"pays for {format_duration(affords_s)} at "
            f"${format_dollars(max(rung.usd_per_hour or 0.0 for rung in rungs))}/h"
        )
        raise RequestError(f"--max-usd {max_usd:g} {pays}, which is less than a start takes.")
    return affords_s


def _most_usd(rungs: list[ProposedRung], deadline_s: int, climber_usd: float) -> float:
    """Returns the maximum cost as compile computes it; `climber_usd` is $/hour of the launcher with its disk."""
    terms = [
        Terms((each.usd_per_hour or 0.0) + each.disks_usd_per_hour, deadline_s, each.keys.get("strategy", "standard"))
        for each in rungs
    ]
    course = find_dearest_course(terms, deadline_s)
    jobs = sum(rung.usd_per_hour * held.total_s for rung, held in zip(terms, course, strict=True))
    return (jobs + climber_usd * climber_s(deadline_s)) / 3600
