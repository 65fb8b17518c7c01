"""One machine type and one accelerator of Vertex AI: size, memory, regions, end, quota, speed, offers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date


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


#: Dense bfloat16 peak in TFLOP/s by the name of the accelerator, float16 where it has no bfloat16; sources and dates
#: beside the same figures in vgp/train/loop/progress.py, to which a test holds these. What is missing (P4, P100, RTX
#: PRO 6000) has none there.
_TFLOPS = {
    "NVIDIA_GB200": 2500.0,
    "NVIDIA_B200": 2250.0,
    "NVIDIA_H200_141GB": 989.5,
    "NVIDIA_H100_80GB": 989.5,
    "NVIDIA_H100_MEGA_80GB": 989.5,
    "NVIDIA_A100_80GB": 312.0,
    "NVIDIA_TESLA_A100": 312.0,
    "NVIDIA_L4": 121.0,
    "NVIDIA_TESLA_V100": 125.0,
    "NVIDIA_TESLA_T4": 65.0,
}


def peak_tflops(accelerator: str | None) -> float | None:
    """Of one GPU; None where that is not known."""
    return _TFLOPS.get(accelerator or "")


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
