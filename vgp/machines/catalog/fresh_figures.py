"""What fresh figures change in the catalog's data files: the difference first, then the files, if asked."""

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

#: How the change of a machine type that is new begins.
_NEW = "GPU machine "

Rows = dict[tuple[str, str], dict[str, str]]
SkuRows = dict[tuple[str, str, str], dict[str, str]]


@dataclass(frozen=True)
class Change:
    """One fact that differs; `before` empty: new."""

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


def new_skus(rows: SkuRows, fresh: Rates) -> tuple[SkuRows, list[Change]]:
    """The rows with the ids and prices of the fresh SKUs, and how many ids are new. What the fresh data lacks stays."""
    result = {key: {**row, "source": row["source"] or _reading()} for key, row in rows.items()}
    for key, rate in sorted(fresh.items()):
        if rate.sku:
            values = (*key, rate.sku, _number(rate.usd, 9), "")
            result[key] = dict(zip(skus.COLUMNS, values, strict=True))
    new = sum(rows.get(key, {}).get("sku") != row["sku"] for key, row in result.items())
    changes = [Change("ids of SKUs", f"{len(rows)} known", f"{len(result)} known, {new} of them new")] if new else []
    return result, changes


def new_prices(rows: Rows, fresh: Mapping[tuple[str, str], MachinePrice]) -> tuple[Rows, list[Change]]:
    """The rows with the fresh prices, and what changed. Rows that the fresh data lacks keep price and source."""
    reading = _reading()
    result = {key: row if key in fresh else {**row, "source": row["source"] or reading} for key, row in rows.items()}
    changes = []
    for key, price in sorted(fresh.items()):
        after = {
            "machine_type": key[0],
            "region": key[1],
            "on_demand_usd_h": _number(price.on_demand),
            "spot_usd_h": "" if price.spot is None else _number(price.spot),
            # The sums of parts have no local SSD in them.
            "local_ssd_usd_h": "0",
            "source": "",
        }
        before = rows.get(key)
        if before is not None and _same(before, after):
            result[key] = {**before, "source": ""}
            continue
        result[key] = after
        changes.append(Change(f"price of {key[0]} in {key[1]}", _shown(before) if before else "", _shown(after)))
    return result, changes


def shapes(fresh: Iterable[JsonObject]) -> list[Change]:
    """What Compute Engine says of our machine types that the catalog says differently, and new GPU types.

    These are only shown: which types training takes is in the documentation alone, in no API.
    """
    rows, changes = list(fresh), {}
    for row in rows:
        name = str(row.get("name", ""))
        known = catalog.machines().get(name)
        if known is None:
            if row.get("accelerators") and not catalog.not_for_training(name) and not catalog.is_new(name):
                changes[name] = Change(f"{_NEW}{name}", "", "on Compute Engine, not in the catalog")
            continue
        now = f"{row.get('guestCpus')} vCPU, {float(row.get('memoryMb', 0)) / 1024:g} GB"
        before = f"{known.vcpu} vCPU, {known.memory_gb:g} GB"
        if now != before:
            changes[name] = Change(f"shape of {name}", before, now)
    return [*changes.values(), *_moved(_regions(rows))]


def _regions(fresh: Iterable[JsonObject]) -> dict[str, set[str]]:
    """Machine type -> the regions of the zones that have it."""
    regions: dict[str, set[str]] = {}
    for row in fresh:
        zone = str(row.get("zone", "")).rsplit("/", 1)[-1]
        regions.setdefault(str(row.get("name", "")), set()).add(re.sub(r"-[a-z]$", "", zone))
    return regions


def _moved(regions: Mapping[str, set[str]]) -> list[Change]:
    changes = []
    for name, places in sorted(regions.items()):
        known = catalog.machines().get(name)
        if known is not None and known.compute_regions is not None and set(known.compute_regions) != places:
            before, after = ", ".join(known.compute_regions), ", ".join(sorted(places))
            changes.append(Change(f"regions of {name}", before, after))
    return changes


def new_regions(machines: JsonObject, fresh: Iterable[JsonObject]) -> None:
    """Puts the regions of Compute Engine into the groups of machines.json, where all types of a group agree."""
    places = _regions(fresh)
    for group in machines["groups"]:
        regions = [places[values[0]] for values in group["types"] if values[0] in places]
        if regions and "compute_regions" in group:
            group["compute_regions"] = sorted(set.intersection(*regions))


def new_types(machines: JsonObject, found: Iterable[Change]) -> None:
    """Notes the GPU machines that the catalog lacks in machines.json, so that each is told once."""
    names = {change.what.removeprefix(_NEW) for change in found if change.what.startswith(_NEW)}
    machines["new_types"] = sorted({*machines["new_types"], *names})


def write(folder: Path, rows: Rows, sku_ids: SkuRows, prices: JsonObject, machines: JsonObject, day: date) -> None:
    """Writes the data files, each whole or not at all. Rows without a source are of this day's reading."""
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


def _reading() -> str:
    return str(catalog.document("prices.json")["reading"])


def as_text(data: object) -> str:
    """JSON with a line for each innermost list, as the files are kept."""
    return _INNERMOST.sub(_on_one_line, json.dumps(data, indent=1)) + "\n"


def _on_one_line(match: re.Match[str]) -> str:
    items = " ".join(match.group(1).split())
    return f"[{items}]"


def _number(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def _same(before: dict[str, str], after: dict[str, str]) -> bool:
    """Equal within a millionth of a dollar, local SSD taken out of the old price."""
    old = float(before["on_demand_usd_h"]) - float(before["local_ssd_usd_h"])
    spots = before["spot_usd_h"], after["spot_usd_h"]
    equal_spot = spots[0] == spots[1] or (all(spots) and abs(float(spots[0]) - float(spots[1])) < 2e-6)
    return abs(old - float(after["on_demand_usd_h"])) < 2e-6 and equal_spot


def _shown(row: dict[str, str]) -> str:
    return f"{row['on_demand_usd_h']} on demand, {row['spot_usd_h'] or 'no'} Spot"
