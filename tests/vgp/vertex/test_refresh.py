"""Refreshing prices and machine types, against answers in the shapes of Cloud Billing and Compute Engine."""

import http.server
import json
import shutil
import threading
import urllib.parse
from datetime import date

import pytest
from rich.console import Console

from vgp.catalog import catalog, changes
from vgp.errors import RequestError, WorkFailed
from vgp.placement import compatibility
from vgp.settings import Settings, load
from vgp.vertex import clients
from vgp.vertex.refresh import refresh


def sku(description, usage, price, regions=("us-central1",), unit="h"):
    """https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list#Sku"""
    units, nanos = divmod(round(price * 1e9), 10**9)
    rate = {"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": str(units), "nanos": nanos}}
    return {
        "name": "services/6F81-5844-456A/skus/0000-0000-0000",
        "skuId": "0000-0000-0000",
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
]
# The A2 parts have no Spot SKUs on purpose: then an A2 has no Spot price.


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
            if url.path == "/v1/services/6F81-5844-456A/skus":
                half = len(SKUS) // 2
                later = query.get("pageToken") == ["2"]
                answer = {"skus": SKUS[half:] if later else SKUS[:half], "nextPageToken": "" if later else "2"}
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
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name in ("CLOUDBILLING", "COMPUTE"):
        monkeypatch.setenv(f"PIPELINES_ENDPOINTS__{name}", f"http://127.0.0.1:{server.server_port}")
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(changes.DATA, tmp_path / "data")


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
    assert (
        "price of g2-standard-4 in us-central1: 0.706832 on demand, 0.397336 Spot -> 0.768 on demand, 0.256 Spot"
        in text
    )
    assert "2.759546 Spot -> 4.04 on demand, no Spot" in text
    assert "price of NVIDIA_TESLA_T4 in us-central1: [0.35, 0.1915] -> [0.36, None]" in text
    assert "shape of g2-standard-8: 8 vCPU, 32 GB -> 8 vCPU, 33 GB" in text
    assert "GPU machine a9-ultragpu-8g: new -> on Compute Engine, not in the catalog" in text
    assert "f1-micro" not in text and "Nothing is written; --write does." in text
    assert google["tokens"] == {f"Bearer {token}" for token in cloud.tokens.given}


def test_written_prices_are_those_of_the_parts(google, folder):
    shown(folder, write=True)
    rows = changes.price_rows(folder)
    # 12 vCPU, 170 GB, 1 GPU: the 80 GB GPU, not the 40 GB one whose SKU begins alike.
    assert float(rows["a2-ultragpu-1g", "us-central1"]["on_demand_usd_h"]) == pytest.approx(12 * 0.03 + 170 * 0.004 + 3)
    assert float(rows["g2-standard-96", "us-central1"]["on_demand_usd_h"]) == pytest.approx(
        96 * 0.03 + 384 * 0.003 + 8 * 0.6
    )
    # What the answer lacks keeps its price, and the day of it.
    old = changes.price_rows()["g2-standard-4", "europe-west4"]
    assert rows["g2-standard-4", "europe-west4"] == {**old, "date": "2026-07-30"}
    assert rows["g2-standard-4", "us-central1"]["date"] == ""
    prices = json.loads((folder / "prices.json").read_text())
    assert prices["parts"]["gpu"]["NVIDIA_TESLA_T4"]["us-central1"] == [0.36, None]
    assert "--refresh" in prices["source"] and prices["date"] == date.today().isoformat()
    assert prices["parts"]["date"] == "2026-07-09", "not all of them are in the answer"
    assert json.loads((folder / "machines.json").read_text())["new_types"] == ["a9-ultragpu-8g"]


def test_a_second_refresh_finds_the_prices_unchanged(google, folder, monkeypatch):
    shown(folder, write=True)
    again = shown(folder)
    assert "price of g2" not in again and "price of a2" not in again


def test_a_machine_type_that_is_new_is_told_once_and_named_to_who_asks_for_it(google, folder, monkeypatch):
    machines = {**catalog.document("machines.json"), "new_types": ["a9-ultragpu-8g"]}
    documents = {"machines.json": machines}
    original = catalog.document
    monkeypatch.setattr(catalog, "document", lambda name: documents.get(name) or original(name))
    assert "a9-ultragpu-8g" not in shown(folder)
    problem = compatibility.unknown_machine("a9-ultragpu-8g")
    assert problem.message.startswith("Compute Engine has a9-ultragpu-8g; whether custom training takes it")


def test_prices_that_have_not_changed_are_confirmed_after_a_month(google, folder, monkeypatch):
    monkeypatch.setattr(changes, "new_prices", lambda rows, fresh: (rows, []))
    monkeypatch.setattr(changes, "new_attached", lambda prices, fresh: [])
    monkeypatch.setattr(changes, "shapes", lambda types: [])
    monkeypatch.setattr("vgp.vertex.refresh.CONFIRMED_DAYS", 10**6)
    before = files(folder)
    shown(folder, write=True)
    assert files(folder) == before
    monkeypatch.setattr("vgp.vertex.refresh.CONFIRMED_DAYS", 0)
    shown(folder, write=True)
    assert json.loads((folder / "prices.json").read_text())["date"] == date.today().isoformat()


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
        assert changes.as_text(catalog.document(name)) == (changes.DATA / name).read_text()
