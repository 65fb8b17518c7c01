"""The changes that fresh figures make to the catalog's data files: first the difference, then, on request, the
files."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from vgp.base import whole_files
from vgp.base.documents.json_text import JsonObject
from vgp.machines.catalog import catalog, skus
from vgp.machines.catalog.skus import COMPUTE_ENGINE, VERTEX_AI, MachinePrice, Rates

DATA = Path(__file__).parent / "data"
_COLUMNS = ("machine_type", "region", "on_demand_usd_h", "spot_usd_h", "local_ssd_usd_h", "source")
_INNERMOST = re.compile(r"\[\s+([^\[\]{}]*?)\s+\]")

#: Prefix of the change for a new machine type.
_NEW = "GPU machine "

Rows = dict[tuple[str, str], dict[str, str]]
SkuRows = dict[tuple[str, str, str], dict[str, str]]


@dataclass(frozen=True)
class Change:
    """A fact that differs; `before` is empty for a new fact."""

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what}: {self.before or 'new'} -> {self.after}"


def price_rows(folder: Path = DATA) -> Rows:
    with (folder / "prices.csv").open(encoding="utf-8", newline="") as file:
        return {(row["machine_type"], row["region"]): row for row in csv.DictReader(file)}


def sku_rows(folder: Path = DATA) -> SkuRows:
    with (folder / "skus.csv").open(encoding="utf-8", newline="") as file:
        return {(row["part"], row["region"], row["usage"]): row for row in csv.DictReader(file)}


def update_skus(rows: SkuRows, fresh: Rates) -> tuple[SkuRows, list[Change]]:
    """Returns the rows with fresh ids and prices of SKUs, and the number of new ids. Rows without fresh data stay."""
    result = {key: {**row, "source": row["source"] or _read_date()} for key, row in rows.items()}
    for key, rate in sorted(fresh.items()):
        if rate.sku:
            values = (*key, rate.sku, _format_number(rate.usd, 9), "")
            result[key] = dict(zip(skus.COLUMNS, values, strict=True))
    new = sum(rows.get(key, {}).get("sku") != row["sku"] for key, row in result.items())
    changes = [Change("ids of SKUs", f"{len(rows)} known", f"{len(result)} known, {new} of them new")] if new else []
    return result, changes


def update_prices(rows: Rows, fresh: Mapping[tuple[str, str], MachinePrice]) -> tuple[Rows, list[Change]]:
    """Returns the rows with fresh prices, and the changes. Rows without fresh data keep price and source."""
    reading = _read_date()
    result = {key: row if key in fresh else {**row, "source": row["source"] or reading} for key, row in rows.items()}
    changes = []
    for key, price in sorted(fresh.items()):
        after = {
            "machine_type": key[0],
            "region": key[1],
            "on_demand_usd_h": _format_number(price.on_demand),
            "spot_usd_h": "" if price.spot is None else _format_number(price.spot),
            # The sums of parts do not include local SSD.
            "local_ssd_usd_h": "0",
            "source": "",
        }
        before = rows.get(key)
        if before is not None and _is_same_price(before, after):
            result[key] = {**before, "source": ""}
            continue
        result[key] = after
        changes.append(
            Change(f"price of {key[0]} in {key[1]}", _format_row(before) if before else "", _format_row(after))
        )
    return result, changes


def shapes(fresh: Iterable[JsonObject]) -> list[Change]:
    """Returns the differences between Compute Engine's machine types and the catalog, and the new GPU types.

    They are only reported: the types that training accepts are in the documentation, not in an API.
    """
    rows, changes = list(fresh), {}
    for row in rows:
        name = str(row.get("name", ""))
        known = catalog.machines().get(name)
        if known is None:
            if row.get("accelerators") and not catalog.explain_unsuitable(name) and not catalog.is_new(name):
                changes[name] = Change(f"{_NEW}{name}", "", "on Compute Engine, not in the catalog")
            continue
        now = f"{row.get('guestCpus')} vCPU, {float(row.get('memoryMb', 0)) / 1024:g} GB"
        before = f"{known.vcpu} vCPU, {known.memory_gb:g} GB"
        if now != before:
            changes[name] = Change(f"shape of {name}", before, now)
    return [*changes.values(), *_list_moves(_regions(rows))]


def _regions(fresh: Iterable[JsonObject]) -> dict[str, set[str]]:
    """Returns the regions by machine type."""
    regions: dict[str, set[str]] = {}
    for row in fresh:
        zone = str(row.get("zone", "")).rsplit("/", 1)[-1]
        regions.setdefault(str(row.get("name", "")), set()).add(re.sub(r"-[a-z]$", "", zone))
    return regions


def _list_moves(regions: Mapping[str, set[str]]) -> list[Change]:
    changes = []
    for name, places in sorted(regions.items()):
        known = catalog.machines().get(name)
        if known is not None and known.compute_regions is not None and set(known.compute_regions) != places:
            before, after = ", ".join(known.compute_regions), ", ".join(sorted(places))
            changes.append(Change(f"regions of {name}", before, after))
    return changes


def update_regions(machines: JsonObject, fresh: Iterable[JsonObject]) -> None:
    """Updates the regions in the groups of machines.json, where all types of a group agree."""
    places = _regions(fresh)
    for group in machines["groups"]:
        regions = [places[values[0]] for values in group["types"] if values[0] in places]
        if regions and "compute_regions" in group:
            group["compute_regions"] = sorted(set.intersection(*regions))


def add_types(machines: JsonObject, changes: Iterable[Change]) -> None:
    """Adds the missing GPU machines to machines.json, so that each is reported once."""
    names = {change.what.removeprefix(_NEW) for change in changes if change.what.startswith(_NEW)}
    machines["new_types"] = sorted({*machines["new_types"], *names})


def write(folder: Path, rows: Rows, sku_ids: SkuRows, prices: JsonObject, machines: JsonObject, day: date) -> None:
    """Writes the data files atomically. Rows without a source get this day as their source."""
    reading = f"catalog-{day.isoformat()}"
    used = {row["source"] for table in (rows, sku_ids) for row in table.values()} | {"flex_start"}
    prices["sources"] = {key: source for key, source in prices["sources"].items() if key in used}
    prices["sources"][reading] = {
        "date": day.isoformat(),
        "page": "https://cloud.google.com/skus",
        "source": f"Cloud Billing catalog, services/{COMPUTE_ENGINE} and {VERTEX_AI}, by `vgp machines --refresh`",
    }
    prices["reading"] = reading
    machines["sources"]["compute-regions"]["date"] = day.isoformat()
    whole_files.write(folder / "prices.csv", _as_csv(_COLUMNS, rows.values()))
    whole_files.write(folder / "skus.csv", _as_csv(skus.COLUMNS, sku_ids.values()))
    whole_files.write(folder / "prices.json", as_text(prices))
    whole_files.write(folder / "machines.json", as_text(machines))


def _as_csv(columns: tuple[str, ...], rows: Iterable[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _read_date() -> str:
    return str(catalog.document("prices.json")["reading"])


def as_text(data: object) -> str:
    """Returns JSON with one line for each innermost list, the format of the files."""
    return _INNERMOST.sub(_join_lines, json.dumps(data, indent=1)) + "\n"


def _join_lines(match: re.Match[str]) -> str:
    items = " ".join(match.group(1).split())
    return f"[{items}]"


def _format_number(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def _is_same_price(before: dict[str, str], after: dict[str, str]) -> bool:
    """Whether the prices are equal within a millionth of a dollar, without the local SSD of the old price."""
    old = float(before["on_demand_usd_h"]) - float(before["local_ssd_usd_h"])
    spots = before["spot_usd_h"], after["spot_usd_h"]
    equal_spot = spots[0] == spots[1] or (all(spots) and abs(float(spots[0]) - float(spots[1])) < 2e-6)
    return abs(old - float(after["on_demand_usd_h"])) < 2e-6 and equal_spot


def _format_row(row: dict[str, str]) -> str:
    return f"{row['on_demand_usd_h']} on demand, {row['spot_usd_h'] or 'no'} Spot"
