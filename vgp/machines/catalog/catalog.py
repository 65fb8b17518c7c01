"""Every machine and GPU that Vertex AI custom training accepts: the data files of `data/`, typed.

    machines()["g2-standard-24"].gpus                        # 2
    accelerator("A100-80GB").name                            # NVIDIA_A100_80GB
    machines()["n1-standard-32"].counts("NVIDIA_TESLA_T4")   # (2, 4)

Each group of facts in the files names its sources with page and date. N1's GPU counts follow from Google's caps of
vCPU and memory per count.
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
    """The quota that a GPU or a machine without GPUs uses: a number of GPUs or vCPU per region."""

    #: NVIDIA_L4, or `n2 vCPU`.
    what: str
    metric: str
    #: Quota for Spot and Flex-start; None: the same as on demand.
    preemptible_metric: str | None = None
    id: str | None = None
    preemptible_id: str | None = None
    #: Confidence in the names.
    confidence: str
    #: Default limit by region; regions outside of Google's quota table are missing.
    defaults: Mapping[str, int] = field(hash=False)


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """A value of Vertex AI's AcceleratorType."""

    name: str
    number: int
    kind: str
    #: Name in Compute Engine (nvidia-l4).
    compute_name: str = ""
    memory_gb: int = 0
    #: Beginning of the description of the SKU of one GPU, and its other name in Vertex AI's SKUs.
    sku: str = ""
    vertex_ai_sku: str = ""
    #: Oldest CUDA with kernels for the GPU, and the first CUDA without them.
    oldest_cuda: tuple[int, ...] = ()
    dropped_in_cuda: tuple[int, ...] = ()
    #: Whether plain steps may select the GPU, although no machine with it is within their limits on demand.
    only_plain_selector: bool = False
    retired: bool = False
    end_of_support: date | None = None
    #: Replacements, best first, if it is retired.
    successors: tuple[str, ...] = ()
    note: str = ""
    #: Regions that Google's locations page lists for training.
    training_regions: frozenset[str] = frozenset()
    serving_regions: frozenset[str] = frozenset()
    #: Letters of the zones with the GPU, by region; empty if they are unknown.
    zones: Mapping[str, str] = field(default_factory=dict, hash=False)
    quota: Quota | None = None
    sources: tuple[str, ...] = ()

    def is_retired(self, as_of: date) -> bool:
        return self.retired or (self.end_of_support is not None and self.end_of_support <= as_of)

    def pages_listing(self, region: str) -> int:
        """Returns the number of Google's two pages (locations, quotas) that list it for training in `region`."""
        return (region in self.training_regions) + bool(self.quota and region in self.quota.defaults)

    @property
    def regions(self) -> tuple[str, ...]:
        """Returns the regions that at least one page lists; those on both pages first."""
        listed = self.training_regions | set(self.quota.defaults if self.quota else ())
        return tuple(sorted(listed, key=lambda region: (-self.pages_listing(region), region)))

    @property
    def regions_of_both_pages(self) -> tuple[str, ...]:
        return tuple(region for region in self.regions if self.pages_listing(region) == 2)

    @property
    def regions_of_one_page(self) -> tuple[str, ...]:
        return tuple(region for region in self.regions if self.pages_listing(region) == 1)


def accelerator_key(name: str) -> str:
    """Returns the accelerator's name without maker, brand and unit: A100_80 for NVIDIA_A100_80GB."""
    words = name.upper().replace("-", "_").replace(" ", "_").split("_")
    words_kept = [word.removesuffix("GB") for word in words if word not in ("NVIDIA", "TESLA", "GPU", "GB", "")]
    return "_".join(words_kept)


def short_name(name: str) -> str:
    """Returns H100-80GB for NVIDIA_H100_80GB: the form of pipelines.toml."""
    return name.removeprefix("NVIDIA_").removeprefix("TESLA_").replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine type. `accelerator` and `gpus` are built in; N1 takes GPUs through `attachable`."""

    name: str
    family: str
    #: Beginnings of the descriptions of the SKUs of one vCPU and one GB; empty if the GPU's SKU includes both.
    skus: tuple[str, ...] = ()
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
    #: NAME=VALUE for NCCL on a machine with several GPUs.
    nccl: str | None = None
    #: Path in the container of the script that sets NCCL's variables; training commands on several machines begin with
    #: it.
    nccl_script: str | None = None
    local_ssd: str = ""
    local_ssd_gib: int = 0
    #: standard, spot, flex_start, reservation.
    provisioning: tuple[str, ...] = ()
    undocumented: tuple[str, ...] = ()
    boot_disks: tuple[str, ...] = ()
    unconfirmed_boot_disks: tuple[str, ...] = ()
    #: Regions in which Compute Engine has the type; None if unknown.
    compute_regions: tuple[str, ...] | None = None
    note: str = ""
    confidence: str = ""
    sources: tuple[str, ...] = ()

    def counts(self, accelerator_name: str) -> tuple[int, ...]:
        """Returns the counts of that accelerator that the machine accepts."""
        return self.choices.get(accelerator_name, ())

    @property
    def choices(self) -> Mapping[str, tuple[int, ...]]:
        """Returns the counts by accelerator, for every accelerator that the machine takes."""
        return {self.accelerator: (self.gpus,)} if self.accelerator else self.attachable

    @property
    def series(self) -> str:
        """Returns a2-highgpu for a2-highgpu-1g."""
        return self.name.rsplit("-", 1)[0]

    @property
    def default_boot_disk(self) -> str:
        return self.boot_disks[0]


#: Region of runs and prices without a region of their own.
DEFAULT_REGION = "us-central1"


@cache
def document(name: str) -> Any:
    return json.loads((files("vgp.machines.catalog") / "data" / name).read_text(encoding="utf-8"))


@cache
def accelerators() -> dict[str, Accelerator]:
    """Returns the accelerators by name, TPUs and retired GPUs included."""
    return {row["name"]: _parse_accelerator(row) for row in document("accelerators.json")["accelerators"]}


@cache
def machines() -> dict[str, Machine]:
    """Returns the machines by name, in the catalog's order: A2, A3, A4, A4X, G2, G4, N1, then CPU types."""
    return {row.name: row for row in _parse_machines()}


