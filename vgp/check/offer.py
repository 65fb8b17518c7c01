"""Where the machine of a step is offered, and for how much."""

from dataclasses import replace

from vgp.base.documents.node import Node
from vgp.base.text.nearest import nearest
from vgp.check.judgement import Judgement
from vgp.check.machine_spec import MachineSpec
from vgp.machines.catalog import catalog, tpu_prices
from vgp.machines.catalog.prices import Price
from vgp.machines.placement import provisioning, tpus
from vgp.machines.placement.rules import Problem, first_error


def judge_region(
    judgement: Judgement, step: str, at: Node, spec: MachineSpec, regions: list[str], serving: bool
) -> None:
    """Region rules for every region in question; without any, the accelerator must exist somewhere."""
    for region in regions:
        problems = provisioning.region_known(region)
        if problems:
            problems = [_offering(problem, region, spec, serving) for problem in problems]
        else:
            problems = _in_region(spec, region, serving)
        judgement.report(step, at, *problems, parts={"region": at} if at.text() == region else None)


def _in_region(spec: MachineSpec, region: str, serving: bool) -> list[Problem]:
    """Whether the region has the machine's GPUs or TPUs."""
    if spec.is_tpu:
        return tpus.region(*spec.names, where=region, serving=serving)
    row = catalog.accelerators().get(spec.gpu or "")
    return provisioning.region(spec.machine, row, region, serving=serving) if row is not None else []


def _offering(problem: Problem, region: str, spec: MachineSpec, serving: bool) -> Problem:
    """The problem of a wrong region, proposing one that has the machine."""
    meant = dict(problem.nearest).get("region")
    if meant is None or first_error(_in_region(spec, str(meant), serving)) is None:
        return problem
    having = [each for each in sorted(catalog.regions()) if not first_error(_in_region(spec, each, serving))]
    near = nearest(region, having, 0.5)
    text = f"Did you mean {meant}, which has no {spec.gpu or spec.machine_type}?"
    fix = f"{text} Nearest that has it: {near}." if near else text
    return replace(problem, suggestion=fix, nearest=(("region", near),) if near else ())


def tpu_price(spec: MachineSpec, regions: list[str], way: str) -> Price | None:
    """$/hour of a TPU slice for training in the first region in question, else in the default region."""
    return tpu_prices.price(*spec.names, spec.topology, regions[0] if regions else catalog.DEFAULT_REGION, way)


def price_of(spec: MachineSpec, regions: list[str], way: str) -> tuple[float | None, str | None]:
    """$/hour of one machine in the first region in question, else in the default region or where it is lowest."""
    region = regions[0] if regions else None
    price = spec.combination.price(way, region) if spec.combination else None
    return (price.usd_per_hour, price.region) if price else (None, region)
