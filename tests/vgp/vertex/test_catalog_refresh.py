"""Refreshing prices and machine types, against answers in the shapes of Cloud Billing and Compute Engine."""

import hashlib
import http.server
import json
import re
import shutil
import threading
import urllib.parse
from datetime import date

import pytest
from rich.console import Console

from vgp.base.errors import RequestError, WorkFailed
from vgp.machines.catalog import catalog, fresh_figures, skus
from vgp.machines.placement import compatibility
from vgp.settings import Settings, load
from vgp.vertex import clients
from vgp.vertex.catalog_refresh import refresh


def sku(description, usage, price, regions=("us-central1",), unit="h"):
    """https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list#Sku"""
    units, nanos = divmod(round(price * 1e9), 10**9)
    name = hashlib.sha256(f"{description} {regions}".encode()).hexdigest()[:12].upper()
    sku_id = f"{name[:4]}-{name[4:8]}-{name[8:]}"
    rate = {"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": str(units), "nanos": nanos}}
    return {
        "name": f"services/6F81-5844-456A/skus/{sku_id}",
        "skuId": sku_id,
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine", "resourceFamily": "Compute", "resourceGroup": "CPU",
            "usageType": usage,
        },
        "serviceRegions": list(regions),
        "pricingInfo": [
            {
                "summary": "",
                "pricingExpression": {"usageUnit": unit, "displayQuantity": 1, "tieredRates": [rate]},
                "currencyConversionRate": 1,
                "effectiveTime": "2026-11-01T00:00:00Z",
            }
        ],
        "serviceProviderName": "Google",
    }  # fmt: skip


SKUS = [
    sku("G2 Instance Core running in Iowa", "OnDemand", 0.03),
    sku("G2 Instance Ram running in Iowa", "OnDemand", 0.003),
    sku("Nvidia L4 GPU running in Iowa", "OnDemand", 0.6),
    sku("Spot Preemptible G2 Instance Core running in Iowa", "Preemptible", 0.01),
    sku("Spot Preemptible G2 Instance Ram running in Iowa", "Preemptible", 0.001),
    sku("Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa", "Preemptible", 0.2),
    sku("G2 Custom Instance Core running in Iowa", "OnDemand", 88),
    sku("Commitment v1: G2 Instance Core in Iowa for 1 Year", "Commit1Yr", 77),
    sku("Nvidia Tesla T4 GPU running in Iowa", "OnDemand", 0.36),
    sku("Nvidia Tesla A100 80GB GPU running in Iowa", "OnDemand", 3.0),
    sku("A2 Instance Core running in Iowa", "OnDemand", 0.03),
    sku("A2 Instance Ram running in Iowa", "OnDemand", 0.004),
    sku("A3Plus Instance Core running in Americas", "OnDemand", 0.02),
    sku("A3Plus Instance Ram running in Americas", "OnDemand", 0.002),
    sku("Nvidia H100 80GB Plus GPU running in Americas", "OnDemand", 10.0),
    sku("Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode", "OnDemand", 4.8),
    sku("Nvidia H100 Mega 80GB GPU attached to DWS Defined Duration VMs running in Americas", "OnDemand", 4.4),
    sku("A3Ultra Instance Core running in Americas", "OnDemand", 0.03),
    sku("A3Ultra Instance Ram running in Americas", "OnDemand", 0.003),
    sku("H200 141GB GPU running in Americas", "OnDemand", 9.0),
    sku("G4 Instance Core running in Iowa", "OnDemand", 0.05),
    sku("G4 Instance Ram running in Iowa", "OnDemand", 0.005),
    sku("RTX 6000 96GB running in Iowa", "OnDemand", 2.0),
    sku("A4 Nvidia B200 (1 gpu slice) running in Americas", "OnDemand", 16.0),
    sku("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas", "OnDemand", 5.0),
    sku("Memory-optimized Instance Core running in Iowa", "OnDemand", 0.04),
    sku("Memory-optimized Instance Ram running in Iowa", "OnDemand", 0.006),
    sku("Memory Optimized Upgrade Premium for Memory-optimized Instance Core running in Iowa", "OnDemand", 0.01),
    sku("Compute optimized Instance Core running in Tel Aviv", "OnDemand", 0.05, ("me-west1",)),
    sku("Compute optimized Instance Ram running in Tel Aviv", "OnDemand", 0.007, ("me-west1",)),
]
# The A2 parts have no Spot SKUs on purpose: then an A2 has no Spot price.
#: Vertex AI's, with descriptions as the catalog has them: on demand, and the fee on what is paid otherwise.
OWN = [
    sku("Vertex AI: Training/Pipelines on G2 Instance Core running in Iowa", "OnDemand", 0.036),
    sku("Vertex AI: Training/Pipelines on G2 Instance Ram running in Iowa", "OnDemand", 0.0036),
    sku("Vertex AI: Training/Pipelines on Nvidia L4 GPU running in Iowa", "OnDemand", 0.72),
    sku("Vertex AI: Training/Pipelines Management fee on G2 Instance Core in Iowa", "OnDemand", 0.006),
    sku("Vertex AI: Training/Pipelines Management fee on G2 Instance RAM in Iowa", "OnDemand", 0.0006),
    sku("Vertex AI: Training/Pipelines Management fee on NVIDIA L4 in Iowa", "OnDemand", 0.12),
    sku("Vertex AI: Online/Batch Prediction Management fee on NVIDIA L4 in Iowa", "OnDemand", 55),
    sku("Vertex AI: Training/Pipelines on NVIDIA B200 in Iowa", "OnDemand", 18.4),
    sku("Vertex AI: Training Management fee on G4 Instance Core in Iowa", "OnDemand", 0.0075),
    sku("Vertex AI: Training Management fee on G4 Instance Core in Iowa ", "OnDemand", 0.0009),
    sku("Vertex AI: Training/Pipelines on Custom Instance Core running in Iowa", "OnDemand", 44),
]
SERVICES = {"/v1/services/6F81-5844-456A/skus": SKUS, "/v1/services/C7E2-9256-1C43/skus": OWN}


