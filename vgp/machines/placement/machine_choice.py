"""Which machine a request gets: the one it names, or the cheapest that meets its needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from vgp.machines.catalog import catalog
from vgp.machines.catalog.prices import Price
from vgp.machines.placement import compatibility, plain, provisioning
from vgp.machines.placement.combination import Combination
from vgp.machines.placement.machine_rules import PlacementError, Problem, first_error, refuse
from vgp.machines.placement.refusal import impossible, not_offered, too_large
from vgp.machines.placement.search import Need, search
from vgp.machines.placement.step_request import Request


@dataclass(frozen=True)
class Choice:
    """What a request gets, at what price, and why."""

    combination: Combination
    price: Price | None
    reason: str


def choose(request: Request, region: str, *, plain_step: bool, as_of: date, name: str) -> Choice:
    """The machine for a request.

    Raises:
        PlacementError: there is none; says what `name` asked for, the rule, and the nearest that works.
    """
    names = " on ".join(filter(None, (request.accelerator, request.machine)))
    refuse(_unknown(request, as_of), f"{name} asks for {names or f'{request.count} GPUs'}")
    refuse(provisioning.region_known(region), f"{name} runs in {region}")
    if request.machine:
        return _named(request, _of_names(request, request.machine), "named in the request", region, as_of, name)
    if request.accelerator or request.min_gpu_memory_gb or request.min_memory_gb or request.min_vcpu:
        return _cheapest(request, region, plain_step, as_of, name)
    why = "the default for a step without GPU"
    return _named(request, plain.default(), why, region, as_of, name)


def _unknown(request: Request, as_of: date) -> Iterator[Problem]:
    if request.accelerator and catalog.accelerator(request.accelerator) is None:
        yield compatibility.unknown_accelerator(request.accelerator, as_of)
    if request.machine and request.machine not in catalog.machines():
        yield compatibility.unknown_machine(request.machine, bool(request.accelerator))
    if request.count and not request.machine and not request.accelerator:
        yield Problem("GPU005", "accelerator", "count is given without accelerator.", "Name one: L4.")


def _of_names(request: Request, machine_type: str) -> Combination:
    """The named machine with the accelerator that is asked for, or else its own."""
    machine = catalog.machines()[machine_type]
    accelerator = catalog.accelerator(request.accelerator or machine.accelerator or "")
    return Combination(machine, accelerator, request.count or machine.gpus or (1 if accelerator else 0))


def _named(request: Request, combination: Combination, why: str, region: str, as_of: date, name: str) -> Choice:
    way, reserved = request.provisioning, bool(request.reservation)
    problems = compatibility.problems_of(combination, as_of=as_of, region=region)
    problems += provisioning.strategy(combination, request.strategy.upper(), reserved)
    if combination.accelerator:
        problems += provisioning.region(combination.machine, combination.accelerator, region)
    refuse([*problems, *_too_small(combination, request)], f"{name} asks for {combination} in {region}")
    price = combination.price(way, region)
    return Choice(combination, price, f"{combination.machine_type}: {why}{_at(price, region)}")


def _too_small(combination: Combination, request: Request) -> Iterator[Problem]:
    has, fix = f"{combination.machine_type} has", "Leave out machine to get the cheapest that fits."
    if combination.memory_gb < (request.min_memory_gb or 0):
        text = f"{has} {combination.memory_gb:g} GB, less than min_memory_gb = {request.min_memory_gb:g}."
        yield Problem("GPU001", "min_memory_gb", text, fix)
    if combination.vcpu < (request.min_vcpu or 0):
        text = f"{has} {combination.vcpu} vCPU, less than min_vcpu = {request.min_vcpu}."
        yield Problem("GPU001", "min_vcpu", text, fix)
    if combination.gpu_memory_gb < (request.min_gpu_memory_gb or 0):
        text = f"{combination} has {combination.gpu_memory_gb} GB of GPU memory"
        text = f"{text}, less than min_gpu_memory_gb = {request.min_gpu_memory_gb:g}."
        yield Problem("GPU001", "min_gpu_memory_gb", text, fix)


def _cheapest(request: Request, region: str, plain_step: bool, as_of: date, name: str) -> Choice:
    need = need_of(request, region, as_of)
    offers = [offer for offer in search(need) if not plain_step or plain.gets(offer.combination)]
    if not offers:
        problem = impossible(need) or not_offered(need) or _plain_problem(request, need, plain_step) or too_large(need)
        raise PlacementError(problem, f"{name} asks for {_words(need)} in {region}")
    combination, price = offers[0].combination, offers[0].price
    priced = sum(offer.price is not None for offer in offers)
    why = f"the cheapest of {priced} that fit" if price else f"the smallest of {len(offers)} that fit"
    why = "the only machine that fits" if len(offers) == 1 else why
    size = f"{combination.vcpu} vCPU and {combination.memory_gb:g} GB"
    what = f"{combination.count} x {combination.accelerator_type}" if combination.accelerator else size
    return Choice(combination, price, f"{combination.machine_type}: {why}, {what}{_at(price, region)}")


def need_of(request: Request, region: str, as_of: date) -> Need:
    """The request as a need. Without a count one GPU is meant, or as few as have the memory that is asked for."""
    accelerator = catalog.accelerator(request.accelerator) if request.accelerator else None
    return Need(
        as_of=as_of,
        gpus=bool(accelerator or request.min_gpu_memory_gb),
        accelerator=accelerator,
        count=request.count or (1 if accelerator and not request.min_gpu_memory_gb else None),
        min_vcpu=request.min_vcpu or 0,
        min_memory_gb=request.min_memory_gb or 0,
        min_gpu_memory_gb=request.min_gpu_memory_gb or 0,
        regions=(region,),
        provisioning=request.provisioning,
    )


def _plain_problem(request: Request, need: Need, plain_step: bool) -> Problem | None:
    if not plain_step:
        return None
    accelerator = need.accelerator.name if need.accelerator else None
    asked = request.min_vcpu, request.min_memory_gb, accelerator, need.count or 0
    problems = plain.problems(*asked, as_of=need.as_of)
    # Of our own steps nothing is asked for that may be out of reach.
    return first_error(problems) or next((each for each in problems if each.rule == "GPU014"), None)


def _words(need: Need) -> str:
    parts = [f"{need.count or 1} x {need.accelerator.name}"] if need.accelerator else []
    parts += [f"{need.min_gpu_memory_gb:g} GB of GPU memory"] if need.min_gpu_memory_gb else []
    parts += [f"{need.min_memory_gb:g} GB of memory"] if need.min_memory_gb else []
    parts += [f"{need.min_vcpu} vCPU"] if need.min_vcpu else []
    return f"{', '.join(parts)} with {need.provisioning}"


def _at(price: Price | None, region: str) -> str:
    return f" ({price} in {region})" if price else f" (no price known in {region})"
