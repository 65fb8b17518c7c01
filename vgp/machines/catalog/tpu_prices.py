"""What TPUs cost per hour of training on Vertex AI, by Google's own SKUs: chips of v5e and later, cores of v2 and v3.

A chip's SKU is all there is of such a machine: nothing is sold beside it for vCPU and memory. Cloud TPU's price of a
board of 8 cores, 4.50 for v2 and 8.00 for v3 in us-central1 (https://cloud.google.com/tpu/pricing, as others quote it:
the page itself could not be opened), is with Vertex AI's fee of 15 % that of 8 of its SKUs: they are of a core. What
has no SKU in a region has no price there.
"""

from vgp.machines.catalog import skus, tpus
from vgp.machines.catalog.prices import Price, source

#: Each: the usages whose sum it is, those that Vertex AI bills as one first.
_WAYS = {
    "standard": ((skus.TRAINING,), (skus.ON_DEMAND, skus.FEE)),
    "spot": ((skus.SPOT, skus.FEE),),
    "reservation": ((skus.ON_DEMAND, skus.FEE),),
}

#: What the prices of TPU v2 and v3 rest on, wherever they are shown.
OF_CORES = (
    "a SKU of v2 or v3 is reckoned as one core: no SKU says so, and Cloud TPU's price of a board, from which it "
    "follows, is on a page that could not be opened (https://cloud.google.com/tpu/pricing)"
)


def price(
    machine_type: str | None, accelerator: str | None, count: int, topology: str | None, region: str, provisioning: str
) -> Price | None:
    """Price of all machines of a slice together; None where its size, or the price of its parts, is not known."""
    part = _part(machine_type, accelerator, count, topology)
    for usages in _WAYS.get(provisioning, ()):
        found = [skus.total([part], region, usage) for usage in usages] if part else []
        known = [each for each in found if each]
        if known and len(known) == len(usages):
            sources = tuple(dict.fromkeys(key for each in known for key in each.sources))
            ids = tuple(sku for each in known for sku in each.ids)
            day = min(source(key)["date"] for key in sources)
            return Price(sum(each.usd for each in known), region, provisioning, day, sources=sources, skus=ids)
    return None


def _part(
    machine_type: str | None, accelerator: str | None, count: int, topology: str | None
) -> tuple[str, float] | None:
    """What is sold, and how many of it the slice has."""
    machine, board = tpus.machines().get(machine_type or ""), tpus.boards().get(accelerator or "")
    if machine is not None:
        only = machine.topologies[0] if topology == "" and len(machine.topologies) == 1 else topology
        chips = tpus.chips(only or "")
        return (skus.CHIPS[machine.generation], chips) if chips else None
    if board is not None and machine_type == tpus.board_machine() and count in board.counts:
        single, pod = skus.CORES[board.accelerator]
        return (single if count == board.single else pod), count
    return None
