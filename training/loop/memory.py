"""How much memory is left, on the host and on a device, and how it comes back."""

import contextlib
import ctypes
import resource
import sys

import torch

from training.processes import memory


def free_bytes(device: torch.device) -> int:
    """What a model may take that is made on the host and then moved to the device; where nobody says, all there is."""
    free = [memory.free_bytes()]
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        free.append(torch.cuda.mem_get_info(device)[0] + unused)
    return min(free)


def return_what_is_freed() -> None:
    """Has the C library give the memory of large tensors back to the system as soon as they are freed.

    Otherwise glibc keeps blocks of up to 32 MiB in a heap full of gaps, which grew to three times what was in use
    (M_MMAP_THRESHOLD, mallopt(3)). Other libraries do not have the call.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(-3, 1 << 20)


def peak_bytes(device: torch.device) -> int:
    """What this process has held at most: of the GPU's memory in tensors, or of the host's where there is no GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    return kib if sys.platform == "darwin" else kib << 10
