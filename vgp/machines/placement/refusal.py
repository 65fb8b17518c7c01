"""Explains why no machine meets a need, and lists alternatives that may have capacity."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import join_words
from vgp.machines.catalog import tpu_machines
from vgp.machines.placement import compatibility, provisioning
from vgp.machines.placement.combination import Combination, combinations, counts_of
from vgp.machines.placement.machine_rules import Problem, first_error
from vgp.machines.placement.provisioning import STRATEGIES
from vgp.machines.placement.search import Need, Offer, large_enough, obtainable, search

_ANY_SIZE: JsonObject = {"min_memory_gb": 0, "min_gpu_memory_gb": 0, "min_vcpu": 0}
_ANY: JsonObject = {"count": None, **_ANY_SIZE, "regions": (), "max_usd_per_hour": None, "provisioning": None}


def impossible(need: Need) -> Problem | None:
    """Returns the first rule that excludes every machine, regardless of sizes and price."""
    return first_error(_rules(need)) or not_offered(replace(need, **_ANY_SIZE))


def not_offered(need: Need) -> Problem | None:
    """Returns why none of the large enough machines is offered with the requested provisioning."""
    way, large = need.provisioning, list(large_enough(need))
    if way is None or not large or any(way in row.machine.provisioning for row in large):
        return None
    reserved = way == "reservation"
    problems = provisioning.strategy(large[0], "STANDARD" if reserved else way.upper(), reserved)
    # Machines without a page about reservations are used only if the author names them.
    return replace(problems[0], severity="") if problems else None


def too_large(need: Need) -> Problem:
    """Returns the problem of a need that is too large, with the largest machine that has its accelerator."""
    rows = [row for row, _ in obtainable(replace(need, **_ANY_SIZE))] if need.accelerator else []
    largest = max(rows, key=lambda row: row.memory_gb, default=None)
    region = need.regions[0] if need.regions else None
    hint = f"The largest with that accelerator: {largest.with_prices(region)}." if largest else ""
    return Problem("GPU001", "machine", "No machine of custom training is large enough.", hint)


def list_too_strict_parts(need: Need) -> Iterator[tuple[str, list[Offer]]]:
    """Yields each part of the need without which there are offers, with these offers."""
    for name, anything in _ANY.items():
        offers = search(replace(need, **{name: anything})) if getattr(need, name) != anything else []
        if offers:
            yield name, offers


def _rules(need: Need) -> Iterator[Problem]:
    """Yields the problems of region, accelerator and count, by compile's rules; each may make the next one
    irrelevant."""
    for region in need.regions:
        yield from provisioning.region_known(region)
    if need.accelerator is None:
        yield from _count(need)
        return
    accelerator, counts = need.accelerator, counts_of(need.accelerator.name)
    count = need.count if need.count is not None else (counts or (1,))[0]
    here = need.regions[0] if need.regions else None
    yield from compatibility.problems(None, accelerator.name, count, as_of=need.as_of, region=here)
    if not counts:
        text = f"The catalog has no machine with {accelerator.name}: {accelerator.note or 'it is no GPU'}."
        fix = (
            f"`vgp machines {tpu_machines.board_machine()}`."
            if accelerator.kind != "gpu"
            else "List its GPUs: vgp machines"
        )
        yield Problem("GPU001", "accelerator", text, fix)
    if not any(accelerator.pages_listing(region) for region in need.regions):
        for region in need.regions:
            yield from provisioning.region(None, accelerator, region)


def _count(need: Need) -> Iterator[Problem]:
    if need.count and not need.gpus:
        yield Problem("GPU005", "count", "--count needs a machine with GPUs.", "Remove --count.")
    elif need.count is not None and need.gpus:
        counts = sorted({row.count for row in combinations()})
        if need.count not in counts:
            near = min(counts, key=lambda count: (abs(count - (need.count or 0)), -count))
            text = f"No machine has {need.count} GPUs; the counts are {join_words(counts)}."
            yield Problem("GPU003", "count", text, f"Nearest that works: --count {near}.")


#: Number of proposals of each kind.
_MOST = 3


def alternatives(combination: Combination, region: str, strategy: str, as_of: date) -> list[str]:
    """Returns lines with other provisioning, other regions for this machine, and other GPUs in this region.

    Cheapest first, as far as the catalog knows prices. `strategy` is the API's.
    """
    provisioning = "spot" if STRATEGIES.get(strategy) == "spot" else "standard"
    lines = (
        _advise_waiting(combination, strategy),
        _list_other_regions(combination, region, provisioning),
        _other_gpus(combination, region, provisioning, as_of),
    )
    return [line for line in lines if line]


def _advise_waiting(combination: Combination, strategy: str) -> str:
    offered = combination.machine.provisioning
    if STRATEGIES.get(strategy) == "spot":
        return f'{combination.machine_type} on demand: strategy = "standard".' if "standard" in offered else ""
    # A plain step has no strategy; only a training job has a timeout of its own for waiting.
    if "flex_start" in offered and strategy == "STANDARD":
        return 'A training step can wait for capacity: strategy = "flex_start".'
    return ""


def _list_other_regions(combination: Combination, region: str, provisioning: str) -> str:
    prices = [price for price in combination.prices(provisioning) if price.region != region]
    offered = [price for price in prices if combination.is_in(price.region)]
    listed = ", ".join(f"{price.region} ({price})" for price in offered[:_MOST])
    return f"{combination.machine_type} elsewhere: {listed}." if listed else ""


def _other_gpus(combination: Combination, region: str, provisioning: str, as_of: date) -> str:
    """Returns other GPUs in the region: equal total GPU memory, at least half the vCPU and memory."""
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
