"""Every machine and GPU that Vertex AI custom training accepts: the data files of `data/`, typed.

machines()["g2-standard-24"].gpus            # 2
    accelerator("A100-80GB").name                # NVIDIA_A100_80GB
    machines()["n1-standard-32"].counts("NVIDIA_TESLA_T4")   # (2, 4)

Each group of facts in the files names its sources with page and date. N1's GPU counts are derived from Google's
caps of vCPU and memory per count; nothing is typed in twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any

from vgp.machines.catalog.hardware import Accelerator, Machine, Quota, accelerator_key

#: Where a run is, and a price is from, that names no region.
DEFAULT_REGION = "us-central1"


@cache
def document(name: str) -> Any:
    return json.loads((files("vgp.machines.catalog") / "data" / name).read_text(encoding="utf-8"))


@cache
def accelerators() -> dict[str, Accelerator]:
    """Name -> accelerator, TPUs and retired GPUs included."""
    return {row["name"]: _accelerator(row) for row in document("accelerators.json")["accelerators"]}


@cache
def machines() -> dict[str, Machine]:
    """Name -> machine, in the order of the catalog: A2, A3, A4, A4X, G2, G4, N1, then CPU types."""
    return {row.name: row for row in _machines()}


@cache
def regions() -> frozenset[str]:
    return frozenset(document("accelerators.json")["regions"])


def accelerator(name: str) -> Accelerator | None:
    """The accelerator of that name, also short (L4, H100, A100-80GB, nvidia-l4); None where there is none."""
    return accelerators().get(name) or accelerators().get(short_names().get(accelerator_key(name), ""))


@cache
def short_names() -> dict[str, str]:
    """Short name -> full name. A bare H100 is the 80 GB one, a bare A100 the 40 GB one, as Google names them."""
    keys: dict[str, str] = {}
    for row in accelerators().values():
        keys[accelerator_key(row.name)] = row.name
        keys.setdefault(accelerator_key(row.name).split("_")[0], row.name)
    keys |= {"A100": "NVIDIA_TESLA_A100", "A100_40": "NVIDIA_TESLA_A100", "H100": "NVIDIA_H100_80GB"}
    keys |= {"RTX_6000": "NVIDIA_RTX_PRO_6000", "RTX_PRO": "NVIDIA_RTX_PRO_6000", "H100_MEGA": "NVIDIA_H100_MEGA_80GB"}
    return keys


def not_for_training(name: str) -> str | None:
    """Why a real Compute Engine type is no training machine, where the catalog knows it."""
    rows = document("machines.json")["not_for_training"]
    return next((str(row["note"]) for row in rows if row["machine_type"] == name), None)


def is_new(name: str) -> bool:
    """Whether Compute Engine was seen to have a GPU machine of that name, of which no page was read yet."""
    return name in document("machines.json")["new_types"]


def source(key: str) -> Mapping[str, str]:
    """Page, where it was read, and date of a source that the data files name."""
    sources: Mapping[str, Mapping[str, str]] = document("machines.json")["sources"]
    return sources[key]


@cache
def cpu_quota(family: str) -> Quota | None:
    """The quota of machines without GPUs, None where Google lists none."""
    row = next((row for row in document("accelerators.json")["cpu_quotas"] if family in row["families"]), None)
    if row is None:
        return None
    limits = {region: int(limit) for limit, regions in row["regions_by_default"].items() for region in sorted(regions)}
    what = f"{', '.join(row['families'])} vCPU"
    return Quota(what=what, metric=row["metric"], confidence=row["confidence"], defaults=limits)


def _accelerator(row: dict[str, Any]) -> Accelerator:
    ended = row.get("end_of_support")
    return Accelerator(
        **{key: row[key] for key in ("name", "number", "kind", "compute_name", "memory_gb") if key in row},
        **{key: row[key] for key in ("retired", "note") if key in row},
        successors=tuple(row.get("successors", ())),
        end_of_support=date.fromisoformat(ended) if ended else None,
        training_regions=frozenset(row.get("training_regions", ())),
        serving_regions=frozenset(row.get("serving_regions", ())),
        quota=Quota(what=row["name"], **row["quota"]) if "quota" in row else None,
        sources=tuple(row["sources"]),
    )


def _machines() -> Iterator[Machine]:
    data = document("machines.json")
    for group in data["groups"]:
        shared: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in group.items()
        }
        for values in shared.pop("types"):
            row = dict(zip(data["columns"], values, strict=True))
            attachable = _attachable(row, data["attachable"]) if group["family"] == "n1" else {}
            yield Machine(name=row.pop("machine_type"), attachable=attachable, **row, **shared)


def _attachable(row: dict[str, Any], rule: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The cap rule: a count is allowed when neither vCPU nor memory passes what that count may have."""
    allowed = {
        name: tuple(
            int(count)
            for count, (max_vcpu, max_memory_gb) in caps.items()
            if row["vcpu"] <= max_vcpu and row["memory_gb"] <= max_memory_gb
        )
        for name, caps in rule["max_vcpu_and_memory_gb"].items()
    }
    return {name: counts for name, counts in allowed.items() if counts}


def zones(accelerator: str, region: str) -> frozenset[str] | None:
    """The names of the zones, as us-central1-a; None where they are not known."""
    letters = document("zones.json")["zones"].get(accelerator, {}).get(region)
    return None if letters is None else frozenset(f"{region}-{letter}" for letter in letters)


def shared(accelerators: Iterable[str], region: str) -> frozenset[str] | None:
    """The zones that have all of them; None where those of one are not known."""
    known = [zones(accelerator, region) for accelerator in accelerators]
    found = [each for each in known if each is not None]
    return frozenset.intersection(*found) if found and len(found) == len(known) else None
