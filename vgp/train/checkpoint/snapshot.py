"""Copies a rank's state to host memory while training computes the gradients of the next step.

Weights and optimizer state change only in the optimizer's step, so a thread can copy them until the next step begins.
Everything else, such as the running statistics of batch norm, is copied at once. Tensor version counters detect a
weight that a task changes elsewhere:
https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks

PyTorch rounds its pinned memory up to powers of two for each tensor: 1.1 GB becomes 2 GB. The arena here allocates
exactly the tensors' bytes from the kernel and registers them with CUDA in place:
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

from vgp.data.tensor_file import as_bytes, sort_tensors


class Snapshot:
    """A copy shared by two threads: training calls `begin` and `wait_copied`, the writer calls `complete`."""

    def __init__(self) -> None:
        #: Reused by every save, because a fresh page costs more than the copy.
        self.arena = Arena({})
        #: The tensors to write.
        self.copies: dict[str, Tensor] = {}
        #: The tensors that are not yet copied, and their versions at `begin`.
        self.rest: dict[str, tuple[Tensor, int]] = {}
        self.pending = False
        #: The name of a tensor that changed before it was copied; "" = none.
        self.changed = ""
        self.copied, self.released = threading.Event(), threading.Event()
        self.stream: Any = None
        self.began: Any = None
        self.done: Any = None

    def begin(self, share: Mapping[str, Tensor], stable: Set[str]) -> None:
        """Copies all tensors but the `stable` ones, which must not change until `wait_copied` returns."""
        if not self.arena.fits(share):
            self.arena, self.copies = Arena({}), {}  # frees the old memory before the new allocation
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
        """Replaces `begin` for CPU tensors that will not change any more: they are written without a copy."""
        self.copies, self.rest, self.changed, self.pending = dict(share), {}, "", False
        self.copied.set()
        self.released.set()

    def complete(self) -> None:
        """Copies the stable tensors."""
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
        """Waits until the stable tensors may change; on a GPU, until work queued from now on may change them."""
        if not self.pending:
            return
        self.copied.wait()
        if self.stream is not None:
            torch.cuda.current_stream().wait_event(self.done)
        self.changed = next((name for name, (tensor, was) in self.rest.items() if tensor._version != was), "")
        self.rest, self.pending = {}, False
        self.released.set()

    def require_whole(self) -> None:
        """Waits until `wait_copied` has checked the versions. Raises OSError if a stable tensor has changed."""
        self.released.wait()
        if self.changed:
            raise OSError(f"{self.changed} changed outside the optimizer's step while it was copied")

    def _copy(self, tensors: Iterable[tuple[str, Tensor]]) -> None:
        for name, tensor in tensors:
            copy = self.copies[name]
            if tensor.is_cuda:
                copy.copy_(tensor, non_blocking=True)
            else:  # NumPy copies in one thread without the interpreter's lock, which leaves the cores to training
                np.copyto(as_bytes(copy), as_bytes(tensor))


#: Alignment of tensors in bytes, as in PyTorch's CPU allocator.
_ALIGNMENT = 64


class Arena:
    """One block of host memory for many tensors, freed with the last of them.

    Args:
        like: Tensors on any device, with the names, dtypes and shapes to allocate.
    """

    def __init__(self, like: Mapping[str, Tensor]):
        places, self.bytes = {}, 0
        for name, tensor in sort_tensors(like).items():
            places[name] = self.bytes
            self.bytes += -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT
        self.memory = torch.frombuffer(mmap.mmap(-1, max(1, self.bytes)), dtype=torch.uint8)
        self.tensors = {name: self._get_view(start, like[name]) for name, start in places.items()}
        self.pinned = False

    def fits(self, like: Mapping[str, Tensor]) -> bool:
        """Whether the arena's tensors have the names, dtypes and shapes of `like`."""
        return _describe_tensors(self.tensors) == _describe_tensors(like)

    def pin(self) -> None:
        """Registers the memory with CUDA, so that copies run in the background; if that fails, they are slower."""
        if self.pinned or not self.bytes:
            return
        self.pinned = True
        if error := pin(self.memory, self):
            print(f"warning: {self.bytes:,} bytes of host memory could not be pinned ({error}); copies for checkpoints "
                  "will be slower", file=sys.stderr, flush=True)  # fmt: skip

    def _get_view(self, start: int, like: Tensor) -> Tensor:
        flat = self.memory[start : start + like.numel() * like.element_size()]
        return flat.view(like.dtype).view(like.shape)


def pin(memory: Tensor, owner: object) -> str:
    """Registers host memory with CUDA while `owner` lives; returns CUDA's error, "" = none."""
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    error = runtime.cudaHostRegister(memory.data_ptr(), memory.nbytes, 0)
    if int(error):
        return str(error)
    weakref.finalize(owner, runtime.cudaHostUnregister, memory.data_ptr()).atexit = False
    return ""


def _describe_tensors(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
