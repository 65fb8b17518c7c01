"""Details of one TPU machine and its prices by slice and region, as tables and as JSON."""

from collections.abc import Iterable, Iterator
from datetime import date

from rich.console import Group, RenderableType

from vgp.base.documents.json_text import JsonObject
from vgp.base.text import times
from vgp.base.text.figures import facts_table
from vgp.cli.machine_card import PROVISIONING_NAMES, list_price_sources, render_prices
from vgp.machines.catalog import tpu_machines
from vgp.machines.catalog.prices import Price
from vgp.machines.catalog.tpu_machines import TpuBoard, TpuMachine
from vgp.machines.placement import tpu_rules

#: A slice, such as 2x4 or TPU_V3 x 8, and its price.
Priced = tuple[str, Price]


def render_card(name: str, as_of: date) -> RenderableType:
    """Returns the facts and known prices of the TPU machine `name` as tables."""
    prices, machine = list(_list_prices(name)), tpu_machines.machines().get(name)
    facts = _list_machine_facts(machine) if machine else _list_board_facts()
    parts: list[RenderableType] = [f"[bold]{name}[/]", facts_table(facts)]
    if prices:
        parts += ["", "[bold]$/hour of all machines of a slice, training on Vertex AI[/]"]
        parts.append(render_prices(("slice", "region"), (((size, price.region), price) for size, price in prices)))
        old = times.price_age_warning((price.date for _, price in prices), as_of)
        parts += [f"prices{old.removeprefix(',')}"] if old else []
        parts += [] if machine else [f"not certain: {tpu_machines.OF_CORES}"]
    sources = [f"{row['what']}: {row['page']} ({row['date']})" for row in tpu_machines.sources(name)]
    sources += [
        f"prices of {row['date']}: {row['page']}" for row in list_price_sources(price for _, price in prices).values()
    ]
    return Group(*parts, "", "[bold]sources[/]", *sources)


def as_json(name: str) -> JsonObject:
    """Returns everything in the catalog about the TPU machine; null: not documented."""
    machine, prices = tpu_machines.machines().get(name), list(_list_prices(name))
    return {
        "machine_type": name,
        **(_machine_json(machine) if machine else _boards_json()),
        "prices": [
            {
                "slice": size, "region": price.region, "provisioning": price.provisioning,
                "usd_per_hour": round(price.usd_per_hour, 4), "date": price.date, "sources": list(price.sources),
                "skus": list(price.skus) or None,
            }
            for size, price in prices
        ],
        "price_note": None if machine else tpu_machines.OF_CORES,
        "price_sources": list_price_sources(price for _, price in prices),
        "sources": tpu_machines.sources(name),
    }  # fmt: skip


def _list_machine_facts(machine: TpuMachine) -> Iterator[tuple[str, str]]:
    yield "chips", f"{machine.chips} x TPU {machine.generation.removeprefix('TPU')}"
    yield "vCPU", str(machine.vcpu or "not documented")
    yield "memory", f"{machine.memory_gb:g} GB" if machine.memory_gb else "not documented"
    sizes = (f"{size} ({machine.vms(size)})" for size in machine.topologies)
    yield "topologies", f"{', '.join(sizes)} (machines of each)"
    yield "training", ", ".join(sorted(machine.training_regions)) or "no region"
    yield "serving", ", ".join(sorted(machine.serving_regions)) or "no region"


def _list_board_facts() -> Iterator[tuple[str, str]]:
    for board in tpu_machines.boards().values():
        yield board.accelerator, f"accelerator_count {board.single}: one board, {board.single} cores"
        yield "regions", ", ".join(sorted(board.regions))
        yield "Pods", f"{board.pod} to {board.largest} cores, in steps of {board.pod}"
        yield "regions", ", ".join(sorted(board.pod_regions))


def _list_prices(name: str) -> Iterator[Priced]:
    """Yields the prices of each topology, or of a board and the smallest Pod, as `vgp compile` computes them."""
    for size, accelerator, count, topology, regions in _list_slices(name):
        for region in regions:
            parts = name, accelerator, count, topology
            ways = (way for way in PROVISIONING_NAMES if way != "spot" or not tpu_rules.spot(*parts))
            prices = (tpu_machines.slice_price(*parts, region, way) for way in ways)
            yield from ((size, price) for price in prices if price)


def _list_slices(name: str) -> Iterator[tuple[str, str | None, int, str | None, Iterable[str]]]:
    """Yields each slice's name, the accelerator, count and topology that request it, and its regions."""
    if machine := tpu_machines.machines().get(name):
        yield from ((size, None, 1, size, sorted(machine.training_regions)) for size in machine.topologies)
        return
    for kind, board in tpu_machines.boards().items():
        yield f"{kind} x {board.single}", kind, board.single, None, sorted(board.regions)
        yield f"{kind} x {board.pod}", kind, board.pod, None, sorted(board.pod_regions)


def _machine_json(machine: TpuMachine) -> JsonObject:
    return {
        "generation": machine.generation,
        "accelerator": machine.accelerator,
        "chips": machine.chips,
        "vcpu": machine.vcpu,
        "memory_gb": machine.memory_gb,
        "topologies": {size: machine.vms(size) for size in machine.topologies},
        "training_regions": sorted(machine.training_regions),
        "serving_regions": sorted(machine.serving_regions),
    }


def _boards_json() -> JsonObject:
    return {"accelerators": list(map(_board_json, tpu_machines.boards().values()))}


def _board_json(board: TpuBoard) -> JsonObject:
    return {
        "name": board.accelerator,
        "counts": list(board.counts),
        "regions": sorted(board.regions),
        "pod_regions": sorted(board.pod_regions),
    }
