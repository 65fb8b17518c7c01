"""Prices against figures read from Google's SKUs, and the rule that derives the rest."""

import re
from collections import Counter
from functools import cache

import pytest

from vgp.machines.catalog import catalog, fresh_figures, prices, skus
from vgp.machines.placement.combination import combinations, without_gpus

#: Name and region -> on demand, Spot, bundled local SSD and day, as they were read then; a refresh changes them not.
READ = {
    ("n1-standard-4", "us-central1"): (0.189999, 0.06701, 0, "2026-07-30"),
    ("n1-standard-8", "us-central1"): (0.379998, 0.13402, 0, "2026-07-30"),
    ("n1-standard-8", "europe-west4"): (0.418336, 0.24306, 0, "2026-07-30"),
    ("NVIDIA_TESLA_T4", "us-central1"): (0.35, 0.1915, 0, "2026-07-09"),
    ("NVIDIA_TESLA_T4", "europe-west4"): (0.3675, 0.1805, 0, "2026-07-09"),
    ("g2-standard-4", "us-central1"): (0.706832, 0.397336, 0, "2026-07-30"),
    ("g2-standard-24", "us-central1"): (2.000833, 1.124816, 0, "2026-07-30"),
    ("a3-highgpu-1g", "us-central1"): (11.06125, 6.326193, 0.082192, "2026-07-30"),
    ("a3-highgpu-8g", "us-central1"): (88.49, 50.609541, 0.657534, "2026-07-30"),
    ("a3-ultragpu-8g", "us-central1"): (84.806908, 50.874449, 1.315068, "2026-09-17"),
    ("a3-ultragpu-8g", "asia-south1"): (100.196, 54.244, 0, "2026-10-13"),
}


@pytest.fixture
def as_read(monkeypatch):
    """The catalog with these prices alone."""
    rows = {key: prices._Compute(*figures[:3], sources=(figures[3],)) for key, figures in READ.items()}
    monkeypatch.setattr(prices, "_table", lambda: rows)
    monkeypatch.setattr(prices, "source", lambda day: {"date": day})


@pytest.fixture
def reading():
    """Skips figures of the first reading after a refresh of the prices."""
    if catalog.document("prices.json")["reading"] != "compute-2026-07-30":
        pytest.skip("the prices were refreshed")


def price(name, accelerator, count, region, provisioning):
    return prices.price(catalog.machines()[name], accelerator, count, region, provisioning)


@pytest.mark.parametrize(
    ("request_", "usd"),
    [
        # Vertex AI SKUs: 0.03474 + 0.00466 per vCPU and GB and the like, read 2025-08 and 2026-10.
        (("n1-standard-4", None, 0, "us-central1", "standard"), 0.21849885),
        (("a3-highgpu-8g", "NVIDIA_H100_80GB", 8, "us-central1", "standard"), 101.0074),
        (("a3-highgpu-1g", "NVIDIA_H100_80GB", 1, "us-central1", "flex_start"), 6.4369),
        # The same machine by its parts: 8 GPUs, 208 vCPU, 1872 GB.
        (("a3-highgpu-8g", "NVIDIA_H100_80GB", 8, "us-central1", "reservation"),
         8 * 11.2660332 + 208 * 0.0293227 + 1872 * 0.0025534),
    ],
)  # fmt: skip
def test_known_prices_of_vertex_ai(as_read, request_, usd):
    assert price(*request_).usd_per_hour == pytest.approx(usd, abs=2e-3)


def test_spot_is_the_compute_price_and_the_fee(as_read):
    # 2.00083 on demand and 1.124816 Spot on Compute Engine.
    assert price("g2-standard-24", "NVIDIA_L4", 2, "us-central1", "spot").usd_per_hour == pytest.approx(
        1.124816 + 0.15 * 2.000833, abs=1e-5
    )


def test_attached_gpus_are_added_to_their_host(as_read):
    host = price("n1-standard-8", None, 0, "us-central1", "standard").usd_per_hour
    with_gpus = price("n1-standard-8", "NVIDIA_TESLA_T4", 4, "us-central1", "standard").usd_per_hour
    assert with_gpus - host == pytest.approx(4 * 0.35 * 1.15)


def test_an_unknown_price_is_none_and_a_bound_is_marked(as_read):
    assert price("a4-highgpu-8g", "NVIDIA_B200", 8, "us-west4", "reservation") is None
    assert price("a3-ultragpu-8g", "NVIDIA_H200_141GB", 8, "africa-south1", "spot") is None
    bound = price("g2-standard-4", "NVIDIA_L4", 1, "us-central1", "flex_start")
    assert bound.at_most and str(bound).startswith("at most $")


