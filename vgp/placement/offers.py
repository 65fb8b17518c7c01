"""`pipelines machines`: what can be asked for, by price; and everything about one machine."""

from datetime import date
from typing import Any

from rich.table import Table

from vgp.catalog import catalog, prices
from vgp.catalog.catalog import Accelerator, Machine
from vgp.catalog.names import Unknown, listed
from vgp.errors import RequestError
from vgp.placement import provisioning
from vgp.placement.choice import problems_of


def offers(
    *,
    accelerator: str | None = None,
    count: int | None = None,
    min_memory_gb: float = 0,
    min_gpu_memory_gb: float = 0,
    min_vcpu: int = 0,
    region: str | None = None,
    max_usd_per_hour: float | None = None,
    provisioning: str | None = None,
    as_of: date | None = None,
) -> list[dict[str, Any]]:
    """Every machine with its GPUs that meets all filters and that compile accepts, cheapest first, unpriced last.

    Args:
        accelerator: Short or long name; `none` lists the machines without GPUs.
        count: GPUs of one machine.
        min_memory_gb, min_gpu_memory_gb, min_vcpu: Of one machine; GPU memory over all its GPUs.
        region: Only what the region has, at its price; else the price of us-central1, or where it is lowest.
        max_usd_per_hour: Leaves out what costs more, and what has no price.
        provisioning: standard, spot, flex_start or reservation; else standard where it is offered, and what there is
            for the others.
        as_of: Day on which retirements are judged; today by default.

    Raises:
        RequestError: an unknown accelerator, region or provisioning.
    """
    wanted, day = _way(provisioning) if provisioning else None, as_of or date.today()
    _known_region(region)
    rows = []
    for machine, gpu, gpus in _requests(accelerator):
        large = machine.memory_gb >= min_memory_gb and machine.vcpu >= min_vcpu
        if not large or gpus * machine_gpu_memory(gpu) < min_gpu_memory_gb or count not in (None, gpus):
            continue
        way = wanted or ("standard" if "standard" in machine.provisioning else machine.provisioning[0])
        problems = problems_of(machine, gpu, gpus, way=way, region=region, as_of=day)
        if way in machine.provisioning and not any(problem.level == "error" for problem in problems):
            rows.append(_offer(machine, gpu, gpus, region, way))
    if max_usd_per_hour is not None:
        rows = [row for row in rows if row["usd_per_hour"] is not None and row["usd_per_hour"] <= max_usd_per_hour]
    return sorted(rows, key=lambda row: (row["usd_per_hour"] is None, row["usd_per_hour"] or 0, row["machine_type"]))


def machine_gpu_memory(gpu: str | None) -> int:
    return catalog.accelerator(gpu).memory_gb if gpu else 0


def _way(name: str) -> str:
    way = name.lower().replace("-", "_")
    if way not in prices.PROVISIONING:
        raise RequestError(f"no provisioning is called '{name}'. Choices: {listed(prices.PROVISIONING)}.")
    return way


def _known_region(region: str | None) -> None:
    for problem in provisioning.region_known(region) if region else ():
        raise RequestError(f"{problem.message} {problem.suggestion}")


def _requests(accelerator: str | None) -> list[tuple[Machine, str | None, int]]:
    if accelerator is not None and accelerator.lower() in ("none", "cpu"):
        return [(row, None, 0) for row in catalog.machines().values() if row.accelerator is None]
    try:
        wanted = catalog.accelerator(accelerator).name if accelerator else None
    except Unknown as error:
        raise RequestError(str(error)) from None
    return [(catalog.machine(name), gpu, count) for name, gpu, count in catalog.combinations() if wanted in (None, gpu)]


def _offer(machine: Machine, gpu: str | None, count: int, region: str | None, way: str) -> dict[str, Any]:
    if region:
        found = prices.price(machine.name, gpu, count, region, way)
    else:
        found = prices.price(machine.name, gpu, count, "us-central1", way)
        found = found or next(iter(prices.priced_regions(machine.name, gpu, count, way)), None)
    return {
        "machine_type": machine.name,
        "accelerator_type": gpu,
        "accelerator_count": count,
        "gpu_memory_gb": count * machine_gpu_memory(gpu),
        "vcpu": machine.vcpu,
        "memory_gb": machine.memory_gb,
        "region": found.region if found else region,
        "provisioning": way,
        "usd_per_hour": round(found.usd_per_hour, 4) if found else None,
        "at_most": found.at_most if found else False,
        "price_date": found.date if found else None,
        "end_of_support": _end_of_support(catalog.accelerator(gpu)) if gpu else None,
    }


def _end_of_support(row: Accelerator) -> str | None:
    return row.end_of_support.isoformat() if row.end_of_support else None


