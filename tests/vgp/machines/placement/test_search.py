"""One search: what `vgp machines` lists first is what compile takes for the same need, everywhere."""

from datetime import date
from itertools import product

import pytest

from vgp.cli import machine_list
from vgp.machines.catalog import catalog
from vgp.machines.catalog.prices import PROVISIONING
from vgp.machines.placement import refusal
from vgp.machines.placement.combination import Combination, combinations, without_gpus
from vgp.machines.placement.machine_rules import PlacementError
from vgp.machines.placement.placing import place
from vgp.machines.placement.search import Need, search
from vgp.machines.placement.step_request import Request

DAY = date(2026, 11, 20)
COUNTS = (1, 2, 3, 4, 8, 16)
#: Every third region, and two that have most of the machines.
REGIONS = sorted({*sorted(catalog.regions())[::3], "us-central1", "europe-west4"})
SIZES = ({"min_memory_gb": 100}, {"min_vcpu": 40}, {"min_gpu_memory_gb": 200}, {"min_memory_gb": 5000})


def placed(region: str, way: str, **asked: object) -> Combination | None:
    got_by = {"reservation": "any"} if way == "reservation" else {"strategy": way}
    try:
        return place(Request.model_validate({**asked, **got_by}), region=region, as_of=DAY).combination
    except PlacementError as error:
        assert error.problem.level == "error"
        return None


def listed(accelerator: str, region: str, way: str, **sizes: object) -> Combination | None:
    offers = search(machine_list.build_need(accelerator, region, way, DAY, **sizes))
    return offers[0].combination if offers else None


@pytest.mark.parametrize("way", PROVISIONING)
def test_what_is_listed_first_is_what_compile_takes(way: str) -> None:
    for accelerator, count, region in product(catalog.accelerators(), COUNTS, REGIONS):
        ours = placed(region, way, accelerator=accelerator, count=count)
        assert listed(accelerator, region, way, count=count) == ours, (accelerator, count, region)


@pytest.mark.parametrize("way", PROVISIONING)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_so_it_is_with_sizes_and_without_gpus(sizes: dict[str, int], way: str) -> None:
    for accelerator, region in product(("L4", "T4", "A100", "H100"), REGIONS):
        ours = placed(region, way, accelerator=accelerator, count=4, **sizes)
        assert listed(accelerator, region, way, count=4, **sizes) == ours, (accelerator, region)
    for region in () if "min_gpu_memory_gb" in sizes else REGIONS:
        assert listed("none", region, way, **sizes) == placed(region, way, **sizes), region


@pytest.mark.parametrize("way", PROVISIONING)
@pytest.mark.parametrize("accelerator", [row for row in catalog.accelerators() if row.startswith("NVIDIA")])
def test_a_need_without_a_count_means_one_gpu(accelerator: str, way: str) -> None:
    for region in ("us-central1", "europe-west4"):
        assert placed(region, way, accelerator=accelerator) == listed(accelerator, region, way, count=1)


def test_t4_in_europe_west4_is_one_machine_to_both() -> None:
    assert listed("T4", "europe-west4", "standard", count=1) == placed("europe-west4", "standard", accelerator="T4")


def test_offers_are_sorted_by_price_and_then_by_size(b200_without_price: None) -> None:
    offers = search(Need(as_of=DAY, regions=("europe-west4",)))
    priced = [offer.price.usd_per_hour for offer in offers if offer.price]
    assert priced == sorted(priced) and [bool(offer.price) for offer in offers] == sorted(
        (bool(offer.price) for offer in offers), reverse=True
    )
    sizes = [offer.combination.vcpu for offer in offers if not offer.price]
    assert sizes and sizes == sorted(sizes)


def test_each_region_of_a_need_is_an_offer_of_its_own() -> None:
    regions = ("us-central1", "europe-west4", "europe-west1")
    offers = search(Need(as_of=DAY, accelerator=catalog.accelerator("L4"), count=4, regions=regions))
    assert {offer.region for offer in offers} == {"us-central1", "europe-west4"}
    assert all(offer.price and offer.price.region == offer.region for offer in offers)


def test_a_limit_of_the_price_leaves_out_what_has_none() -> None:
    assert all(offer.price and offer.price.usd_per_hour <= 2 for offer in search(Need(as_of=DAY, max_usd_per_hour=2)))


def test_everything_that_lives_is_offered_once() -> None:
    living = [row for row in combinations() if row.accelerator and not row.accelerator.is_retired(DAY)]
    assert sorted(map(str, living)) == sorted(str(offer.combination) for offer in search(Need(as_of=DAY)))
    assert len(search(Need(as_of=DAY, gpus=False))) == len(without_gpus())


def test_a_need_that_nothing_meets_names_the_rule_or_what_is_too_strict() -> None:
    gb200 = Need(as_of=DAY, accelerator=catalog.accelerator("GB200"), provisioning="spot")
    problem = refusal.impossible(gb200)
    assert problem is not None and problem.rule == "GPU009"
    large = Need(as_of=DAY, accelerator=catalog.accelerator("L4"), min_memory_gb=9999, max_usd_per_hour=9)
    assert refusal.impossible(large) is None and search(large) == []
    assert [name for name, _ in refusal.list_too_strict_parts(large)] == ["min_memory_gb"]