@pytest.mark.parametrize("name", catalog.machines())
def test_prices_rise_from_spot_to_on_demand_and_carry_a_date(name):
    machine = catalog.machines()[name]
    for region in sorted(catalog.regions()):
        standard = price(name, machine.accelerator, machine.gpus, region, "standard")
        spot = price(name, machine.accelerator, machine.gpus, region, "spot")
        assert standard is None or (standard.usd_per_hour > 0 and len(standard.date) == 10)
        assert standard is None or spot is None or spot.usd_per_hour < standard.usd_per_hour * 1.01


def test_attached_gpus_and_pages_have_spot_prices_with_the_older_date(as_read):
    spot = price("n1-standard-8", "NVIDIA_TESLA_T4", 4, "europe-west4", "spot")
    assert spot.usd_per_hour == pytest.approx(0.24306 + 4 * 0.1805 + 0.15 * (0.418336 + 4 * 0.3675))
    assert spot.date == "2026-07-09" < price("n1-standard-8", None, 0, "europe-west4", "spot").date
    h200 = price("a3-ultragpu-8g", "NVIDIA_H200_141GB", 8, "us-central1", "spot")
    assert h200.usd_per_hour == pytest.approx(50.874449 + 0.15 * (84.806908 - 1.315068)) and h200.date == "2026-09-17"

    mumbai = price("a3-ultragpu-8g", "NVIDIA_H200_141GB", 8, "asia-south1", "spot")
    assert mumbai.usd_per_hour == pytest.approx(54.244 + 0.15 * 100.196)


def test_a_machine_costs_as_much_in_the_regions_that_share_its_skus():
    """ "Running in Americas": sources that list it for one region agree with those that list it for another."""
    east, central = (
        price("a3-ultragpu-8g", "NVIDIA_H200_141GB", 8, where, "standard") for where in ("us-east4", "us-central1")
    )
    assert east.usd_per_hour == pytest.approx(central.usd_per_hour, abs=0.001)


@pytest.mark.usefixtures("reading")
def test_all_but_one_pair_of_gpu_and_training_region_have_a_price():
    rows = [row for row in combinations() if row.accelerator.kind == "gpu"]
    pairs = {(row.accelerator.name, region) for row in rows for region in row.accelerator.training_regions}
    priced = {
        (row.accelerator.name, region)
        for row in rows
        for region in row.accelerator.training_regions
        if any(row.price(way, region) for way in row.machine.provisioning)
    }
    assert len(pairs) == 114 and pairs - priced == {("NVIDIA_H100_80GB", "northamerica-northeast2")}


def test_prices_are_the_sums_of_the_skus_that_are_named():
    """The recorded answer and the copies of the catalog are of different days: few prices moved in between."""
    document, ids, rows = catalog.document("prices.json"), fresh_figures.sku_rows(), fresh_figures.price_rows()
    regions, compared = {region for _, region, _ in ids}, Counter()
    sums = [(name, list(skus.parts(machine))) for name, machine in catalog.machines().items()]
    sums += [(name, [(part, 1)]) for name, part in skus.attachable_skus().items()]
    for name, parts in sums:
        for region in regions:
            rates = [ids.get((part, region, "OnDemand"), {}).get("usd_h") for part, _ in parts]
            row = rows.get((name, region))
            if row and parts and all(rates):
                usd = sum(float(rate) * amount for rate, (_, amount) in zip(rates, parts, strict=True))
                on_demand = float(row["on_demand_usd_h"]) - float(row["local_ssd_usd_h"])
                compared[on_demand == pytest.approx(usd, abs=3e-6)] += 1
    assert compared[True] > 50 * compared[False]
    assert compared == {True: 3191, False: 32} or document["reading"] != "compute-2026-07-30"


def own_and_compute(usage):
    """The price of each SKU of Vertex AI beside that of Compute Engine's of the same part and region."""
    table = fresh_figures.sku_rows()
    for (part, region, kind), row in table.items():
        compute = table.get((part, region, "OnDemand"))
        if kind == usage and compute and compute["source"] == row["source"]:
            yield (part, region), float(row["usd_h"]), float(compute["usd_h"])


@pytest.mark.parametrize(("usage", "share"), [("Training", 1.15), ("Fee", 0.15)])
def test_vertex_ais_own_skus_are_those_of_compute_engine_and_the_fee_with_few_exceptions(usage, share):
    assert catalog.document("prices.json")["vertex"]["fee"] == 0.15
    as_ruled = {at: own == pytest.approx(share * usd, rel=1e-3) for at, own, usd in own_and_compute(usage)}
    assert len(as_ruled) > 300 and sum(as_ruled.values()) > 0.93 * len(as_ruled)
    assert as_ruled["N1 Predefined Instance Core", "us-central1"] and as_ruled["Nvidia Tesla T4 GPU", "us-central1"]


