"""One accelerator of Vertex AI: its memory, its regions, its end, and the quota that it draws on."""

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
