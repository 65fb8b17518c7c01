"""One machine as a person reads it: what it is, what it costs where, and which quota to ask for."""

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from vgp.text.figures import listed

_WORDS = {"standard": "standard", "spot": "Spot", "flex_start": "Flex-start", "reservation": "reservation"}


def card(row: dict[str, Any]) -> RenderableType:
    """The output of `machine_list.detail` as a table of facts, a table of prices, and the quotas."""
    parts: list[RenderableType] = [f"[bold]{row['machine_type']}[/]", _facts(row)]
    if row["prices"]:
        parts += ["", "[bold]$/hour on Vertex AI[/]", _prices(row["prices"])]
    for quota in row["quotas"]:
        parts += ["", f"[bold]quota to ask for: {quota['for']}[/]", _quota(quota)]
    sources = [f"{source['what']}: {source['page']} ({source['date']})" for source in row["sources"]]
    parts += ["", "[bold]sources[/]", *sources]
    return Group(*parts)


def _facts(row: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    for name, value in _lines(row):
        table.add_row(name, value)
    return table


def _lines(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "vCPU", f"{row['vcpu']} ({', '.join(filter(None, [row['cpu_platform'], row['architecture']]))})"
    yield "memory", f"{row['memory_gb']:g} GB"
    for gpu in row["accelerators"]:
        yield "GPUs", f"{listed(gpu['counts'])} x {gpu['name']}, {gpu['memory_gb']} GB each"
        if gpu["retired"]:
            since = f" since {gpu['end_of_support']}" if gpu["end_of_support"] else ""
            yield "", f"retired{since}: compile refuses it. Instead: {listed(gpu['successors'])}"
            continue
        if gpu["end_of_support"]:
            yield "", f"end of support {gpu['end_of_support']}. Then: {listed(gpu['successors'])}"
        yield "regions", ", ".join(gpu["regions"]) or "none listed by both pages"
        if gpu["regions_listed_by_one_page"]:
            yield "", f"by one page only: {', '.join(gpu['regions_listed_by_one_page'])}"
    network = row["network"]
    if network["gbps"]:
        yield "network", f"{network['gbps']} Gbps, {network['nics']} NIC, {network['gpudirect'] or 'no GPUDirect'}"
    if row["nccl"]:
        yield "NCCL", f"set {row['nccl']}"
    if row["local_ssd"]["gib"]:
        yield "local SSD", f"{row['local_ssd']['gib']} GiB, {row['local_ssd']['how']}"
    yield "provisioning", ", ".join(_WORDS[way] for way in row["provisioning"])
    disks = row["boot_disks"]
    more = f" (not confirmed: {', '.join(disks['not_confirmed'])})" if disks["not_confirmed"] else ""
    yield "boot disk", ", ".join(disks["allowed"]) + more
    if row["note"]:
        yield "note", row["note"]


def _prices(rows: list[dict[str, Any]]) -> Table:
    """A row for each region and GPU count, a column for each provisioning."""
    ways = [way for way in _WORDS if any(row["provisioning"] == way for row in rows)]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("region", "GPUs", *(_WORDS[way] for way in ways), "price of"):
        table.add_column(title)
    cells: dict[tuple[Any, ...], dict[str, str]] = {}
    for row in rows:
        gpus = f"{row['accelerator_count']} x {row['accelerator_type']}" if row["accelerator_type"] else "-"
        text = f"{'<= ' if row['at_most'] else ''}{row['usd_per_hour']:,.2f}"
        cells.setdefault((row["region"], gpus, row["date"]), {})[row["provisioning"]] = text
    for (region, gpus, date), found in cells.items():
        table.add_row(region, gpus, *(found.get(way, "") for way in ways), date)
    return table


def _quota(quota: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_row("standard", f"{quota['metric']}{_id(quota['quota_id'])}")
    if quota["spot_and_flex_start_metric"]:
        name = f"{quota['spot_and_flex_start_metric']}{_id(quota['spot_and_flex_start_quota_id'])}"
        table.add_row("Spot, Flex-start", name)
    by_limit: dict[int, list[str]] = {}
    for region, limit in quota["defaults"].items():
        by_limit.setdefault(limit, []).append(region)
    for limit, places in sorted(by_limit.items()):
        table.add_row(f"default {limit}", ", ".join(places))
    table.add_row("confidence", f"{quota['confidence']} (of the names)")
    return table


def _id(quota_id: str | None) -> str:
    return f" ({quota_id})" if quota_id else ""
