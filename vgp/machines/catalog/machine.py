"""One machine type of custom training: its size, the accelerators that it takes, and how it is offered."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
