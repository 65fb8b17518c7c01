"""TPU machines of Vertex AI: chips, topologies and regions, for training and for serving.

    machines()["ct5lp-hightpu-4t"].vms("4x4")     # 4
    boards()["TPU_V3"].counts                     # (8, 32, 64, ... 2048)

TPU v2 and v3 are accelerators of the machine `cloud-tpu`; later generations are machine types with a topology.

A chip's SKU is the whole price of a machine: vCPU and memory have no SKUs of their own. Cloud TPU's price of a
board of 8 cores, 4.50 for v2 and 8.00 for v3 in us-central1 (https://cloud.google.com/tpu/pricing, as others quote it:
the page itself could not be opened), is with Vertex AI's fee of 15 % that of 8 of its SKUs: they are of a core. What
has no SKU in a region has no price there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from vgp.machines.catalog import skus
from vgp.machines.catalog.catalog import document
from vgp.machines.catalog.prices import Price, source

DATA = "tpus.json"
#: Names of products of Google that do not identify a TPU type.
_GENERATION = re.compile(r"((cloud[ _-]?)?tpu([ _-]?(v[4-9][a-z]*|7x))?|v[4-9][a-z]+|trillium|ironwood)", re.IGNORECASE)


@dataclass(frozen=True)
class TpuMachine:
    """A machine type with TPU chips. `vcpu` and `memory_gb` are None if no page has them."""

    name: str
    generation: str
    #: Name of its chips in the API's enum; None if the enum has none.
    accelerator: str | None
    chips: int
    vcpu: int | None
    memory_gb: float | None
    #: Topologies that training supports, the smallest first.
    topologies: tuple[str, ...]
    training_regions: frozenset[str]
    serving_regions: frozenset[str]

    def vms(self, topology: str) -> int:
        """Returns the number of these machines in a topology."""
        return chips(topology) // self.chips


@dataclass(frozen=True)
class TpuBoard:
    """TPU v2 or v3, by cores: `single` on one board, a multiple of `pod` in a Pod of at most `largest`."""

    accelerator: str
    single: int
    pod: int
    largest: int
    regions: frozenset[str]
    pod_regions: frozenset[str]

    @property
    def counts(self) -> tuple[int, ...]:
        return self.single, *range(self.pod, self.largest + 1, self.pod)


def chips(topology: str) -> int:
    """Returns the chips of a topology such as 2x4 or 2x2x1; 0 for any other text."""
    sides = topology.split("x")
    if not all(side.isdecimal() and side.isascii() and len(side) < 5 for side in sides) or len(sides) > 3:
        return 0
    return prod(map(int, sides)) if len(sides) > 1 else 0


@cache
def machines() -> Mapping[str, TpuMachine]:
    """Returns the machines with TPU chips by name."""
    return {
        name: TpuMachine(
            name, row["name"], row["accelerator"], chips_, vcpu, memory_gb, tuple(row["topologies"][name]),
            frozenset(row["training_regions"]), frozenset(row["serving_regions"]),
        )
        for row in document(DATA)["generations"]
        for name, (chips_, vcpu, memory_gb) in row["machines"].items()
    }  # fmt: skip


@cache
def boards() -> Mapping[str, TpuBoard]:
    """Returns TPU v2 and v3 by the name of the accelerator."""
    return {
        row["accelerator"]: TpuBoard(
            row["accelerator"], row["single"], row["pod"], row["largest"],
            frozenset(row["regions"]), frozenset(row["pod_regions"]),
        )
        for row in document(DATA)["boards"]
    }  # fmt: skip


def sources(machine_type: str) -> list[dict[str, str]]:
    """Returns the pages about a machine that `is_tpu`, each with its date."""
    data = document(DATA)
    rows = data["boards"] if machine_type == board_machine() else data["generations"]
    keys = [key for row in rows if machine_type in row.get("machines", (machine_type,)) for key in row["sources"]]
    return [dict(data["sources"][key]) for key in dict.fromkeys(keys)]


def board_machine() -> str:
    """Returns the machine type that takes TPU v2 and v3."""
    return str(document(DATA)["board_machine"])


def find_other_generation(name: str) -> str | None:
    """Returns the generation of a TPU machine that Compute Engine and GKE have but Vertex AI does not list."""
    generation: str | None = document(DATA)["elsewhere"].get(name)
    return generation


def names_generation(name: str) -> bool:
    """Whether the name is a TPU generation or TPUs in general, which no accelerator type is called."""
    return _GENERATION.fullmatch(name.strip()) is not None


def is_tpu(machine_type: str) -> bool:
    return machine_type == board_machine() or machine_type in machines()


#: Usages that add up to each provisioning; those that Vertex AI bills as one come first.
_USAGES = {
    "standard": ((skus.TRAINING,), (skus.ON_DEMAND, skus.FEE)),
    "spot": ((skus.SPOT, skus.FEE),),
    "reservation": ((skus.ON_DEMAND, skus.FEE),),
}

#: Assumption behind the prices of TPU v2 and v3, printed wherever they are shown.
OF_CORES = (
    "a SKU of v2 or v3 is reckoned as one core: no SKU confirms it, and Cloud TPU's price of a board, from which it "
    "follows, is on a page that could not be opened (https://cloud.google.com/tpu/pricing)"
)


def slice_price(
    machine_type: str | None, accelerator: str | None, count: int, topology: str | None, region: str, provisioning: str
) -> Price | None:
    """Returns the price of all machines of a slice; None if its size or the price of its parts is unknown."""
    part = _part(machine_type, accelerator, count, topology)
    for usages in _USAGES.get(provisioning, ()):
        prices = [skus.total([part], region, usage) for usage in usages] if part else []
        known = [each for each in prices if each]
        if known and len(known) == len(usages):
            sources = tuple(dict.fromkeys(key for each in known for key in each.sources))
            ids = tuple(sku for each in known for sku in each.ids)
            day = min(source(key)["date"] for key in sources)
            return Price(sum(each.usd for each in known), region, provisioning, day, sources=sources, skus=ids)
    return None


def _part(
    machine_type: str | None, accelerator: str | None, count: int, topology: str | None
) -> tuple[str, float] | None:
    """Returns the SKU's part, and its amount in the slice."""
    machine, board = machines().get(machine_type or ""), boards().get(accelerator or "")
    if machine is not None:
        only = machine.topologies[0] if topology == "" and len(machine.topologies) == 1 else topology
        number = chips(only or "")
        return (skus.CHIPS[machine.generation], number) if number else None
    if board is not None and machine_type == board_machine() and count in board.counts:
        single, pod = skus.CORES[board.accelerator]
        return (single if count == board.single else pod), count
    return None