def machine_type(name, vcpu, memory_gb, zone, accelerator=None):
    """https://cloud.google.com/compute/docs/reference/rest/v1/machineTypes/aggregatedList"""
    row = {"kind": "compute#machineType", "name": name, "guestCpus": vcpu, "memoryMb": memory_gb * 1024, "zone": zone}
    if accelerator:
        row["accelerators"] = [{"guestAcceleratorType": accelerator, "guestAcceleratorCount": 1}]
    return row


TYPES = {
    "zones/us-central1-a": {
        "machineTypes": [
            machine_type("g2-standard-4", 4, 16, "us-central1-a", "nvidia-l4"),
            machine_type("g2-standard-8", 8, 33, "us-central1-a", "nvidia-l4"),
            machine_type("a9-ultragpu-8g", 300, 4000, "us-central1-a", "nvidia-x900"),
            machine_type("f1-micro", 1, 1, "us-central1-a"),
        ]
    },
    "zones/mars-east1-b": {"warning": {"code": "NO_RESULTS_ON_PAGE"}},
}


@pytest.fixture
def google(cloud, monkeypatch):
    """SKUs on two pages, and machine types; `status` makes it fail. Tokens are the loopback cloud's."""
    monkeypatch.setattr(clients, "CALL_S", 0.1)
    state = {"status": 200, "tokens": set()}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            url = urllib.parse.urlsplit(self.path)
            query = urllib.parse.parse_qs(url.query)
            state["tokens"].add(self.headers["Authorization"])
            if url.path in SERVICES:
                listed = SERVICES[url.path]
                half = len(listed) // 2
                later = query.get("pageToken") == ["2"]
                answer = {"skus": listed[half:] if later else listed[:half], "nextPageToken": "" if later else "2"}
            elif url.path == "/compute/v1/projects/test-project/aggregated/machineTypes":
                answer = {"kind": "compute#machineTypeAggregatedList", "items": TYPES}
            else:
                answer = None
            self.send_response(state["status"] if answer else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    for name in ("CLOUDBILLING", "COMPUTE"):
        monkeypatch.setenv(f"PIPELINES_ENDPOINTS__{name}", f"http://127.0.0.1:{server.server_port}")
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(fresh_figures.DATA, tmp_path / "data")


def shown(folder, *, write=False):
    console = Console(record=True, width=200)
    assert refresh(load(), write=write, console=console, folder=folder) == 0
    return console.export_text()


def files(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_the_difference_is_shown_and_nothing_written(google, folder, cloud):
    before = files(folder)
    text = shown(folder)
    assert files(folder) == before
    after = {
        "g2-standard-4": "0.768 on demand, 0.256 Spot",
        "a2-ultragpu-1g": "4.04 on demand, no Spot",
        "NVIDIA_TESLA_T4": "0.36 on demand, no Spot",
    }
    for name, now in after.items():
        row = fresh_figures.price_rows()[name, "us-central1"]
        was = f"{row['on_demand_usd_h']} on demand, {row['spot_usd_h']} Spot"
        assert f"price of {name} in us-central1: {was} -> {now}" in text
    assert re.search(r"ids of SKUs: \d+ known -> \d+ known, \d+ of them new", text)
    assert "shape of g2-standard-8: 8 vCPU, 32 GB -> 8 vCPU, 33 GB" in text
    assert "GPU machine a9-ultragpu-8g: new -> on Compute Engine, not in the catalog" in text
    assert "f1-micro" not in text and "Nothing was written; pass --write" in text
    assert google["tokens"] == {f"Bearer {token}" for token in cloud.tokens.given}


def test_written_prices_are_those_of_the_parts(google, folder):
    began = date.today()
    shown(folder, write=True)
    rows = fresh_figures.price_rows(folder)
    # 12 vCPU, 170 GB, 1 GPU: the 80 GB GPU, not the 40 GB one whose SKU begins alike.
    assert float(rows["a2-ultragpu-1g", "us-central1"]["on_demand_usd_h"]) == pytest.approx(12 * 0.03 + 170 * 0.004 + 3)
    assert float(rows["g2-standard-96", "us-central1"]["on_demand_usd_h"]) == pytest.approx(
        96 * 0.03 + 384 * 0.003 + 8 * 0.6
    )
    # What the answer lacks keeps its price, and where it is from.
    for key in (("g2-standard-4", "europe-west4"), ("NVIDIA_TESLA_T4", "europe-west4")):
        old = fresh_figures.price_rows()[key]
        assert rows[key] == {**old, "source": old["source"] or catalog.document("prices.json")["reading"]}
    assert rows["g2-standard-4", "us-central1"]["source"] == rows["NVIDIA_TESLA_T4", "us-central1"]["source"] == ""
    assert rows["NVIDIA_TESLA_T4", "us-central1"]["on_demand_usd_h"] == "0.36"
    prices = json.loads((folder / "prices.json").read_text())
    reading = prices["sources"][prices["reading"]]
    assert "--refresh" in reading["source"] and began <= date.fromisoformat(reading["date"]) <= date.today()
    named = {row["source"] for row in [*rows.values(), *fresh_figures.sku_rows(folder).values()]} - {""}
    assert set(prices["sources"]) == named | {prices["reading"], "flex_start"}, "what no row is from any more is gone"
    known = catalog.document("machines.json")["new_types"]
    assert json.loads((folder / "machines.json").read_text())["new_types"] == sorted({*known, "a9-ultragpu-8g"})


def test_every_price_of_the_answer_has_the_ids_of_its_skus(google, folder):
    shown(folder, write=True)
    table, asked = fresh_figures.sku_rows(folder), {each["description"]: each["skuId"] for each in SKUS}
    machines, checked = catalog.machines(), 0
    for (name, region), row in fresh_figures.price_rows(folder).items():
        if row["source"] == "":
            parts = (
                [part for part, _ in skus.parts(machines[name])] if name in machines else [skus.attachable_skus()[name]]
            )
            found = [table[part, region, "OnDemand"] for part in parts]
            found += [table[part, region, "Preemptible"] for part in parts if row["spot_usd_h"]]
            assert found and all(sku["sku"] in asked.values() and sku["source"] == "" for sku in found)
            checked += 1
    assert checked == 29
    gpu = table["Nvidia L4 GPU", "us-central1", "Preemptible"]
    assert gpu["sku"] == asked["Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa"]
    assert gpu["usd_h"] == "0.2"
    # The answer has none of it: the id stays, with where it is from.
    elsewhere = "Nvidia L4 GPU", "us-east4", "OnDemand"
    before = fresh_figures.sku_rows()[elsewhere]
    assert table[elsewhere] == {**before, "source": before["source"] or catalog.document("prices.json")["reading"]}


def test_parts_are_found_by_every_name_that_the_catalog_has_for_them(google, folder):
    shown(folder, write=True)
    rows = fresh_figures.price_rows(folder)

    def usd(name, region="us-central1"):
        row = rows[name, region]
        return float(row["on_demand_usd_h"]), row["spot_usd_h"]

    # Neither what is reserved nor Flex-start is on demand, though Google files it so.
    assert usd("a3-megagpu-8g") == (pytest.approx(208 * 0.02 + 1872 * 0.002 + 8 * 10), "")
    assert usd("a3-ultragpu-8g") == (pytest.approx(224 * 0.03 + 2952 * 0.003 + 8 * 9), "")
    assert usd("g4-standard-48") == (pytest.approx(48 * 0.05 + 180 * 0.005 + 2), "")
    # vCPU and memory are in the slice; its Spot SKU is filed as on demand.
    assert usd("a4-highgpu-8g") == (128.0, "40")
    assert usd("m1-ultramem-40") == (pytest.approx(40 * 0.04 + 961 * 0.006), "")
    assert usd("c2-standard-8", "me-west1") == (pytest.approx(8 * 0.05 + 32 * 0.007), "")


def test_what_vertex_ai_asks_for_itself_is_read_from_its_own_service(google, folder):
    shown(folder, write=True)
    table = {key: row["usd_h"] for key, row in fresh_figures.sku_rows(folder).items() if row["source"] == ""}
    own = {key: usd for key, usd in table.items() if key[2] in ("Training", "Fee")}
    assert own == {
        ("G2 Instance Core", "us-central1", "Training"): "0.036",
        ("G2 Instance Ram", "us-central1", "Training"): "0.0036",
        ("Nvidia L4 GPU", "us-central1", "Training"): "0.72",
        ("G2 Instance Core", "us-central1", "Fee"): "0.006",
        ("G2 Instance Ram", "us-central1", "Fee"): "0.0006",
        ("Nvidia L4 GPU", "us-central1", "Fee"): "0.12",
        ("A4 Nvidia B200 (1 gpu slice)", "us-central1", "Training"): "18.4",
    }, "two prices for the same words are none"


def test_a_second_refresh_finds_the_prices_unchanged(google, folder, monkeypatch):
    shown(folder, write=True)
    again = shown(folder)
    assert "price of g2" not in again and "price of a2" not in again


def test_a_new_machine_type_is_reported_once_and_named_on_request(google, folder, monkeypatch):
    machines = {**catalog.document("machines.json"), "new_types": ["a9-ultragpu-8g"]}
    documents = {"machines.json": machines}
    original = catalog.document
    monkeypatch.setattr(catalog, "document", lambda name: documents.get(name) or original(name))
    assert "a9-ultragpu-8g" not in shown(folder)
    problem = compatibility.unknown_machine("a9-ultragpu-8g")
    assert problem.message.startswith("Compute Engine has a9-ultragpu-8g; the catalog does not know")


def test_prices_that_have_not_changed_are_confirmed_after_a_month(google, folder, monkeypatch):
    monkeypatch.setattr(fresh_figures, "update_prices", lambda rows, fresh: (rows, []))
    monkeypatch.setattr(fresh_figures, "update_skus", lambda rows, fresh: (rows, []))
    monkeypatch.setattr(fresh_figures, "shapes", lambda types: [])
    monkeypatch.setattr("vgp.vertex.catalog_refresh.CONFIRMED_DAYS", 10**6)
    before = files(folder)
    shown(folder, write=True)
    assert files(folder) == before
    monkeypatch.setattr("vgp.vertex.catalog_refresh.CONFIRMED_DAYS", 0)
    began = date.today()
    shown(folder, write=True)
    reading = json.loads((folder / "prices.json").read_text())["reading"].removeprefix("catalog-")
    assert began <= date.fromisoformat(reading) <= date.today()


@pytest.mark.parametrize(("status", "words"), [(401, "not signed in"), (403, "not allowed"), (500, "answered 500")])
def test_an_api_that_refuses_writes_nothing(google, folder, status, words):
    google["status"] = status
    before = files(folder)
    with pytest.raises(WorkFailed, match=f"nothing is written: .*{words}"):
        shown(folder, write=True)
    assert files(folder) == before


def test_a_project_is_needed(folder):
    with pytest.raises(RequestError, match="--project"):
        refresh(Settings(), write=False, console=Console(), folder=folder)


def test_the_data_files_are_kept_in_the_form_that_refresh_writes():
    for name in ("machines.json", "prices.json", "accelerators.json"):
        assert fresh_figures.as_text(catalog.document(name)) == (fresh_figures.DATA / name).read_text()
