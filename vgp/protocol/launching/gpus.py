"""The GPUs of a machine, counted without a framework, and a node's share of them."""

from __future__ import annotations

import glob
from collections.abc import Mapping

from vgp.protocol.launching.request import say


def gpus(environment: Mapping[str, str]) -> list[str]:
    """The GPUs that a process may use. In CUDA_VISIBLE_DEVICES a -1 hides those behind it."""
    names = [str(number) for number in range(gpus_present())]
    if "CUDA_VISIBLE_DEVICES" not in environment:
        return names
    visible = [name.strip() for name in environment["CUDA_VISIBLE_DEVICES"].split(",")]
    end = next((number for number, name in enumerate(visible) if name in ("", "-1")), len(visible))
    return visible[: min(end, len(names))]


def gpus_present() -> int:
    try:
        import ctypes  # some Pythons are built without

        nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0:
            return count.value
    except (ImportError, OSError, AttributeError):
        pass
    return len(glob.glob("/proc/driver/nvidia/gpus/*")) or len(glob.glob("/dev/nvidia[0-9]*"))


def share(devices: list[str], place: int, nodes: int) -> list[str]:
    """Of the GPUs of one machine, those of the node at a place among nodes that share it."""
    size = len(devices) // nodes
    if devices and not size and not place:
        say(f"{nodes} nodes on this machine cannot share its {len(devices)} GPUs: they do without.")
    return devices[place * size :][:size]
