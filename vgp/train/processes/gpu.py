"""The GPUs of this machine: whether PyTorch can compute on them; their use, memory and temperature.

The figures come from NVIDIA's management library, without a package: https://docs.nvidia.com/deploy/nvml-api/; that it
works was not measured on a GPU, only against a library of our own.
"""

import ctypes
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from vgp.base.exits import UserError


def require_usable(device: torch.device, gpus: int) -> None:
    """Raises UserError if the machine has GPUs that PyTorch cannot use.

    Args:
        device: What PyTorch computes on.
        gpus: GPUs that the driver shows to this process.
    """
    if device.type == "cpu" and gpus and not torch.version.hip:
        raise UserError(
            f"this machine has {gpus} GPUs, and PyTorch {torch.__version__} cannot use them: "
            + ("it was built without CUDA" if torch.version.cuda is None else "their driver is too old for its CUDA")
            + ". Take another image, or set CUDA_VISIBLE_DEVICES= (empty) to train on the CPU."
        )
    if device.type == "cuda" and not torch.version.hip:
        capability = torch.cuda.get_device_capability(device)
        if not covers(torch.cuda.get_arch_list(), capability):
            raise UserError(sentence(torch.cuda.get_device_name(device), capability))


def covers(architectures: Sequence[str], capability: tuple[int, int]) -> bool:
    """Whether kernels for these architectures run on a GPU of this capability; true where none are listed.

    Machine code (`sm_86`) runs on the same major and no smaller minor number, intermediate code (`compute_86`) on all
    that are newer; with the letter a, on that GPU alone
    (https://docs.nvidia.com/cuda/blackwell-compatibility-guide/).
    """
    return not architectures or any(_runs(name, capability) for name in architectures)


def sentence(gpu: str, capability: tuple[int, int]) -> str:
    there = ", ".join(torch.cuda.get_arch_list())
    return (
        f"this image's PyTorch {torch.__version__} has kernels for {there}; the GPU, {gpu}, is "
        f"sm_{capability[0]}{capability[1]}, on which none of them runs. Take an image with a PyTorch for this GPU, or "
        "another GPU."
    )


def _runs(architecture: str, capability: tuple[int, int]) -> bool:
    parts = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", architecture)
    if not parts:
        return False
    kind, has, letter = parts[1], (int(parts[2]), int(parts[3])), parts[4]
    if letter == "a":
        return has == capability
    if kind == "compute" and not letter:
        return has <= capability
    return has[0] == capability[0] and has[1] <= capability[1]


NAN = float("nan")


@dataclass(frozen=True)
class Reading:
    """One look at a GPU; nan is what the driver does not tell."""

    #: Share of the last moments in which a kernel ran, in percent.
    use: float = NAN
    memory_bytes: float = NAN
    memory_total_bytes: float = NAN
    celsius: float = NAN


class _Use(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Gpu:
    """One GPU, by the identity that CUDA gives it: its number may be another one here."""

    def __init__(self, uuid: str, library: str = "libnvidia-ml.so.1"):
        self.handle = ctypes.c_void_p()
        self.library: ctypes.CDLL | None = None
        try:
            self.library = ctypes.CDLL(library)
        except OSError:
            return
        name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
        if not (
            self._call("nvmlInit_v2")
            and self._call("nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(self.handle))
        ):
            self.library = None

    def read(self) -> Reading:
        """Takes some tens of microseconds."""
        use, memory, celsius = _Use(), _Memory(), ctypes.c_uint()
        of_the_chip = 0
        used = self._call("nvmlDeviceGetUtilizationRates", self.handle, ctypes.byref(use))
        filled = self._call("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(memory))
        warm = self._call("nvmlDeviceGetTemperature", self.handle, of_the_chip, ctypes.byref(celsius))
        return Reading(
            use=use.gpu if used else NAN, memory_bytes=memory.used if filled else NAN,
            memory_total_bytes=memory.total if filled else NAN, celsius=celsius.value if warm else NAN,
        )  # fmt: skip

    def _call(self, name: str, *arguments: object) -> bool:
        """Whether the call succeeded; false where the library does not have it."""
        function = getattr(self.library, name, None) if self.library else None
        return function is not None and function(*arguments) == 0


def summary(readings: list[Reading]) -> str:
    """Such as `GPU 93% 61.2/79.6 GiB 64 C`: the mean use of all GPUs, the fullest memory, the highest temperature."""
    parts = []
    if use := _told(reading.use for reading in readings):
        parts.append(f"{sum(use) / len(use):.0f}%")
    if full := [r for r in readings if not math.isnan(r.memory_bytes)]:
        most = max(full, key=lambda r: r.memory_bytes / max(r.memory_total_bytes, 1))
        parts.append(f"{most.memory_bytes / 2**30:.1f}/{most.memory_total_bytes / 2**30:.1f} GiB")
    if warm := _told(reading.celsius for reading in readings):
        parts.append(f"{max(warm):.0f} C")
    return "GPU " + " ".join(parts) if parts else ""


def _told(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def scalars(readings: list[Reading]) -> dict[str, float]:
    """For curves: of all GPUs the least and the mean use, the fullest memory in GiB, the highest temperature."""
    if not readings:
        return {}
    use, memory, celsius = map(_told, zip(*((r.use, r.memory_bytes / 2**30, r.celsius) for r in readings), strict=True))
    told = {"gpu/use_percent": sum(use) / len(use), "gpu/least_use_percent": min(use)} if use else {}
    told |= {"gpu/memory_gib": max(memory)} if memory else {}
    return told | ({"gpu/celsius": max(celsius)} if celsius else {})
