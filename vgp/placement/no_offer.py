"""Why `pipelines machines` finds nothing: what cannot be and the nearest that works, or which filter is too strict."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from vgp.catalog import catalog
from vgp.catalog.names import listed
from vgp.errors import RequestError
from vgp.placement import combination, provisioning
from vgp.placement.offers import offers
from vgp.placement.rules import Problem

Filters = Mapping[str, Any]


def explained(filters: Filters) -> str:
    """Which of the filters of `offers`, none of which is wrong by itself, leave nothing together.

    Raises:
        RequestError: no machine of custom training can be had like that, whatever the other filters are.
    """
    for problem in _impossible(filters):
        if problem.level == "error":
            raise RequestError(f"{problem.message}\n  {problem.suggestion}".rstrip())
    return "\n  ".join(["no machine meets all of that.", *_relaxed(filters)])


def _impossible(filters: Filters) -> Iterator[Problem]:
    """Kind, count, region and provisioning, judged by the rules of compile; each may make the next one pointless."""
    name, count, region = filters["accelerator"], filters["count"], filters["region"]
    if name is None or name.lower() in ("none", "cpu"):
        yield from _count(count, without_gpus=name is not None)
        return
    row, day = catalog.accelerator(name), filters["as_of"] or date.today()
    counts = catalog.counts_of(row.name)
    first = count if count is not None else (counts or (1,))[0]
    yield from combination.problems(None, row.name, first, as_of=day, region=region)
    if not counts:
        text = f"The catalog has no machine with {row.name}: {row.note or 'it is no GPU'}."
        yield Problem("GPU001", "accelerator", text, "The GPUs that it has: `pipelines machines`.")
        return
    if region:
        yield from provisioning.region(None, row, region)
    way = (filters["provisioning"] or "standard").lower().replace("-", "_")
    combinations = [each for each in catalog.combinations() if each[1] == row.name and count in (None, each[2])]
    having = [catalog.machine(host) for host, _, _ in combinations]
    if having and not any(way in machine.provisioning for machine in having):
        strategy = "STANDARD" if way == "reservation" else way.upper()
        yield from provisioning.strategy(having[0], row.name, strategy, way == "reservation")


def _count(count: int | None, *, without_gpus: bool) -> Iterator[Problem]:
    counts = sorted({gpus for _, _, gpus in catalog.combinations()})
    if count and without_gpus:
        yield Problem("GPU005", "count", "A machine without GPUs has no count of them.", "Leave --count out.")
    elif count is not None and not without_gpus and count not in counts:
        near = min(counts, key=lambda each: (abs(each - count), -each))
        text = f"No machine has {count} GPUs; the counts are {listed(counts)}."
        yield Problem("GPU003", "count", text, f"Nearest that works: --count {near}.")


def _relaxed(filters: Filters) -> Iterator[str]:
    """For each filter without which there is something: how much, and the cheapest of it."""
    nothing: dict[str, Any] = {"min_memory_gb": 0, "min_gpu_memory_gb": 0, "min_vcpu": 0}
    for name, value in filters.items():
        if value == nothing.get(name) or name in ("accelerator", "as_of"):
            continue
        rows = offers(**{**filters, name: nothing.get(name)})
        if rows:
            yield f"Without --{name.replace('_', '-')} {value} there are {len(rows)}; the first: {_words(rows[0])}."


def _words(row: dict[str, Any]) -> str:
    gpus = f"{row['accelerator_count']} x {row['accelerator_type']} on " if row["accelerator_type"] else ""
    usd = "no price" if row["usd_per_hour"] is None else f"${row['usd_per_hour']:,.2f}/h"
    place = ", ".join(part for part in (row["region"], row["provisioning"], usd) if part)
    return f"{gpus}{row['machine_type']} with {row['vcpu']} vCPU and {row['memory_gb']:g} GB ({place})"
