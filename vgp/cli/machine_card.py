"""Details of one machine, its prices by region and its quotas, as tables and as JSON."""

import re
from collections.abc import Iterable, Iterator
from datetime import date

from rich.console import Group, RenderableType
from rich.table import Table

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text import times
from vgp.base.text.figures import facts_table, format_dollars, join_words, table
from vgp.machines.catalog import catalog, tpu_machines
from vgp.machines.catalog.catalog import Accelerator, Machine, Quota
from vgp.machines.catalog.prices import Price, source
from vgp.machines.placement import compatibility, tpu_rules
from vgp.machines.placement.combination import Combination, of_machine
from vgp.machines.placement.machine_rules import PlacementError

PROVISIONING_NAMES = {"standard": "standard", "spot": "Spot", "flex_start": "Flex-start", "reservation": "reservation"}


def render_prices(titles: tuple[str, ...], prices: Iterable[tuple[tuple[str, ...], Price]]) -> Table:
    """Returns a table of prices, with a row for each priced item and date and a column for each provisioning model.

    Args:
        titles: Titles of the cells that name an item, such as region and GPUs.
        prices: The cells of an item, and one of its prices.
    """
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for cells, price in prices:
        usd = f"{'<= ' if price.at_most else ''}{format_dollars(price.usd_per_hour)}"
        rows.setdefault((*cells, price.date), {})[price.provisioning] = usd
    models = [model for model in PROVISIONING_NAMES if any(model in row for row in rows.values())]
    lines = ((*cells, *(usd.get(model, "") for model in models), day) for (*cells, day), usd in rows.items())
    names = [PROVISIONING_NAMES[model] for model in models]
    return table((*titles, *names, "price of"), lines, right=names, whole=("region", *names))


def list_price_sources(prices: Iterable[Price]) -> dict[str, JsonObject]:
    """Returns the sources of the prices: name -> page, date and quotation."""
    return {key: source(key) for key in sorted({key for price in prices for key in price.sources})}


#: A GPU with a count: 8 x H100, 8xH100.
_GPUS_WITH_COUNT = re.compile(r"(?P<count>\d+)\s*[x×*]\s*(?P<gpu>.+)", re.IGNORECASE)


def find_machine(name: str) -> Machine:
    """Returns the machine called `name`.

    Raises:
        RequestError: no machine has this name; the message suggests the nearest.
    """
    if name not in catalog.machines() and (gpu := catalog.accelerator(name)):
        option = f"--accelerator {name}" if gpu.kind == "gpu" else tpu_machines.board_machine()
        raise RequestError(f"{gpu.name} is a GPU, not a machine. List the machines that have it: vgp machines {option}")
    match = _GPUS_WITH_COUNT.fullmatch(name)
    if match and (gpu := catalog.accelerator(match["gpu"])) and gpu.kind == "gpu":
        option = f"--accelerator {gpu.name} --count {match['count']}"
        raise RequestError(f"{name} is a GPU, not a machine. List the machines that have it: vgp machines {option}")
    if name not in catalog.machines():
        if tpu_rules.looks_like(name):
            raise PlacementError(tpu_rules.problems(name, None, 0, None)[0])
        raise PlacementError(compatibility.unknown_machine(name))
    return catalog.machines()[name]


def render_card(machine: Machine, as_of: date) -> RenderableType:
    """Returns the machine's facts, prices and quotas as tables."""
    parts: list[RenderableType] = [f"[bold]{machine.name}[/]", facts_table(_list_facts(machine, as_of))]
    prices = list(_list_prices(machine, as_of))
    if prices:
        parts += ["", "[bold]$/hour on Vertex AI[/]", _render_machine_prices(prices)]
        old = times.price_age_warning((price.date for _, price in prices), as_of)
        parts += [f"prices{old.removeprefix(',')}"] if old else []
        parts += filter(None, [times.describe_unknown_skus([price for _, price in prices])])
    for quota in _list_quotas(machine, as_of):
        parts += ["", f"[bold]quota to request: {quota.what}[/]", facts_table(_list_quota_facts(quota))]
    sources = [f"{row['what']}: {row['page']} ({row['date']})" for row in _list_sources(machine)]
    sources += [
        f"prices of {row['date']}: {row['page']}" for row in list_price_sources(price for _, price in prices).values()
    ]
    return Group(*parts, "", "[bold]sources[/]", *sources)


def as_json(machine: Machine, as_of: date) -> JsonObject:
    """Returns everything in the catalog about the machine, without retired offers."""
    return {
        "machine_type": machine.name,
        "family": machine.family,
        "vcpu": machine.vcpu,
        "memory_gb": machine.memory_gb,
        "cpu_platform": machine.cpu_platform,
        "architecture": machine.architecture,
        "accelerators": [_accelerator_json(gpu, machine, as_of) for gpu in _list_accelerators(machine)],
        "local_ssd": {"gib": machine.local_ssd_gib, "how": machine.local_ssd},
        "network": {"gbps": machine.network_gbps, "nics": machine.nics, "gpudirect": machine.gpudirect},
        "nccl": machine.nccl,
        "nccl_script": machine.nccl_script,
        "provisioning": list(machine.provisioning),
        "boot_disks": {"allowed": list(machine.boot_disks), "not_confirmed": list(machine.unconfirmed_boot_disks)},
        "prices": [_price_json(combination, price) for combination, price in _list_prices(machine, as_of)],
        "price_sources": list_price_sources(price for _, price in _list_prices(machine, as_of)),
        "quotas": [_quota_json(quota) for quota in _list_quotas(machine, as_of)],
        "note": machine.note,
        "confidence": machine.confidence,
        "sources": _list_sources(machine),
    }