@pytest.fixture
def parts(monkeypatch):
    """A catalog in which Vertex AI charges more than the rule gives, for known SKUs."""
    figures = {
        ("N1 Predefined Instance Core", "OnDemand"): 0.03, ("N1 Predefined Instance Ram", "OnDemand"): 0.004,
        ("N1 Predefined Instance Core", "Training"): 0.036, ("N1 Predefined Instance Ram", "Training"): 0.0048,
        ("N1 Predefined Instance Core", "Fee"): 0.006, ("N1 Predefined Instance Ram", "Fee"): 0.0008,
        ("A4 Nvidia B200 (1 gpu slice)", "Training"): 18.5, ("A4 Nvidia B200 (1 gpu slice)", "Fee"): 2.4,
        ("A4 Nvidia B200 (1 gpu slice)", "Preemptible"): 4.0,
    }  # fmt: skip
    rows = {
        (part, "us-central1", usage): {"sku": f"{part} {usage}", "usd_h": str(usd), "source": "2026-04-30"}
        for (part, usage), usd in figures.items()
    }
    monkeypatch.setattr(skus, "_read_table", lambda: rows)
    return rows


def test_the_fee_is_that_of_vertex_ais_own_skus_on_the_same_day(as_read, parts):
    asked = "n1-standard-4", None, 0, "us-central1"
    on_demand, spot = 0.189999, 0.06701
    assert price(*asked, "standard").usd_per_hour == pytest.approx(1.2 * on_demand)
    assert price(*asked, "spot").usd_per_hour == pytest.approx(spot + 0.2 * on_demand)
    assert price(*asked, "reservation").usd_per_hour == pytest.approx(1.2 * on_demand)
    assert price(*asked, "flex_start").usd_per_hour == pytest.approx(1.2 * on_demand)
    assert price(*asked, "standard").date == "2026-07-30", "the day is that of the price that it is reckoned on"
    parts["N1 Predefined Instance Core", "us-central1", "OnDemand"]["source"] = "2026-10-01"
    assert price(*asked, "standard").usd_per_hour == pytest.approx(1.15 * on_demand), "of another day: the rule"


def test_a_machine_that_compute_engine_does_not_sell_costs_the_price_of_its_skus(as_read, parts):
    asked = "a4-highgpu-8g", "NVIDIA_B200", 8, "us-central1"
    spot, bound, reserved = (price(*asked, way) for way in ("spot", "flex_start", "reservation"))
    assert (spot.usd_per_hour, spot.at_most, spot.date) == (pytest.approx(8 * 6.4), False, "2026-04-30")
    assert len(spot.skus) == 2 and spot.sources == ("2026-04-30",)
    assert bound.usd_per_hour == reserved.usd_per_hour == 148 and bound.at_most and reserved.at_most
    del parts["A4 Nvidia B200 (1 gpu slice)", "us-central1", "Fee"]
    assert price(*asked, "spot") is None and price(*asked, "standard").usd_per_hour == 148


def test_parts_that_are_sold_where_no_such_machine_is_make_no_price():
    elsewhere = "a2-megagpu-16g", "NVIDIA_TESLA_A100", 16, "us-east1"
    assert skus.price_machine(catalog.machines()["a2-megagpu-16g"], *elsewhere[1:], "Training")
    assert price(*elsewhere, "standard") is None


def test_flex_start_is_the_sum_of_its_skus():
    flex = catalog.document("prices.json")["flex_start"]
    rates = {part: sum(usd for _, usd in skus) for part, skus in flex["skus"].items()}
    for name, regions in flex["usd_h"].items():
        machine = catalog.machines()[name]
        parts = {"gpu": machine.gpus, "core": machine.vcpu, "memory": machine.memory_gb,
                 "local_ssd_gib": machine.local_ssd_gib}  # fmt: skip
        assert regions == {"us-central1": pytest.approx(sum(rates[part] * of for part, of in parts.items()), abs=1e-3)}


@cache
def every_price():
    rows = [*combinations(), *without_gpus()]
    return [(row, price_) for row in rows for way in row.machine.provisioning for price_ in row.prices(way)]


def test_every_price_is_from_sources_that_have_a_page_and_a_date():
    document = catalog.document("prices.json")
    for row, known in every_price():
        assert 1 <= len(known.sources) <= 2 and known.date == min(prices.source(key)["date"] for key in known.sources)
        # A host and the GPUs on it may be from two; what is built in is from one.
        assert len(known.sources) == 1 or row.machine.family == "n1"
    tables = [*fresh_figures.price_rows().values(), *fresh_figures.sku_rows().values()]
    used = {row["source"] or document["reading"] for row in tables} | {"flex_start"}
    assert used == set(document["sources"]), "no row without a source, no source without a row"
    for source in document["sources"].values():
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", source["date"]) and source["page"].startswith("https://")


