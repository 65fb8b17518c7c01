"""The verb `machines`: lists the machines of the catalog and proposes capacity ladders."""

import json
from datetime import date
from typing import Annotated

import typer

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.figures import format_dollars, format_usd
from vgp.base.text.times import parse_as_of
from vgp.cli import machine_card, machine_list, tpu_card
from vgp.cli.options import Json, console, import_lazily, load_settings, print_json, print_lines, show
from vgp.machines.catalog import tpu_machines
from vgp.machines.catalog.catalog import DEFAULT_REGION
from vgp.machines.placement import ladder_proposal, placed_ladder
from vgp.machines.placement.ladder_proposal import Proposal, ProposedRung
from vgp.machines.placement.search import Need, search

with import_lazily():
    from vgp.check import checker
    from vgp.vertex import catalog_refresh as refreshing


def format_ladder(proposal: Proposal) -> str:
    """Returns the lines of [steps.train], with the price and reason of each rung in a comment above it."""
    ceiling = f"at most {format_usd(proposal.max_usd)} until the deadline, including the launcher's machine"
    cost = "no maximum cost, because the price of a rung is unknown" if proposal.max_usd is None else ceiling
    lines = [
        f"# {cost}. docs/how-to/spot-with-a-fallback.md",
        "[steps.train]",
        f'deadline = "{_format_duration(proposal.deadline_s)}"',
        "capacity = [",
        *(line for rung in proposal.rungs for line in _format_rung(rung)),
        "]",
        *(f"# {note}" for note in proposal.notes),
    ]
    return "\n".join(lines)


def convert_ladder(proposal: Proposal) -> JsonObject:
    return {
        "deadline": _format_duration(proposal.deadline_s),
        "max_usd": None if proposal.max_usd is None else round(proposal.max_usd, 2),
        "rungs": [rung.as_json() for rung in proposal.rungs],
        "notes": list(proposal.notes),
        "toml": format_ladder(proposal),
    }


def _format_rung(rung: ProposedRung) -> list[str]:
    price = "no price known" if rung.usd_per_hour is None else f"${format_dollars(rung.usd_per_hour)}/h"
    keys = ", ".join(f"{name} = {json.dumps(value)}" for name, value in rung.keys.items())
    return [f"  # {price}, {rung.reason}", f"  {{{keys}}},"]


def _format_duration(seconds: int) -> str:
    return f"{seconds // 3600}h" if seconds % 3600 == 0 else f"{seconds // 60}m"


app = typer.Typer()


@app.command(
    epilog="Example: vgp machines --accelerator L4 --region europe-west4 --provisioning spot",
)
def machines(
    name: Annotated[str | None, typer.Argument(help="A machine type: show everything about it.")] = None,
    accelerator: Annotated[str | None, typer.Option(help="L4, H100, A100-80GB ...; none: without GPU.")] = None,
    count: Annotated[int | None, typer.Option(help="GPUs of one machine.")] = None,
    min_memory_gb: Annotated[float, typer.Option(help="Memory of one machine.")] = 0,
    min_gpu_memory_gb: Annotated[float, typer.Option(help="GPU memory of one machine, all GPUs together.")] = 0,
    min_vcpu: Annotated[int, typer.Option(help="vCPU of one machine.")] = 0,
    region: Annotated[str | None, typer.Option(help="Only machines of this region.")] = None,
    max_usd_per_hour: Annotated[float | None, typer.Option(help="Only machines with a known price up to this.")] = None,
    provisioning: Annotated[
        str | None, typer.Option(help="standard, spot, flex_start or reservation.", show_default=False)
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Read prices and machine types from Google's APIs; show what changed.")
    ] = False,
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="Leave out machines retired on this day; default: today.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="With --refresh: write the changes into the catalog.")] = False,
    project: Annotated[
        str | None, typer.Option(help="With --refresh: project of the API calls; default: that of pipelines.toml.")
    ] = None,
    ladder: Annotated[
        bool, typer.Option("--ladder", help="Propose a ladder: Spot, Spot elsewhere, Flex-start, on demand.")
    ] = False,
    gpus: Annotated[int | None, typer.Option(min=1, help="With --ladder: GPUs of all machines together.")] = None,
    deadline: Annotated[
        str | None, typer.Option(help="With --ladder: time limit, such as 12h. Default: 24h, or less by --max-usd.")
    ] = None,
    max_usd: Annotated[float | None, typer.Option(help="With --ladder: maximum cost.")] = None,
    as_json: Json = False,
) -> None:
    """List machines with their GPUs, cheapest first; or show one machine with its prices and quotas.

    The list has only machines that compile accepts. --ladder prints lines for pipelines.toml instead
    (docs/how-to/spot-with-a-fallback.md).

    Exit codes: 1 no machine passes all filters, 2 invalid request.
    """
    if refresh:
        return _refresh(project, write, as_json)
    today = parse_as_of(as_of) or date.today()
    if name and tpu_machines.is_tpu(name):
        show(tpu_card.as_json(name), as_json, lambda _: tpu_card.render_card(name, today))
        return
    if name:
        machine = machine_card.find_machine(name)
        value = machine_card.as_json(machine, today)
        show(value, as_json, lambda _: machine_card.render_card(machine, today))
        return
    need = machine_list.build_need(
        accelerator, region, provisioning, today, count=count, min_memory_gb=min_memory_gb,
        min_gpu_memory_gb=min_gpu_memory_gb, min_vcpu=min_vcpu, max_usd_per_hour=max_usd_per_hour,
    )  # fmt: skip
    if ladder:
        return _propose_ladder(need, region, gpus, deadline, max_usd, as_json)
    if gpus or deadline or max_usd is not None:
        raise RequestError("--gpus, --deadline and --max-usd need --ladder.")
    offers = search(need)
    if not offers:
        reason = machine_list.explain_none(need)
        if as_json:
            print_json([])
        raise WorkFailed(reason)
    show(
        [machine_list.as_json(offer) for offer in offers],
        as_json,
        lambda _: machine_list.as_table(offers, today, width=console().width),
    )


def _propose_ladder(
    need: Need, region: str | None, gpus: int | None, deadline: str | None, max_usd: float | None, as_json: bool
) -> None:
    if need.provisioning:
        raise RequestError("--ladder combines all provisioning models; omit --provisioning.")
    if not need.gpus or not (need.accelerator or need.min_gpu_memory_gb or gpus):
        raise RequestError("--ladder needs GPUs, such as --accelerator H100 --gpus 8.")
    where = region or next(iter(checker.own_regions()), DEFAULT_REGION)
    proposal = ladder_proposal.propose_ladder(
        need, region=where, gpus=gpus, deadline_s=placed_ladder.deadline_s(deadline), max_usd=max_usd
    )
    if as_json:
        print_json(convert_ladder(proposal))
    else:
        print_lines(format_ladder(proposal))


def _refresh(project: str | None, write: bool, as_json: bool) -> None:
    refreshing.refresh(load_settings(None, None, {"project": project}), write=write, console=console(as_json))