def _list_accelerators(machine: Machine) -> list[Accelerator]:
    return [catalog.accelerators()[name] for name in machine.choices]


def _list_prices(machine: Machine, as_of: date) -> Iterator[tuple[Combination, Price]]:
    """Yields the offers that are not retired, with their prices, by region; for an N1 also those without GPUs."""
    bare = () if machine.accelerator else (Combination(machine),)
    for combination in (*bare, *of_machine(machine)):
        if combination.accelerator is None or not combination.accelerator.is_retired(as_of):
            for way in machine.provisioning:
                yield from (
                    (combination, price) for price in combination.prices(way) if combination.is_in(price.region)
                )


def _list_quotas(machine: Machine, as_of: date) -> list[Quota]:
    supported = [gpu.quota for gpu in _list_accelerators(machine) if not gpu.is_retired(as_of)]
    vcpu = None if machine.accelerator else catalog.cpu_quota(machine.family)
    return [quota for quota in (*supported, vcpu) if quota]


def _list_sources(machine: Machine) -> list[dict[str, str]]:
    return [dict(catalog.source(key)) for key in machine.sources]


def _list_facts(machine: Machine, as_of: date) -> Iterator[tuple[str, str]]:
    yield "vCPU", f"{machine.vcpu} ({', '.join(filter(None, [machine.cpu_platform, machine.architecture]))})"
    yield "memory", f"{machine.memory_gb:g} GB"
    for gpu in _list_accelerators(machine):
        yield from _list_gpu_facts(gpu, machine.choices[gpu.name], as_of)
    if machine.network_gbps:
        yield "network", f"{machine.network_gbps} Gbps, {machine.nics} NIC, {machine.gpudirect or 'no GPUDirect'}"
    if machine.nccl:
        yield "NCCL", f"set {machine.nccl}"
    if machine.nccl_script:
        yield "NCCL", f"several machines: source {machine.nccl_script}; training steps do so"
    if machine.local_ssd_gib:
        yield "local SSD", f"{machine.local_ssd_gib} GiB, {machine.local_ssd}"
    yield "provisioning", ", ".join(PROVISIONING_NAMES[way] for way in machine.provisioning)
    unconfirmed = ", ".join(machine.unconfirmed_boot_disks)
    yield "boot disk", ", ".join(machine.boot_disks) + (f" (not confirmed: {unconfirmed})" if unconfirmed else "")
    if machine.note:
        yield "note", machine.note


def _list_gpu_facts(gpu: Accelerator, counts: tuple[int, ...], as_of: date) -> Iterator[tuple[str, str]]:
    yield "GPUs", f"{join_words(counts)} x {gpu.name}, {gpu.memory_gb} GB each"
    if gpu.is_retired(as_of):
        since = f" since {gpu.end_of_support}" if gpu.end_of_support else ""
        yield "", f"retired{since}: compile refuses it. Instead: {join_words(gpu.successors)}"
        return
    if gpu.end_of_support:
        yield "", f"end of support {gpu.end_of_support}. Then: {join_words(gpu.successors)}"
    yield "regions", ", ".join(gpu.regions_of_both_pages) or "none listed by both pages"
    if gpu.regions_of_one_page:
        yield "", f"by one page only: {', '.join(gpu.regions_of_one_page)}"


def _render_machine_prices(prices: list[tuple[Combination, Price]]) -> Table:
    """Returns a row for each region and GPU count."""

    def gpus(combination: Combination) -> str:
        return f"{combination.count} x {combination.accelerator_type}" if combination.accelerator else "-"

    rows = (((price.region, gpus(combination)), price) for combination, price in prices)
    return render_prices(("region", "GPUs"), rows)


def _list_quota_facts(quota: Quota) -> Iterator[tuple[str, str]]:
    def format_name(metric: str, quota_id: str | None) -> str:
        return f"{metric} ({quota_id})" if quota_id else metric

    yield "standard", format_name(quota.metric, quota.id)
    if quota.preemptible_metric:
        yield "Spot, Flex-start", format_name(quota.preemptible_metric, quota.preemptible_id)
    for limit in sorted(set(quota.defaults.values())):
        yield f"default {limit}", ", ".join(region for region in quota.defaults if quota.defaults[region] == limit)
    yield "confidence", f"{quota.confidence} (of the names)"


def _accelerator_json(gpu: Accelerator, machine: Machine, as_of: date) -> JsonObject:
    return {
        "name": gpu.name,
        "counts": list(machine.choices[gpu.name]),
        "memory_gb": gpu.memory_gb,
        "end_of_support": gpu.end_of_support.isoformat() if gpu.end_of_support else None,
        "retired": gpu.is_retired(as_of),
        "successors": list(gpu.successors),
        "regions": list(gpu.regions_of_both_pages),
        "regions_listed_by_one_page": list(gpu.regions_of_one_page),
        "note": gpu.note,
    }


def _price_json(combination: Combination, price: Price) -> JsonObject:
    return {
        "accelerator_type": combination.accelerator_type,
        "accelerator_count": combination.count,
        "region": price.region,
        "provisioning": price.provisioning,
        "usd_per_hour": round(price.usd_per_hour, 4),
        "at_most": price.at_most,
        "date": price.date,
        "sources": list(price.sources),
        "skus": list(price.skus) or None,
    }


def _quota_json(quota: Quota) -> JsonObject:
    return {
        "for": quota.what,
        "metric": quota.metric,
        "spot_and_flex_start_metric": quota.preemptible_metric,
        "quota_id": quota.id,
        "spot_and_flex_start_quota_id": quota.preemptible_id,
        "confidence": quota.confidence,
        "defaults": dict(sorted(quota.defaults.items())),
    }