def test_a_price_names_all_skus_that_are_in_it_or_none():
    """Those that are billed; the rule names Compute Engine's on demand, on which it reckons the fee."""
    table = fresh_figures.sku_rows()
    for row, known in every_price():
        parts = [part for part, _ in skus.parts(row.machine, row.accelerator_type, row.count)]

        def of(usage, parts=parts, region=known.region):
            found = [table.get((part, region, usage)) for part in parts]
            return tuple(sku["sku"] for sku in found) if found and all(found) else ()

        if known.sources == ("flex_start",):
            assert len(known.skus) == 7
        elif known.provisioning in ("standard", "flex_start"):
            assert known.skus == (of("Training") or of("OnDemand"))
        elif known.provisioning == "spot":
            fee = of("Fee") or of("OnDemand")
            assert known.skus == (of("Preemptible") + fee if of("Preemptible") and fee else ())
        elif known.at_most:
            assert known.skus == of("Training")
        else:
            assert known.skus == (of("OnDemand") + of("Fee") if of("OnDemand") else ())
    ids = [row["sku"] for row in table.values()]
    assert all(re.fullmatch(r"[0-9A-F]{4}(-[0-9A-F]{4}){2}", sku) for sku in ids)
    described = {(row["sku"], row["part"], row["usage"]) for row in table.values()}
    assert len(described) == len(set(ids)), "an id is of one part and one usage"


def test_no_price_lacks_the_skus_that_it_is_made_of():
    lacking = [(row.machine.name, known.region) for row, known in every_price() if not known.skus]
    assert lacking == []


@pytest.mark.usefixtures("reading")
def test_every_price_has_its_skus_and_a_known_day():
    counts = Counter((row.accelerator_type is not None, bool(known.skus)) for row, known in every_price())
    assert counts == {(True, True): 5819, (False, True): 8469}
    days = {"2025-08-31", "2026-04-30", "2026-07-09", "2026-07-30", "2026-09-17", "2026-10-13"}
    assert {known.date for row, known in every_price() if row.is_in(known.region)} == days


@pytest.mark.parametrize("family", ["e2", "n1", "n2", "n4"])
def test_machines_without_gpus_have_prices_outside_of_the_default_region(family):
    names = [name for name, machine in catalog.machines().items() if machine.family == family]
    assert all(price(name, None, 0, "europe-west4", way) for name in names for way in ("standard", "spot"))


def test_a_boot_disk_has_the_price_of_its_region_with_the_fee_and_its_sku():
    disk = prices.boot_disk("pd-ssd", 100, "us-central1")
    assert (disk.usd_per_hour, disk.at_most) == (pytest.approx(0.17 * 1.15 * 100 / 720, rel=1e-4), False)
    assert (disk.skus, disk.date, disk.sources) == (("A005-98FE-36CC",), "2026-04-30", ("catalog-2026-04-30",))
    by_rule = prices.boot_disk("pd-balanced", 100, "us-central1")
    assert by_rule.usd_per_hour == pytest.approx(0.10 * 1.15 * 100 / 720, rel=1e-4)
    every = [prices.boot_disk("hyperdisk-balanced", 100, region) for region in sorted(catalog.regions())]
    bounds = [each for each in every if each.at_most]
    dearest = max(each.usd_per_hour for each in every)
    assert all(each.usd_per_hour == dearest for each in [*bounds, prices.boot_disk("hyperdisk-balanced", 100, "x")])
    assert prices.boot_disk("floppy", 100, "us-central1") is None


def test_a_disk_that_the_catalog_sells_by_the_month_has_a_rate_by_the_hour():
    def sku(description, usage_unit="GiBy.mo"):
        rate = {"unitPrice": {"units": "0", "nanos": 144_000_000}}
        expression = {"usageUnit": usage_unit, "tieredRates": [rate]}
        return {
            "description": description, "skuId": "A", "serviceRegions": ["us-east4"],
            "category": {"usageType": "OnDemand"}, "pricingInfo": [{"pricingExpression": expression}],
        }  # fmt: skip

    found = skus.rates(
        [
            sku("Vertex AI: Training/Pipelines on SSD backed PD Capacity"),
            sku("Hyperdisk Balanced Capacity in Iowa"),
            sku("Balanced PD Capacity Confidential Mode in Iowa"),
        ]
    )
    assert {key: rate.usd for key, rate in found.items()} == {
        ("SSD backed PD Capacity", "us-east4", "Training"): pytest.approx(0.0002),
        ("Hyperdisk Balanced Capacity", "us-east4", "OnDemand"): pytest.approx(0.0002),
    }
