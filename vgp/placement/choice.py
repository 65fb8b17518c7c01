"""Which machine a request gets: the one it names, or the cheapest that meets its needs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from vgp.catalog import catalog
from vgp.catalog.catalog import Machine
from vgp.catalog.names import Unknown
from vgp.catalog.prices import Price, price
from vgp.errors import RequestError
from vgp.placement import combination, plain, provisioning
from vgp.placement.nearest import describe
from vgp.placement.rules import Problem

if TYPE_CHECKING:
    from vgp.placement.placement import Request


class PlacementError(RequestError):
    """No machine can be had as asked: what was asked, the rule with its id, the nearest that works."""


@dataclass(frozen=True)
class Choice:
    machine: Machine
    accelerator: str | None
    count: int
    price: Price | None
    reason: str


def choose(request: "Request", region: str, *, plain_step: bool, as_of: date, name: str) -> Choice:
    """The machine for a request; raises PlacementError."""
    try:
        accelerator = catalog.accelerator(request.accelerator).name if request.accelerator else None
        machine = catalog.machine(request.machine) if request.machine else None
    except Unknown as error:
        raise PlacementError(f"{name}: {error}  [{'GPU002' if 'accelerator' in str(error) else 'GPU001'}]") from None
    if machine is not None:
        return _named(request, machine, accelerator, region, as_of, name)
    if request.count and not accelerator:
        refuse([Problem("GPU005", "accelerator", "count is given without accelerator.", "Name one: L4.")], name)
    return _cheapest(request, accelerator, region, plain_step, as_of, name)


def refuse(problems: Iterable[Problem], asked: str) -> None:
    """Raises for the first error among the problems, in the three lines of an error of ours."""
    for each in problems:
        if each.level == "error":
            raise PlacementError(f"{asked}.  [{each.rule}]\n  {each.message}\n  {each.suggestion}".rstrip())


def problems_of(
    machine: Machine, accelerator: str | None, count: int, *, way: str, region: str | None, as_of: date
) -> list[Problem]:
    """What speaks against a machine with its GPUs, in a region or somewhere, got in one of prices.PROVISIONING."""
    problems = combination.problems(machine.name, accelerator, count, as_of=as_of, region=region)
    reserved = way == "reservation"
    problems += provisioning.strategy(machine, accelerator, "STANDARD" if reserved else way.upper(), reserved)
    if accelerator and region and not problems:
        problems += provisioning.region(machine, catalog.accelerator(accelerator), region)
    return problems


def _named(
    request: "Request", machine: Machine, accelerator: str | None, region: str, as_of: date, name: str
) -> Choice:
    built_in = machine.accelerator
    accelerator = accelerator or built_in
    count = request.count or (machine.gpus if built_in else 1 if accelerator else 0)
    asked = f"{count} x {accelerator} on {machine.name}" if accelerator else machine.name
    problems = problems_of(machine, accelerator, count, way=_way(request), region=region, as_of=as_of)
    problems += _too_small(machine, request)
    refuse(problems, f"{name} asks for {asked} in {region}")
    cost = price(machine.name, accelerator, count, region, _way(request))
    return Choice(machine, accelerator, count, cost, f"{machine.name}: named in the request{_cost(cost, region)}")


def _too_small(machine: Machine, request: "Request") -> list[Problem]:
    if machine.memory_gb < (request.min_memory_gb or 0):
        text = f"{machine.name} has {machine.memory_gb:g} GB, less than min_memory_gb = {request.min_memory_gb:g}."
        return [Problem("GPU001", "min_memory_gb", text, "Leave out machine to get the cheapest that fits.")]
    if machine.vcpu < (request.min_vcpu or 0):
        text = f"{machine.name} has {machine.vcpu} vCPU, less than min_vcpu = {request.min_vcpu}."
        return [Problem("GPU001", "min_vcpu", text, "Leave out machine to get the cheapest that fits.")]
    return []


def _cheapest(
    request: "Request", accelerator: str | None, region: str, plain_step: bool, as_of: date, name: str
) -> Choice:
    wants_gpu = bool(accelerator or request.min_gpu_memory_gb)
    pool = list(_with_gpus(request, accelerator, as_of) if wants_gpu else _without_gpus(request))
    if plain_step:
        pool = [row for row in pool if _plain_choice(row)]
    offered = [row for row in pool if not _not_offered(row, request)]
    here = [row for row in offered if row[1] is None or catalog.accelerator(row[1]).pages_listing(region)]
    if not here:
        _none_left(request, accelerator, region, pool, offered, as_of, name, plain_step)
    way = _way(request)
    priced = [(price(row[0].name, row[1], row[2], region, way), row) for row in here]
    cost, (machine, gpu, count) = min(priced, key=lambda each: _order(each[0], each[1][0]))
    what = f"{count} x {gpu}" if gpu else f"{machine.vcpu} vCPU and {machine.memory_gb:g} GB"
    if gpu is None and not (request.min_memory_gb or request.min_vcpu):
        return Choice(
            machine, gpu, count, cost, f"{machine.name}: the default for a step without GPU{_cost(cost, region)}"
        )
    known = sum(each is not None for each, _ in priced)
    why = f"the cheapest of {known} that fit" if cost else f"the smallest of {len(priced)} that fit"
    why = "the only machine that fits" if len(priced) == 1 else why
    return Choice(machine, gpu, count, cost, f"{machine.name}: {why}, {what}{_cost(cost, region)}")


def _order(cost: Price | None, machine: Machine) -> tuple[float, ...]:
    return (cost is None, cost.usd_per_hour if cost else 0, machine.vcpu, machine.memory_gb)


def _with_gpus(request: "Request", accelerator: str | None, as_of: date) -> Iterator[tuple[Machine, str | None, int]]:
    for name, gpu, count in catalog.combinations():
        row, machine = catalog.accelerator(gpu), catalog.machine(name)
        if accelerator not in (None, gpu) or row.is_retired(as_of) or not _large_enough(machine, request):
            continue
        # Without a count one GPU is meant, or as few as have the memory that is asked for.
        total = count * row.memory_gb >= (request.min_gpu_memory_gb or 0)
        if total and (request.count == count or (request.count is None and (count == 1 or request.min_gpu_memory_gb))):
            yield machine, gpu, count


def _without_gpus(request: "Request") -> Iterator[tuple[Machine, str | None, int]]:
    if not (request.min_memory_gb or request.min_vcpu):
        yield catalog.machine(plain.DEFAULT_MACHINE), None, 0
        return
    for machine in catalog.machines().values():
        if machine.accelerator is None and _large_enough(machine, request):
            yield machine, None, 0


def _large_enough(machine: Machine, request: "Request") -> bool:
    return machine.memory_gb >= (request.min_memory_gb or 0) and machine.vcpu >= (request.min_vcpu or 0)


def _plain_choice(row: tuple[Machine, str | None, int]) -> bool:
    machine, gpu, count = row
    memory_gb = min(machine.memory_gb, plain.MAX_MEMORY_GB)
    chosen = plain.machine_for(machine.vcpu, memory_gb, gpu, count) if machine.vcpu <= plain.MAX_VCPU else None
    return chosen == machine


def _not_offered(row: tuple[Machine, str | None, int], request: "Request") -> list[Problem]:
    return provisioning.strategy(row[0], row[1], request.strategy.upper(), bool(request.reservation))


def _none_left(
    request: "Request", accelerator: str | None, region: str, pool: list[tuple[Machine, str | None, int]],
    offered: list[tuple[Machine, str | None, int]], as_of: date, name: str, plain_step: bool,
) -> None:  # fmt: skip
    """Raises with the first reason for which no machine is left."""
    refuse(provisioning.region_known(region), f"{name} runs in {region}")
    asked = f"{name} asks for {_needs(request, accelerator)} in {region}"
    count = request.count or 1
    if offered and accelerator:
        refuse(provisioning.region(None, catalog.accelerator(accelerator), region), asked)
    if pool:
        refuse(_not_offered(pool[0], request), asked)
    if accelerator:
        refuse(combination.problems(None, accelerator, count, as_of=as_of, region=region), asked)
        if plain_step:
            refuse(plain.problems(request.min_vcpu, request.min_memory_gb, accelerator, count, as_of=as_of), asked)
    having = [row for row in catalog.combinations() if row[1:] == (accelerator, count)]
    largest = max(having, key=lambda row: catalog.machine(row[0]).memory_gb, default=None)
    hint = f"\n  The largest with that accelerator: {describe(largest, region)}." if largest else ""
    raise PlacementError(f"{asked}.  [GPU001]\n  No machine of custom training has that.{hint}")


def _needs(request: "Request", accelerator: str | None) -> str:
    parts = [f"{request.count or 1} x {accelerator}"] if accelerator else []
    parts += [f"{request.min_gpu_memory_gb:g} GB of GPU memory"] if request.min_gpu_memory_gb else []
    parts += [f"{request.min_memory_gb:g} GB of memory"] if request.min_memory_gb else []
    parts += [f"{request.min_vcpu} vCPU"] if request.min_vcpu else []
    return " with ".join([", ".join(parts) or "a machine", request.strategy])


def _way(request: "Request") -> str:
    return "reservation" if request.reservation else request.strategy


def _cost(cost: Price | None, region: str) -> str:
    return f" ({cost} in {region})" if cost else f" (no price known in {region})"
