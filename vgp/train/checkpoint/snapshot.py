"""A copy in host memory of what a rank saves, made while training computes the gradients of the next step.

Weights and optimizer state change in one place, the optimizer's step, so a thread can copy them until the next one
begins. Whatever else is saved, such as the running statistics of batch norm, is copied at once. A weight that changes
all the same, because a task writes to it elsewhere, is noticed by its version counter:
https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks

Host memory for a copy of many tensors: one piece, which a GPU can write to directly.

PyTorch's own pinned memory comes in powers of two, for each tensor: of 1.1 GB, 2. Here the bytes are those of the
tensors, from the kernel, and registered with CUDA in place:
https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
"""

import mmap
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vgp.data.tensor_file import as_bytes, ordered


class Snapshot:
    """Two threads share it: training calls `begin` and `wait_copied`, the thread that saves calls `complete`."""

    def __init__(self) -> None:
        #: Kept from save to save: a fresh page costs more than the copy.
        self.arena = Arena({})
        #: What is written.
        self.copies: dict[str, Tensor] = {}
        self.rest: dict[str, tuple[Tensor, int]] = {}
        """What is still to be copied, and its version when it was handed over."""
        self.pending = False
        self.changed = ""
        """The name of a tensor that was changed before it was copied; "" = none."""
        self.copied, self.released = threading.Event(), threading.Event()
        self.stream: Any = None
        self.began: Any = None
        self.done: Any = None

    def begin(self, share: Mapping[str, Tensor], stable: Set[str]) -> None:
        """Copies what may change at any time. The `stable` ones must stay as they are until `wait_copied` returns."""
        if not self.arena.fits(share):
            self.arena, self.copies = Arena({}), {}  # the memory goes before there is more
            self.arena = Arena(share)
        self.copies = self.arena.tensors
        self._copy((name, tensor) for name, tensor in share.items() if name not in stable)
        self.rest = {name: (tensor, tensor._version) for name, tensor in share.items() if name in stable}
        self.changed, self.pending = "", True
        self.copied.clear()
        self.released.clear()
        device = next((tensor.device for tensor in share.values() if tensor.is_cuda), None)
        if device is not None:
            cuda: Any = torch.cuda  # its streams and events have no types
            self.stream = self.stream or cuda.Stream(device)
            self.began, self.done = cuda.Event(), cuda.Event()
            self.began.record()

    def lend(self, share: Mapping[str, Tensor]) -> None:
        """In place of `begin`, of CPU tensors that nothing changes any more: they are written from where they lie."""
        self.copies, self.rest, self.changed, self.pending = dict(share), {}, "", False
        self.copied.set()
        self.released.set()

    def complete(self) -> None:
        """Copies the rest."""
        try:
            if self.stream is None:
                self._copy((name, tensor) for name, (tensor, _) in self.rest.items())
                return
            self.arena.pin()
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(self.began)
                self._copy((name, tensor) for name, (tensor, _) in self.rest.items())
                self.done.record()
        finally:
            self.copied.set()
        self.done.synchronize()

    def wait_copied(self) -> None:
        """Returns when the stable tensors may change; on a GPU, when whatever is queued next may change them."""
        if not self.pending:
            return
        self.copied.wait()
        if self.stream is not None:
            torch.cuda.current_stream().wait_event(self.done)
        self.changed = next((name for name, (tensor, was) in self.rest.items() if tensor._version != was), "")
        self.rest, self.pending = {}, False
        self.released.set()

    def require_whole(self) -> None:
        """Waits until training has looked at what was copied. Raises OSError if a tensor was changed meanwhile."""
        self.released.wait()
        if self.changed:
            raise OSError(f"{self.changed} was changed outside the optimizer's step, while it was copied")

    def _copy(self, tensors: Iterable[tuple[str, Tensor]]) -> None:
        for name, tensor in tensors:
            held = self.copies[name]
            if tensor.is_cuda:
                held.copy_(tensor, non_blocking=True)
            else:  # one thread, without the interpreter's lock: the cores belong to training
                np.copyto(as_bytes(held), as_bytes(tensor))


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


def _form(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
