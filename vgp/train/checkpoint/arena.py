"""Host memory for a copy of many tensors: one piece, which a GPU can write to directly.

PyTorch's own pinned memory comes in powers of two, for each tensor: of 1.1 GB, 2. Here the bytes are those of the
tensors, from the kernel, and registered with CUDA in place:
https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
"""

import mmap
import sys
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vgp.data.tensor_file import ordered

#: Where a tensor may begin: as PyTorch's own allocators have it on a CPU.
_ALIGNMENT = 64


class Arena:
    """Tensors like some others, in memory that is theirs as long as one of them lives."""

    def __init__(self, like: Mapping[str, Tensor]):
        """`like`: their form; where they lie does not matter."""
        places, self.bytes = {}, 0
        for name, tensor in ordered(like).items():
            places[name] = self.bytes
            self.bytes += -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT
        self.memory = torch.frombuffer(mmap.mmap(-1, max(1, self.bytes)), dtype=torch.uint8)
        self.tensors = {name: self._view(start, like[name]) for name, start in places.items()}
        self.pinned = False

    def fits(self, like: Mapping[str, Tensor]) -> bool:
        """Whether its tensors have the names and the form of these."""
        return _form(self.tensors) == _form(like)

    def pin(self) -> None:
        """Lets a GPU write while the CPU goes on; without that a copy takes longer, and is the same."""
        if self.pinned or not self.bytes:
            return
        self.pinned = True
        runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        address = self.memory.data_ptr()
        error = runtime.cudaHostRegister(address, self.memory.numel(), 0)
        if int(error):
            print(f"warning: {self.bytes:,} bytes of host memory could not be pinned ({error}): checkpoints are copied "
                  "more slowly", file=sys.stderr, flush=True)  # fmt: skip
        else:
            weakref.finalize(self, runtime.cudaHostUnregister, address).atexit = False

    def _view(self, start: int, like: Tensor) -> Tensor:
        flat = self.memory[start : start + like.numel() * like.element_size()]
        return flat.view(like.dtype).view(like.shape)


def _form(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
