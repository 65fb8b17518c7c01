"""Checks that PyTorch can use this machine's GPUs, and reads their use, memory and temperature.

The figures come from NVIDIA's management library through ctypes: https://docs.nvidia.com/deploy/nvml-api/. Tested
against a mock library, not on a GPU.
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
        device: The device that PyTorch uses.
        gpus: Number of GPUs that the driver shows to this process.
    """
    if device.type == "cpu" and gpus and not torch.version.hip:
        raise UserError(
            f"this machine has {gpus} GPUs, and PyTorch {torch.__version__} cannot use them: "
            + ("it was built without CUDA" if torch.version.cuda is None else "their driver is too old for its CUDA")
            + ". Use another image, or set CUDA_VISIBLE_DEVICES= (empty) to train on the CPU."
        )
    if device.type == "cuda" and not torch.version.hip:
        capability = torch.cuda.get_device_capability(device)
        if not supports_capability(torch.cuda.get_arch_list(), capability):
            raise UserError(unsupported_message(torch.cuda.get_device_name(device), capability))


def supports_capability(architectures: Sequence[str], capability: tuple[int, int]) -> bool:
    """Whether kernels for these architectures run on a GPU of this compute capability; true if the list is empty.

    Machine code (`sm_86`) runs on an equal major version and an equal or newer minor version; intermediate code
    (`compute_86`) on every newer version; code with the suffix a only on that version
    (https://docs.nvidia.com/cuda/blackwell-compatibility-guide/).
    """
    return not architectures or any(_can_run(name, capability) for name in architectures)


def unsupported_message(gpu: str, capability: tuple[int, int]) -> str:
    """Returns the error message for a GPU on which none of PyTorch's kernels runs."""
    architectures = ", ".join(torch.cuda.get_arch_list())
    return (
        f"this image's PyTorch {torch.__version__} has kernels for {architectures}; the GPU, {gpu}, is "
        f"sm_{capability[0]}{capability[1]}, on which none of them runs. Use an image with a PyTorch for this GPU, or "
        "another GPU."
    )


def _can_run(architecture: str, capability: tuple[int, int]) -> bool:
    parts = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", architecture)
    if not parts:
        return False
    kind, version, suffix = parts[1], (int(parts[2]), int(parts[3])), parts[4]
    if suffix == "a":
        return version == capability
    if kind == "compute" and not suffix:
        return version <= capability
    return version[0] == capability[0] and version[1] <= capability[1]


NAN = float("nan")


@dataclass(frozen=True)
class Reading:
    """The state of a GPU at one moment; nan = the driver does not report it."""

    #: Percent of the last sample period in which a kernel ran.
    use: float = NAN
    memory_bytes: float = NAN
    memory_total_bytes: float = NAN
    celsius: float = NAN


class _Use(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Gpu:
    """A GPU by its CUDA UUID, because its index may differ between CUDA and the management library."""

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
        """Reads the current figures, in some tens of microseconds."""
        use, memory, celsius = _Use(), _Memory(), ctypes.c_uint()
        chip_sensor = 0
        has_use = self._call("nvmlDeviceGetUtilizationRates", self.handle, ctypes.byref(use))
        has_memory = self._call("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(memory))
        has_celsius = self._call("nvmlDeviceGetTemperature", self.handle, chip_sensor, ctypes.byref(celsius))
        return Reading(
            use=use.gpu if has_use else NAN, memory_bytes=memory.used if has_memory else NAN,
            memory_total_bytes=memory.total if has_memory else NAN, celsius=celsius.value if has_celsius else NAN,
        )  # fmt: skip

    def _call(self, name: str, *arguments: object) -> bool:
        """Calls a function of the library; returns whether it exists and succeeded."""
        function = getattr(self.library, name, None) if self.library else None
        return function is not None and function(*arguments) == 0


def format_gpus(readings: list[Reading]) -> str:
    """Formats the mean use, the fullest memory and the highest temperature: `GPU 93% 61.2/79.6 GiB 64 C`."""
    parts = []
    if use := _drop_unknown(reading.use for reading in readings):
        parts.append(f"{sum(use) / len(use):.0f}%")
    if with_memory := [r for r in readings if not math.isnan(r.memory_bytes)]:
        fullest = max(with_memory, key=lambda r: r.memory_bytes / max(r.memory_total_bytes, 1))
        parts.append(f"{fullest.memory_bytes / 2**30:.1f}/{fullest.memory_total_bytes / 2**30:.1f} GiB")
    if celsius := _drop_unknown(reading.celsius for reading in readings):
        parts.append(f"{max(celsius):.0f} C")
    return "GPU " + " ".join(parts) if parts else ""


def _drop_unknown(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def gpu_scalars(readings: list[Reading]) -> dict[str, float]:
    """Returns points for curves: the mean and least use, the fullest memory in GiB and the highest temperature."""
    if not readings:
        return {}
    columns = zip(*((r.use, r.memory_bytes / 2**30, r.celsius) for r in readings), strict=True)
    use, memory, celsius = map(_drop_unknown, columns)
    points = {"gpu/use_percent": sum(use) / len(use), "gpu/least_use_percent": min(use)} if use else {}
    points |= {"gpu/memory_gib": max(memory)} if memory else {}
    return points | ({"gpu/celsius": max(celsius)} if celsius else {})
