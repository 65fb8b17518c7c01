"""Every machine and GPU that Vertex AI custom training accepts: the data files of `data/`, typed.

    machine("g2-standard-24").gpus            # 2
    accelerator("A100-80GB").name             # NVIDIA_A100_80GB
    machine("n1-standard-32").counts("NVIDIA_TESLA_T4")   # (2, 4)

Each group of facts in the files names its sources with page and date. N1's GPU counts are derived from Google's
caps of vCPU and memory per count; nothing is typed in twice.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any

from vgp.catalog.names import MAX_NAME, Unknown, accelerator_key, closest, nearest


@dataclass(frozen=True, kw_only=True)
class Quota:
    """The Vertex AI quota that a GPU draws on; units are GPUs per region."""

    metric: str
    #: Spot and Flex-start draw on this one.
    preemptible_metric: str
    id: str | None
    preemptible_id: str | None
    confidence: str
    #: Default limit by region; a region that is not here is not in Google's quota table.
    defaults: Mapping[str, int]


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


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One machine type. `accelerator` and `gpus` are what is built in; N1 takes GPUs through `attachable`."""

    name: str
    family: str
    vcpu: int
    memory_gb: float
    accelerator: str | None = None
    gpus: int = 0
    gpu_memory_gb: int = 0
    attachable: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    architecture: str = "x86_64"
    cpu_platform: str | None = None
    nics: int = 1
    network_gbps: int | None = None
    gpudirect: str | None = None
    nccl: str | None = None
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
        if self.accelerator:
            return (self.gpus,) if accelerator_name == self.accelerator else ()
        return self.attachable.get(accelerator_name, ())

    @property
    def choices(self) -> dict[str, tuple[int, ...]]:
        """Accelerator -> counts, for every accelerator that it takes."""
        if self.accelerator:
            return {self.accelerator: (self.gpus,)}
        return dict(self.attachable)

    @property
    def default_boot_disk(self) -> str:
        return self.boot_disks[0]


class UnknownMachine(Unknown):
    """No machine of custom training has that name."""


class UnknownAccelerator(Unknown):
    """No accelerator has that name, short or long."""


@cache
def document(name: str) -> Any:
    return json.loads((files("vgp.catalog") / "data" / name).read_text(encoding="utf-8"))


@cache
def accelerators() -> dict[str, Accelerator]:
    """Name -> accelerator, TPUs and retired GPUs included."""
    return {row["name"]: _accelerator(row) for row in document("accelerators.json")["accelerators"]}


@cache
def machines() -> dict[str, Machine]:
    """Name -> machine, in the order of the catalog: A2, A3, A4, A4X, G2, G4, N1, then CPU types."""
    return {row.name: row for row in _machines()}


@cache
def combinations() -> tuple[tuple[str, str, int], ...]:
    """Every (machine, accelerator, count) that custom training accepts."""
    return tuple(
        (row.name, name, count)
        for row in machines().values()
        for name, counts in row.choices.items()
        for count in counts
    )


@cache
def counts_of(accelerator_name: str) -> tuple[int, ...]:
    """Every count in which some machine takes the accelerator."""
    return tuple(sorted({row[2] for row in combinations() if row[1] == accelerator_name}))


@cache
def regions() -> frozenset[str]:
    return frozenset(document("accelerators.json")["regions"])


def machine(name: str) -> Machine:
    """The machine of that name; raises UnknownMachine with the nearest name."""
    found = machines().get(name)
    if found is None:
        from vgp.placement.nearest import nearest_machine

        near = nearest_machine(name, has_gpu=False)
        raise UnknownMachine(f"No machine is called '{name}'. {f'Nearest: {near}.' if near else nearest(name, ())}")
    return found


def accelerator(name: str) -> Accelerator:
    """The accelerator of that name, also short (L4, H100, A100-80GB, nvidia-l4); raises UnknownAccelerator."""
    if name in accelerators():
        return accelerators()[name]
    found = short_names().get(accelerator_key(name))
    if found is None:
        near = did_you_mean_accelerator(name)
        hint = f"Nearest: {near}." if near else nearest(name, ())
        raise UnknownAccelerator(f"No accelerator is called '{name}'. {hint}")
    return accelerators()[found]


def did_you_mean_accelerator(name: str) -> str | None:
    """The nearest accelerator name: by its short name first, then by spelling."""
    if len(name) > MAX_NAME:
        return None
    found = short_names().get(accelerator_key(name))
    return found or closest(name.upper(), accelerators()) or short_names().get(_near_key(name))


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
    return next((row["note"] for row in rows if row["machine_type"] == name), None)


def is_tpu(machine_type: str) -> bool:
    return machine_type in document("machines.json")["tpu"]["types"]


def source(key: str) -> dict[str, str]:
    """Page, where it was read, and date of a source that the data files name."""
    return document("machines.json")["sources"][key]


def cpu_quota(family: str) -> dict[str, Any] | None:
    """Metric and default limits (vCPU by region) of a CPU family, None where Google lists none."""
    rows = document("accelerators.json")["cpu_quotas"]
    return next((row for row in rows if family in row["families"]), None)


def _near_key(name: str) -> str:
    return closest(accelerator_key(name), short_names(), cutoff=0.5) or ""


def _accelerator(row: dict[str, Any]) -> Accelerator:
    ended = row.get("end_of_support")
    return Accelerator(
        **{key: row[key] for key in ("name", "number", "kind", "compute_name", "memory_gb") if key in row},
        **{key: row[key] for key in ("retired", "note") if key in row},
        successors=tuple(row.get("successors", ())),
        end_of_support=date.fromisoformat(ended) if ended else None,
        training_regions=frozenset(row.get("training_regions", ())),
        serving_regions=frozenset(row.get("serving_regions", ())),
        quota=Quota(**row["quota"]) if "quota" in row else None,
        sources=tuple(row["sources"]),
    )


def _machines() -> Iterator[Machine]:
    data = document("machines.json")
    for group in data["groups"]:
        shared = _shared(group)
        for values in group["types"]:
            row = dict(zip(data["columns"], values, strict=True))
            name = row.pop("machine_type")
            attachable = _attachable(row, data["attachable"]) if group["family"] == "n1" else {}
            each = accelerators()[group["accelerator"]].memory_gb if "accelerator" in group else 0
            yield Machine(name=name, attachable=attachable, gpu_memory_gb=each, **row, **shared)


def _shared(group: dict[str, Any]) -> dict[str, Any]:
    """The fields that all machines of a group have in common."""
    values = {key: value for key, value in group.items() if key != "types"}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


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