def table(rows: list[dict[str, Any]]) -> Table:
    drawn = _plain_table()
    for title, justify in (
        ("machine", "left"), ("GPUs", "left"), ("GPU GB", "right"), ("vCPU", "right"), ("GB", "right"),
        ("region", "left"), ("provisioning", "left"), ("$/hour", "right"),
    ):  # fmt: skip
        drawn.add_column(title, justify=justify, no_wrap=title in ("machine", "GPUs"))  # type: ignore[arg-type]
    for row in rows:
        gpus = f"{row['accelerator_count']} x {row['accelerator_type']}" if row["accelerator_type"] else "-"
        usd = row["usd_per_hour"]
        price = "no price" if usd is None else f"{'<= ' if row['at_most'] else ''}{usd:,.2f}"
        drawn.add_row(
            row["machine_type"], gpus, str(row["gpu_memory_gb"] or "-"), str(row["vcpu"]), f"{row['memory_gb']:g}",
            row["region"] or "-", row["provisioning"], price,
        )  # fmt: skip
    ending = {row["accelerator_type"]: row["end_of_support"] for row in rows if row["end_of_support"]}
    if ending:
        lines = (f"{gpu} reaches its end of support on {day}: then compile refuses it." for gpu, day in ending.items())
        drawn.caption, drawn.caption_justify = "\n".join(lines), "left"
    return drawn


def detail(name: str, *, as_of: date | None = None) -> dict[str, Any]:
    """Everything that the catalog knows about one machine, with the sources; prices and quotas of what lives on.

    Raises:
        RequestError: there is no such machine; names the nearest.
    """
    try:
        machine = catalog.machine(name)
    except Unknown as error:
        why = catalog.not_for_training(name)
        raise RequestError(f"{why}. {error}" if why else str(error)) from None
    day = as_of or date.today()
    gpus = [catalog.accelerator(gpu) for gpu in machine.choices]
    living = [row for row in gpus if not row.is_retired(day)]
    cpu = catalog.cpu_quota(machine.family) if not machine.accelerator else None
    return {
        "machine_type": machine.name,
        "family": machine.family,
        "vcpu": machine.vcpu,
        "memory_gb": machine.memory_gb,
        "cpu_platform": machine.cpu_platform,
        "architecture": machine.architecture,
        "accelerators": [_gpu(row, machine.choices[row.name], row not in living) for row in gpus],
        "local_ssd": {"gib": machine.local_ssd_gib, "how": machine.local_ssd},
        "network": {"gbps": machine.network_gbps, "nics": machine.nics, "gpudirect": machine.gpudirect},
        "nccl": machine.nccl,
        "provisioning": list(machine.provisioning),
        "boot_disks": {"allowed": list(machine.boot_disks), "not_confirmed": list(machine.unconfirmed_boot_disks)},
        "prices": [price for gpu, counts in _choices(machine, living) for price in _prices(machine, gpu, counts)],
        "quotas": [_quota(row) for row in living] + ([_cpu_quota(cpu)] if cpu else []),
        "note": machine.note,
        "confidence": machine.confidence,
        "sources": [catalog.source(key) for key in machine.sources],
    }


def _choices(machine: Machine, living: list[Accelerator]) -> list[tuple[str, tuple[int, ...]]]:
    """Accelerator -> counts for which there are prices; an N1 is sold without GPUs too."""
    bare = [] if machine.accelerator else [("", (0,))]
    return bare + [(row.name, machine.choices[row.name]) for row in living]


def _gpu(row: Accelerator, counts: tuple[int, ...], retired: bool) -> dict[str, Any]:
    both = [region for region in row.regions if row.pages_listing(region) == 2]
    return {
        "name": row.name,
        "counts": list(counts),
        "memory_gb": row.memory_gb,
        "end_of_support": _end_of_support(row),
        "retired": retired,
        "successors": list(row.successors),
        "regions": both,
        "regions_listed_by_one_page": [region for region in row.regions if region not in both],
        "note": row.note,
    }


def _quota(row: Accelerator) -> dict[str, Any]:
    quota = row.quota
    assert quota is not None
    return {
        "for": row.name,
        "metric": quota.metric,
        "spot_and_flex_start_metric": quota.preemptible_metric,
        "quota_id": quota.id,
        "spot_and_flex_start_quota_id": quota.preemptible_id,
        "confidence": quota.confidence,
        "defaults": dict(quota.defaults),
    }


def _cpu_quota(row: dict[str, Any]) -> dict[str, Any]:
    defaults = {region: int(limit) for limit, places in row["regions_by_default"].items() for region in places}
    return {
        "for": f"{', '.join(row['families'])} vCPU", "metric": row["metric"], "spot_and_flex_start_metric": None,
        "quota_id": None, "spot_and_flex_start_quota_id": None, "confidence": row["confidence"],
        "defaults": dict(sorted(defaults.items())),
    }  # fmt: skip


def _prices(machine: Machine, gpu: str, counts: tuple[int, ...]) -> list[dict[str, Any]]:
    found = []
    for count in counts:
        for way in machine.provisioning:
            for each in prices.priced_regions(machine.name, gpu or None, count, way):
                if not gpu or catalog.accelerator(gpu).pages_listing(each.region):
                    found.append(
                        {
                            "accelerator_type": gpu or None,
                            "accelerator_count": count,
                            "region": each.region,
                            "provisioning": way,
                            "usd_per_hour": round(each.usd_per_hour, 4),
                            "at_most": each.at_most,
                            "date": each.date,
                        }  # fmt: skip
                    )
    return found


def _plain_table() -> Table:
    return Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
