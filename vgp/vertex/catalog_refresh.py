"""`vgp machines --refresh`: updates the catalog's prices and machine types from Google's APIs.

vgp machines --refresh --project my-project            # show the changes
vgp machines --refresh --project my-project --write    # write the changes into the catalog
"""

import copy
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from rich.console import Console

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.machines.catalog import catalog, fresh_figures, skus
from vgp.settings import Settings
from vgp.vertex import clients, rest
from vgp.vertex.google_errors import explain_errors

#: The timeout of one page, which may hold 5,000 prices, seconds.
PAGE_S = 60.0
#: The date of unchanged prices is renewed after this many days.
CONFIRMED_DAYS = 30


def refresh(settings: Settings, *, write: bool, console: Console, folder: Path = fresh_figures.DATA) -> int:
    """Prints the differences between the catalog and Google's APIs, and with `write` applies them. Returns 0.

    Raises:
        RequestError: no project is set.
        WorkFailed: an API returned no prices or no machine types.
    """
    if not settings.project:
        raise RequestError(
            "--refresh needs --project PROJECT, or project in pipelines.toml: Google lists machine types for a project."
        )
    with explain_errors("nothing is written", settings):
        rates = skus.rates(_skus(settings))
        types = list(_machine_types(settings))
    if not rates or not types:
        raise WorkFailed("the APIs list no prices or no machine types, so nothing was written. Try again later.")
    prices, machines = (copy.deepcopy(catalog.document(name)) for name in ("prices.json", "machines.json"))
    rows, differences = fresh_figures.update_prices(fresh_figures.price_rows(folder), skus.machine_prices(rates))
    sku_ids, sku_differences = fresh_figures.update_skus(fresh_figures.sku_rows(folder), rates)
    differences += sku_differences
    differences += (shapes := fresh_figures.shapes(types))
    fresh_figures.add_types(machines, shapes)
    fresh_figures.update_regions(machines, types)
    for change in differences:
        console.print(str(change), highlight=False, soft_wrap=True, markup=False)
    console.print(f"{len(differences)} differences.", highlight=False)
    today = date.today()
    confirmed = date.fromisoformat(prices["sources"][prices["reading"]]["date"])
    if write and (differences or (today - confirmed).days >= CONFIRMED_DAYS):
        fresh_figures.write(folder, rows, sku_ids, prices, machines, today)
        console.print(f"written to {folder}. Review it: git diff", highlight=False, soft_wrap=True)
    elif differences:
        console.print("Nothing was written; pass --write to write the changes.", highlight=False)
    return 0


def _skus(settings: Settings) -> Iterator[JsonObject]:
    """Yields the SKUs, https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list"""
    query = {"currencyCode": "USD", "pageSize": 5000}
    for service in (skus.COMPUTE_ENGINE, skus.VERTEX_AI):
        for page in _read_pages(settings, "cloudbilling", f"v1/services/{service}/skus", query):
            yield from page.get("skus", ())


def _machine_types(settings: Settings) -> Iterator[JsonObject]:
    """Yields the machine types, https://cloud.google.com/compute/docs/reference/rest/v1/machineTypes/aggregatedList"""
    path = f"compute/v1/projects/{settings.project}/aggregated/machineTypes"
    for page in _read_pages(settings, "compute", path, {"maxResults": 500}):
        for scope in page.get("items", {}).values():
            yield from scope.get("machineTypes", ())


def _read_pages(settings: Settings, api: str, path: str, query: JsonObject) -> Iterator[JsonObject]:
    return rest.pages(settings, api, path, query=query, retry=clients.reading()["retry"], timeout=PAGE_S)
