"""Where, or with which GPUs, a step may find capacity that its region does not have now."""

from collections.abc import Iterator
from datetime import date

from vgp.catalog import catalog
from vgp.catalog.names import Unknown
from vgp.catalog.prices import Price, price, priced_regions
from vgp.check.finding import StepRow

#: How many of a kind are proposed.
_MOST = 3


def alternatives(row: StepRow, as_of: date) -> list[str]:
    """Lines with other ways to provision, other regions for the same machine, and other GPUs in the same region.

    Cheapest first, as far as the catalog knows prices; none for a machine that it does not know.
    """
    try:
        return [line for line in (_waiting(row), _elsewhere(row), _other_gpus(row, as_of)) if line]
    except Unknown:
        return []


def _waiting(row: StepRow) -> str:
    offered = catalog.machine(row.machine_type or "").provisioning
    if row.strategy == "SPOT":
        return f'{row.machine_type} on demand: strategy = "standard".'
    # A plain step's strategy cannot be chosen; only a training job has a timeout of its own to wait in.
    if "flex_start" in offered and row.strategy == "STANDARD":
        return 'A training step can wait for capacity: strategy = "flex_start".'
    return ""


def _elsewhere(row: StepRow) -> str:
    gpu = catalog.accelerator(row.accelerator_type) if row.accelerator_type else None
    found = [
        each
        for each in priced_regions(row.machine_type or "", row.accelerator_type, row.accelerator_count, _way(row))
        if each.region != row.region and (gpu is None or gpu.pages_listing(each.region))
    ]
    listed = ", ".join(f"{each.region} ({each})" for each in found[:_MOST])
    return f"{row.machine_type} elsewhere: {listed}." if listed else ""


def _other_gpus(row: StepRow, as_of: date) -> str:
    if not row.accelerator_type or not row.region:
        return ""
    found = sorted(_large_enough(row, as_of), key=lambda each: (each[0].usd_per_hour, each[1]))
    named = [f"{count} x {gpu} on {machine} ({cost})" for cost, machine, gpu, count in _cheapest_of_each(found)]
    return f"Other GPUs in {row.region}: {', '.join(named[:_MOST])}." if named else ""


def _large_enough(row: StepRow, as_of: date) -> Iterator[tuple[Price, str, str, int]]:
    """Combinations of other GPUs in the region: as much GPU memory in all, at least half the vCPU and memory."""
    asked = catalog.machine(row.machine_type or "")
    needed = catalog.accelerator(row.accelerator_type or "").memory_gb * row.accelerator_count
    for machine, gpu, count in catalog.combinations():
        other, host = catalog.accelerator(gpu), catalog.machine(machine)
        strong = 2 * host.vcpu >= asked.vcpu and 2 * host.memory_gb >= asked.memory_gb
        usable = not other.is_retired(as_of) and other.pages_listing(row.region or "")
        if gpu != row.accelerator_type and usable and strong and other.memory_gb * count >= needed:
            cost = price(machine, gpu, count, row.region or "", _way(row))
            if cost:
                yield cost, machine, gpu, count


def _cheapest_of_each(found: list[tuple[Price, str, str, int]]) -> list[tuple[Price, str, str, int]]:
    first: dict[str, tuple[Price, str, str, int]] = {}
    for each in found:
        first.setdefault(each[2], each)
    return list(first.values())


def _way(row: StepRow) -> str:
    return "spot" if row.strategy == "SPOT" else "standard"
