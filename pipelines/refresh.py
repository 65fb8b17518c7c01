"""`pipelines machines --refresh`: prices and machine types from Google's APIs, shown as a difference before writing.

    pipelines machines --refresh --project my-project            # show what changed
    pipelines machines --refresh --project my-project --write    # write it into the catalog

Credentials: an access token in CLOUDSDK_AUTH_ACCESS_TOKEN, else what `gcloud auth print-access-token` gives. The
endpoints can be overridden as for gcloud (CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING and ..._COMPUTE).
"""

import copy
import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.errors import RequestError, WorkFailed
from pipelines.machines import billing, catalog, changes

BILLING = "https://cloudbilling.googleapis.com/"
COMPUTE = "https://compute.googleapis.com/"
TIMEOUT_S = 60


def refresh(project: str | None, *, write: bool, console: Console, folder: Path = changes.DATA) -> int:
    """Reads, shows the difference, and writes it if asked. Returns 0.

    Raises:
        RequestError: no project.
        WorkFailed: an API did not answer, or answered something else.
    """
    if not project:
        raise RequestError("--refresh needs --project: the machine types are listed for a project.")
    token = _token()
    rates = billing.rates(_skus(token))
    types = list(_machine_types(project, token))
    if not rates or not types:
        raise WorkFailed("the APIs list no prices or no machine types: nothing is written.")
    prices, machines = (copy.deepcopy(catalog.document(name)) for name in ("prices.json", "machines.json"))
    rows, found = changes.new_prices(changes.price_rows(folder), billing.machine_prices(rates))
    found += changes.new_attached(prices, billing.attached_prices(rates))
    found += changes.shapes(types)
    changes.new_regions(machines, types)
    for change in found:
        console.print(str(change), highlight=False, soft_wrap=True, markup=False)
    console.print(f"{len(found)} differences.", highlight=False)
    if write and found:
        changes.write(folder, rows, prices, machines, date.today())
        console.print(f"written to {folder}. Review it: git diff", highlight=False, soft_wrap=True)
    elif found:
        console.print("Nothing is written; --write does.", highlight=False)
    return 0


def _skus(token: str) -> Iterator[dict[str, Any]]:
    base = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING", BILLING)
    url = urllib.parse.urljoin(base, f"v1/services/{billing.COMPUTE_ENGINE}/skus")
    for page in _pages(url, {"currencyCode": "USD", "pageSize": "5000"}, token):
        yield from page.get("skus", ())


def _machine_types(project: str, token: str) -> Iterator[dict[str, Any]]:
    base = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", COMPUTE)
    path = f"compute/v1/projects/{urllib.parse.quote(project, safe='')}/aggregated/machineTypes"
    for page in _pages(urllib.parse.urljoin(base, path), {"maxResults": "500"}, token):
        for scope in page.get("items", {}).values():
            yield from scope.get("machineTypes", ())


def _pages(url: str, query: dict[str, str], token: str) -> Iterator[dict[str, Any]]:
    page_token = ""
    while True:
        more = {"pageToken": page_token} if page_token else {}
        page = _get(f"{url}?{urllib.parse.urlencode({**query, **more})}", token)
        yield page
        page_token = page.get("nextPageToken", "")
        if not page_token:
            return


def _get(url: str, token: str) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        raise WorkFailed(f"{url.split('?')[0]} answered {error.code} {error.reason}: nothing is written.") from None
    except (urllib.error.URLError, TimeoutError, ValueError) as error:
        raise WorkFailed(f"{url.split('?')[0]}: {error}: nothing is written.") from None


def _token() -> str:
    token = os.environ.get("CLOUDSDK_AUTH_ACCESS_TOKEN")
    if token:
        return token
    command = ["gcloud", "auth", "print-access-token"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        raise WorkFailed(
            "no credentials: run `gcloud auth login`, or put an access token into CLOUDSDK_AUTH_ACCESS_TOKEN."
        ) from None
