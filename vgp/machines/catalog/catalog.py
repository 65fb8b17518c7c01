"""Every machine and GPU that Vertex AI custom training accepts: the data files of `data/`, typed.

    machines()["g2-standard-24"].gpus                        # 2
    accelerator("A100-80GB").name                            # NVIDIA_A100_80GB
    machines()["n1-standard-32"].counts("NVIDIA_TESLA_T4")   # (2, 4)

Each group of facts in the files names its sources with page and date. N1's GPU counts are derived from Google's
caps of vCPU and memory per count; nothing is typed in twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any

from vgp.base.documents.json_text import JsonObject


@dataclass(frozen=True, kw_only=True)
class Quota:
    """What a GPU draws on, or a machine without GPUs: per region so many GPUs or vCPU."""

    #: NVIDIA_L4, or `n2 vCPU`.
    what: str
    metric: str
    #: Spot and Flex-start draw on this one; None: on the same.
    preemptible_metric: str | None = None
    id: str | None = None
    preemptible_id: str | None = None
    #: How sure the names are.
    confidence: str
    #: Default limit by region; a region that is not here is not in Google's quota table.
    defaults: Mapping[str, int] = field(hash=False)


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One value of Vertex AI's AcceleratorType."""

    name: str
    number: int
    kind: str
    #: What Compute Engine calls it (nvidia-l4).
    compute_name: str = ""
    memory_gb: int = 0
    retired: bool = False
    end_of_support: date | None = None
    #: What to take instead, best first, when it is retired.
    successors: tuple[str, ...] = ()
    note: str = ""
    #: Regions that Google's locations page lists for training.
    training_regions: frozenset[str] = frozenset()
    serving_regions: frozenset[str] = frozenset()
    quota: Quota | None = None
    sources: tuple[str, ...] = ()

    def is_retired(self, as_of: date) -> bool:
        return self.retired or (self.end_of_support is not None and self.end_of_support <= as_of)

    def pages_listing(self, region: str) -> int:
        """How many of Google's two pages (locations, quotas) list it for training in `region`."""
        return (region in self.training_regions) + bool(self.quota and region in self.quota.defaults)

    @property
    def regions(self) -> tuple[str, ...]:
        """Every region in which at least one page lists it; those of both pages first."""
        listed = self.training_regions | set(self.quota.defaults if self.quota else ())
        return tuple(sorted(listed, key=lambda region: (-self.pages_listing(region), region)))

    @property
    def regions_of_both_pages(self) -> tuple[str, ...]:
        return tuple(region for region in self.regions if self.pages_listing(region) == 2)

    @property
    def regions_of_one_page(self) -> tuple[str, ...]:
        return tuple(region for region in self.regions if self.pages_listing(region) == 1)


def accelerator_key(name: str) -> str:
    """What is left of an accelerator's name without maker, brand and unit: NVIDIA_A100_80GB -> A100_80."""
    words = name.upper().replace("-", "_").replace(" ", "_").split("_")
    kept = [word.removesuffix("GB") for word in words if word not in ("NVIDIA", "TESLA", "GPU", "GB", "")]
    return "_".join(kept)


def short_name(name: str) -> str:
    """H100-80GB of NVIDIA_H100_80GB: as people write it, in pipelines.toml too."""
    return name.removeprefix("NVIDIA_").removeprefix("TESLA_").replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """`accelerator` and `gpus` are what is built in; N1 takes GPUs through `attachable`."""

    name: str
    family: str
    vcpu: int
    memory_gb: float
    accelerator: str | None = None
    gpus: int = 0
    attachable: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    architecture: str = "x86_64"
    cpu_platform: str | None = None
    nics: int = 1
    network_gbps: int | None = None
    gpudirect: str | None = None
    #: NAME=VALUE for NCCL, with several GPUs.
    nccl: str | None = None
    #: In the container: the training command of several machines begins with it, to set NCCL's variables.
    nccl_script: str | None = None
    local_ssd: str = ""
    local_ssd_gib: int = 0
    #: standard, spot, flex_start, reservation.
    provisioning: tuple[str, ...] = ()
    undocumented: tuple[str, ...] = ()
    boot_disks: tuple[str, ...] = ()
    unconfirmed_boot_disks: tuple[str, ...] = ()
    #: Regions in which Compute Engine has the type; None where that is not known.
    compute_regions: tuple[str, ...] | None = None
    note: str = ""
    confidence: str = ""
    sources: tuple[str, ...] = ()

    def counts(self, accelerator_name: str) -> tuple[int, ...]:
        """The counts of that accelerator with which the machine can be asked for."""
        return self.choices.get(accelerator_name, ())

    @property
    def choices(self) -> Mapping[str, tuple[int, ...]]:
        """Accelerator -> counts, for every accelerator that it takes."""
        return {self.accelerator: (self.gpus,)} if self.accelerator else self.attachable

    @property
    def series(self) -> str:
        """a2-highgpu of a2-highgpu-1g."""
        return self.name.rsplit("-", 1)[0]

    @property
    def default_boot_disk(self) -> str:
        return self.boot_disks[0]


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


def _accelerator(row: JsonObject) -> Accelerator:
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
        shared: JsonObject = {key: tuple(value) if isinstance(value, list) else value for key, value in group.items()}
        for values in shared.pop("types"):
            row = dict(zip(data["columns"], values, strict=True))
            attachable = _attachable(row, data["attachable"]) if group["family"] == "n1" else {}
            yield Machine(name=row.pop("machine_type"), attachable=attachable, **row, **shared)


def _attachable(row: JsonObject, rule: JsonObject) -> dict[str, tuple[int, ...]]:
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