@cache
def regions() -> frozenset[str]:
    return frozenset(document("accelerators.json")["regions"])


def accelerator(name: str) -> Accelerator | None:
    """Returns the accelerator with that name or short name (L4, H100, A100-80GB, nvidia-l4); None if there is none."""
    return accelerators().get(name) or accelerators().get(short_names().get(accelerator_key(name), ""))


@cache
def short_names() -> dict[str, str]:
    """Returns full names by short name. H100 alone is the 80 GB one, A100 the 40 GB one, as Google names them."""
    keys: dict[str, str] = {}
    for row in accelerators().values():
        keys[accelerator_key(row.name)] = row.name
        keys.setdefault(accelerator_key(row.name).split("_")[0], row.name)
    keys |= {"A100": "NVIDIA_TESLA_A100", "A100_40": "NVIDIA_TESLA_A100", "H100": "NVIDIA_H100_80GB"}
    keys |= {"RTX_6000": "NVIDIA_RTX_PRO_6000", "RTX_PRO": "NVIDIA_RTX_PRO_6000", "H100_MEGA": "NVIDIA_H100_MEGA_80GB"}
    return keys


def explain_unsuitable(name: str) -> str | None:
    """Returns why a real Compute Engine type is not for training; None if the catalog does not know it."""
    rows = document("machines.json")["not_for_training"]
    return next((str(row["note"]) for row in rows if row["machine_type"] == name), None)


def is_new(name: str) -> bool:
    """Whether the name is a GPU machine of Compute Engine whose documentation the catalog does not cover yet."""
    return name in document("machines.json")["new_types"]


def source(key: str) -> Mapping[str, str]:
    """Returns page, passage and date of a source that the data files name."""
    sources: Mapping[str, Mapping[str, str]] = document("machines.json")["sources"]
    return sources[key]


@cache
def cpu_quota(family: str) -> Quota | None:
    """Returns the quota of machines without GPUs; None if Google lists none."""
    row = next((row for row in document("accelerators.json")["cpu_quotas"] if family in row["families"]), None)
    if row is None:
        return None
    limits = {region: int(limit) for limit, regions in row["regions_by_default"].items() for region in sorted(regions)}
    quota = f"{', '.join(row['families'])} vCPU"
    return Quota(what=quota, metric=row["metric"], confidence=row["confidence"], defaults=limits)


_PLAIN_FIELDS = (
    "name", "number", "kind", "compute_name", "memory_gb", "sku", "vertex_ai_sku", "only_plain_selector", "retired",
    "note", "zones",
)  # fmt: skip


def _parse_accelerator(row: JsonObject) -> Accelerator:
    ended = row.get("end_of_support")
    return Accelerator(
        **{key: row[key] for key in _PLAIN_FIELDS if key in row},
        oldest_cuda=tuple(row.get("oldest_cuda", ())),
        dropped_in_cuda=tuple(row.get("dropped_in_cuda", ())),
        successors=tuple(row.get("successors", ())),
        end_of_support=date.fromisoformat(ended) if ended else None,
        training_regions=frozenset(row.get("training_regions", ())),
        serving_regions=frozenset(row.get("serving_regions", ())),
        quota=Quota(what=row["name"], **row["quota"]) if "quota" in row else None,
        sources=tuple(row["sources"]),
    )


def _parse_machines() -> Iterator[Machine]:
    data = document("machines.json")
    for group in data["groups"]:
        shared: JsonObject = {key: tuple(value) if isinstance(value, list) else value for key, value in group.items()}
        for values in shared.pop("types"):
            row = dict(zip(data["columns"], values, strict=True))
            attachable = _attachable(row, data["attachable"]) if group["family"] == "n1" else {}
            yield Machine(name=row.pop("machine_type"), attachable=attachable, **row, **shared)


def _attachable(row: JsonObject, rule: JsonObject) -> dict[str, tuple[int, ...]]:
    """Applies the cap rule: a count is allowed if neither vCPU nor memory exceeds the limits of that count."""
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
    """Returns the zones of a region with the accelerator, such as us-central1-a; None if they are unknown."""
    row = accelerators().get(accelerator)
    letters = row.zones.get(region) if row else None
    return None if letters is None else frozenset(f"{region}-{letter}" for letter in letters)


def shared(accelerators: Iterable[str], region: str) -> frozenset[str] | None:
    """Returns the zones that have all of the accelerators; None if the zones of one are unknown."""
    known = [zones(accelerator, region) for accelerator in accelerators]
    values = [each for each in known if each is not None]
    return frozenset.intersection(*values) if values and len(values) == len(known) else None
