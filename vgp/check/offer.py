"""Where the machine of a step is offered, and for how much."""

from vgp.catalog import catalog, tpu_prices
from vgp.catalog.prices import Price
from vgp.check.judgement import Judgement
from vgp.check.machine_spec import MachineSpec
from vgp.documents.node import Node
from vgp.placement import provisioning, tpus


def judge_region(
    judgement: Judgement, step: str, at: Node, spec: MachineSpec, regions: list[str], serving: bool
) -> None:
    """Region rules for every region in question; without any, the accelerator must exist somewhere."""
    row = catalog.accelerators().get(spec.gpu or "")
    for region in regions:
        problems = provisioning.region_known(region)
        if spec.is_tpu and not problems:
            problems = tpus.region(*spec.names, where=region, serving=serving)
        elif row is not None and not problems:
            problems = provisioning.region(spec.machine, row, region, serving=serving)
        judgement.report(step, at, *problems, parts={"region": at} if at.text() == region else None)


def tpu_price(spec: MachineSpec, regions: list[str], way: str) -> Price | None:
    """$/hour of a TPU slice for training in the first region in question, else in the default region."""
    return tpu_prices.price(*spec.names, spec.topology, regions[0] if regions else catalog.DEFAULT_REGION, way)


def price_of(spec: MachineSpec, regions: list[str], way: str) -> tuple[float | None, str | None]:
    """$/hour of one machine in the first region in question, else in the default region or where it is lowest."""
    region = regions[0] if regions else None
    price = spec.combination.price(way, region) if spec.combination else None
    return (price.usd_per_hour, price.region) if price else (None, region)
