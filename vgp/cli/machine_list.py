"""Lists the machines that meet a need, as a table or as JSON, or explains why there are none."""

from datetime import date
from typing import Any

from rich.console import RenderableType

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text import times
from vgp.base.text.figures import format_dollars, join_words, table, with_caption
from vgp.machines.catalog import catalog, tpu_machines
from vgp.machines.catalog.catalog import short_name
from vgp.machines.catalog.prices import PROVISIONING
from vgp.machines.placement import compatibility, provisioning, refusal
from vgp.machines.placement.machine_rules import PlacementError, refuse
from vgp.machines.placement.search import Need, Offer

#: Field of the need -> option of the verb, where the names differ.
_OPTIONS = {"regions": "region"}


def build_need(accelerator: str | None, region: str | None, way: str | None, as_of: date, **sizes: Any) -> Need:
    """Returns the options of `vgp machines` as a need.

    Raises:
        RequestError: an unknown accelerator, region or provisioning.
    """
    gpus = accelerator is None or accelerator.lower() not in ("none", "cpu")
    gpu = catalog.accelerator(accelerator) if accelerator and gpus else None
    if accelerator and gpus and (gpu is None or tpu_machines.names_generation(accelerator)):
        raise PlacementError(compatibility.unknown_accelerator(accelerator, as_of))
    if region:
        refuse(provisioning.region_known(region))
    provisioning_model = way.lower().replace("-", "_") if way else None
    if provisioning_model not in (None, *PROVISIONING):
        hint = provisioning.explain_strategy_name(str(provisioning_model)) or f"Choices: {join_words(PROVISIONING)}."
        raise RequestError(f"there is no provisioning '{way}'. {hint}")
    regions = (region,) if region else ()
    return Need(as_of=as_of, gpus=gpus, accelerator=gpu, regions=regions, provisioning=provisioning_model, **sizes)


def explain_none(need: Need) -> str:
    """Returns a message with the filters of the need that together exclude every machine.

    Raises:
        RequestError: custom training has no machine for this combination at any size or price.
    """
    problem = refusal.impossible(need)
    if problem:
        raise PlacementError(problem)
    lines = ["no machine meets all of these conditions."]
    for name, offers in refusal.list_too_strict_parts(need):
        value = getattr(need, name)
        option = f"--{_OPTIONS.get(name, name).replace('_', '-')} {join_words(value) if name == 'regions' else value}"
        lines.append(f"Without {option} there are {len(offers)}; the first: {_describe_offer(offers[0])}.")
    return "\n  ".join(lines)


def as_json(offer: Offer) -> JsonObject:
    combination, price, accelerator = offer.combination, offer.price, offer.combination.accelerator
    end = accelerator.end_of_support if accelerator else None
    return {
        "machine_type": combination.machine_type,
        "accelerator_type": combination.accelerator_type,
        "accelerator_count": combination.count,
        "gpu_memory_gb": combination.gpu_memory_gb,
        "vcpu": combination.vcpu,
        "memory_gb": combination.memory_gb,
        "region": offer.region,
        "provisioning": offer.provisioning,
        "usd_per_hour": round(price.usd_per_hour, 4) if price else None,
        "at_most": price.at_most if price else False,
        "price_date": price.date if price else None,
        "price_skus": list(price.skus) or None if price else None,
        "end_of_support": end.isoformat() if end else None,
    }


def as_table(offers: list[Offer], today: date, *, width: int = 80) -> RenderableType:
    """Returns the offers as a table, narrower on terminals of less than 100 columns."""
    titles = ("machine", "GPUs", "GPU GB", "vCPU", "GB", "region", "provisioning", "$/hour")
    numbers, whole = ("GPU GB", "vCPU", "GB", "$/hour"), set(titles) - {"GPUs", "GPU GB"}
    rows = table(titles, map(_render_cells, offers), right=numbers, whole=whole, gap=1 if width < 100 else 3)
    accelerators = dict.fromkeys(offer.combination.accelerator for offer in offers)
    limited = [gpu for gpu in accelerators if gpu and gpu.end_of_support]
    lines = [
        f"{gpu.name} reaches its end of support on {gpu.end_of_support}: then compile refuses it." for gpu in limited
    ]
    prices = [offer.price for offer in offers if offer.price]
    lines += [times.price_dates((price.date for price in prices), today), times.describe_unknown_skus(prices)]
    return with_caption(rows, list(filter(None, lines)))


def _render_cells(offer: Offer) -> tuple[str, ...]:
    combination, price = offer.combination, offer.price
    gpus = f"{combination.count} x {short_name(combination.accelerator.name)}" if combination.accelerator else "-"
    usd = f"{'<= ' if price.at_most else ''}{format_dollars(price.usd_per_hour)}" if price else "no price"
    return (
        combination.machine_type, gpus, str(combination.gpu_memory_gb or "-"), str(combination.vcpu),
        f"{combination.memory_gb:g}", offer.region or "-", offer.provisioning, usd,
    )  # fmt: skip


def _describe_offer(offer: Offer) -> str:
    size = f"{offer.combination.vcpu} vCPU and {offer.combination.memory_gb:g} GB"
    usd = f"${format_dollars(offer.price.usd_per_hour)}/h" if offer.price else "no price"
    return f"{offer.combination} with {size} ({', '.join(filter(None, (offer.region, offer.provisioning, usd)))})"
