"""The nearest request that works: what a finding proposes instead of what was asked for."""

import re
from datetime import date

from vgp.catalog import catalog
from vgp.catalog.catalog import Machine
from vgp.catalog.names import MAX_NAME
from vgp.catalog.prices import Price, price, priced_regions
from vgp.documents.budget import suggestion

Combination = tuple[str, str, int]


def describe(combination: Combination, region: str | None = None) -> str:
    """4 x NVIDIA_TESLA_T4 on n1-standard-8 (us-central1, $2.05/h on demand)."""
    name, accelerator, count = combination
    text = f"{count} x {accelerator} on {name}" if count else name
    known = [each for each in (_price(combination, region, way) for way in ("standard", "spot")) if each]
    if not known:
        return text
    words = {"standard": "on demand", "spot": "Spot"}
    offered = catalog.machine(name).provisioning
    prices = [f"{each} {words[each.provisioning]}" for each in known if each.provisioning in offered]
    return f"{text} ({', '.join([known[0].region, *prices])})"


@suggestion
def nearest(
    machine: str | None, accelerator: str | None, count: int, *, as_of: date, region: str | None = None
) -> Combination | None:
    """The living combination closest to the request; the same accelerator counts most, then the count."""
    wanted = _living(accelerator, count, as_of)
    pool = [row for row in catalog.combinations() if _usable(row, as_of, region)]
    if wanted is None and machine in catalog.machines():
        pool = [row for row in pool if row[0] == machine] or pool
    if wanted is None and (not pool or machine not in catalog.machines()):
        return None
    return min(pool, key=lambda row: _distance(row, machine, wanted, count), default=None)


def nearest_machine(name: str, has_gpu: bool) -> str | None:
    """The machine meant by a wrong name: same series and next size, or the GPU in its name, or the spelling."""
    return _meant(name.lower().strip(), has_gpu) if len(name) <= MAX_NAME else None


@suggestion
def _meant(text: str, has_gpu: bool) -> str | None:
    choices = [each for each in catalog.machines() if not has_gpu or catalog.machine(each).choices]
    numbers = [int(digits) for digits in re.findall(r"\d+", text)]
    series = [each for each in choices if each.rsplit("-", 1)[0] == text.rsplit("-", 1)[0]]
    if series and numbers:
        return min(series, key=lambda each: (abs(_size(each) - numbers[-1]), _size(each)))
    for short in re.findall(r"[a-z]+[0-9]+", text):
        gpu = catalog.short_names().get(short.upper()) or catalog.short_names().get(short.upper()[:4])
        having = [each for each in choices if gpu and catalog.machine(each).accelerator == gpu]
        if having:
            return min(having, key=lambda each: abs(catalog.machine(each).gpus - numbers[-1]))
    return catalog.closest(text, choices, cutoff=0.6)


def _size(name: str) -> int:
    return int(re.sub(r"\D", "", name.rsplit("-", 1)[1]))


def _living(accelerator: str | None, count: int, as_of: date) -> str | None:
    """The accelerator, or the first of its successors that comes in this count when it is retired."""
    row = catalog.accelerators().get(accelerator or "")
    if row is None or not row.is_retired(as_of):
        return row.name if row else None
    alive = [name for name in row.successors if not catalog.accelerator(name).is_retired(as_of)]
    offered = [name for name in alive if any(each[1:] == (name, count) for each in catalog.combinations())]
    return next(iter(offered or alive), None)


def _usable(row: Combination, as_of: date, region: str | None) -> bool:
    accelerator = catalog.accelerator(row[1])
    return not accelerator.is_retired(as_of) and (region is None or bool(accelerator.pages_listing(region)))


def _distance(row: Combination, machine: str | None, wanted: str | None, count: int) -> tuple[float, ...]:
    name, accelerator, offered = row
    candidate = catalog.machine(name)
    asked = catalog.machines().get(machine or "")
    gap = abs(offered - count)
    # Too few GPUs is further away than too many by the same step: the job may not fit.
    return (
        accelerator != wanted,
        gap + (0.5 if offered < count else 0),
        name != machine,
        asked is not None and name.rsplit("-", 1)[0] != asked.name.rsplit("-", 1)[0],
        _size_gap(candidate, asked),
        candidate.vcpu,
    )


def _size_gap(candidate: Machine, asked: Machine | None) -> float:
    if asked is None:
        return 0.0
    return abs(candidate.vcpu - asked.vcpu) + abs(candidate.memory_gb - asked.memory_gb) / 8


def _price(combination: Combination, region: str | None, provisioning: str) -> Price | None:
    name, accelerator, count = combination
    if region:
        return price(name, accelerator, count, region, provisioning)
    return price(name, accelerator, count, "us-central1", provisioning) or next(
        iter(priced_regions(name, accelerator, count, provisioning)), None
    )
