"""The verb over the catalog: machines."""

from datetime import date
from typing import Annotated

import typer

from vgp.cli import machine_card, machine_list
from vgp.cli.options import Json, console, print_json, show
from vgp.errors import WorkFailed
from vgp.placement.search import search
from vgp.text.times import day

app = typer.Typer()


@app.command(
    epilog="Example: pipelines machines --accelerator L4 --region europe-west4 --provisioning spot",
)
def machines(
    name: Annotated[str | None, typer.Argument(help="A machine type: show everything about it.")] = None,
    accelerator: Annotated[str | None, typer.Option(help="L4, H100, A100-80GB ...; none: without GPU.")] = None,
    count: Annotated[int | None, typer.Option(help="GPUs of one machine.")] = None,
    min_memory_gb: Annotated[float, typer.Option(help="Memory of one machine.")] = 0,
    min_gpu_memory_gb: Annotated[float, typer.Option(help="GPU memory of one machine, all GPUs together.")] = 0,
    min_vcpu: Annotated[int, typer.Option(help="vCPU of one machine.")] = 0,
    region: Annotated[str | None, typer.Option(help="Only what the region has.")] = None,
    max_usd_per_hour: Annotated[float | None, typer.Option(help="Only what is known to cost no more.")] = None,
    provisioning: Annotated[
        str | None, typer.Option(help="standard, spot, flex_start or reservation.", show_default=False)
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Read prices and machine types from Google's APIs; show what changed.")
    ] = False,
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="What is retired on this day is left out; default: today.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="With --refresh: write the changes into the catalog.")] = False,
    project: Annotated[
        str | None, typer.Option(help="With --refresh: the project that asks; default: that of pipelines.toml.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List machines with their GPUs, cheapest first; or everything about one, with the quota to ask for.

    Only what compile accepts is listed. Exit codes: 1 nothing meets all filters, 2 what is asked for cannot be.
    """
    if refresh:
        return _refresh(project, write, as_json)
    today = day(as_of) or date.today()
    if name:
        machine = machine_card.machine(name)
        value = machine_card.as_json(machine, today)
        show(value, as_json, lambda _: machine_card.card(machine, today))
        return
    need = machine_list.need(
        accelerator, region, provisioning, today, count=count, min_memory_gb=min_memory_gb,
        min_gpu_memory_gb=min_gpu_memory_gb, min_vcpu=min_vcpu, max_usd_per_hour=max_usd_per_hour,
    )  # fmt: skip
    offers = search(need)
    if not offers:
        reason = machine_list.why_none(need)
        if as_json:
            print_json([])
        raise WorkFailed(reason)
    show(
        [machine_list.as_json(offer) for offer in offers],
        as_json,
        lambda _: machine_list.as_table(offers, today, width=console().width),
    )


def _refresh(project: str | None, write: bool, as_json: bool) -> None:
    from vgp.settings import load
    from vgp.vertex.refresh import refresh

    refresh(load(overrides={"project": project}), write=write, console=console(as_json))
