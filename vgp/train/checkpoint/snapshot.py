"""A copy in host memory of what a rank saves, made while training computes the gradients of the next step.

Weights and optimizer state change in one place, the optimizer's step, so a thread can copy them until the next one
begins. Whatever else is saved, such as the running statistics of batch norm, is copied at once. A weight that changes
all the same, because a task writes to it elsewhere, is noticed by its version counter:
https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks
"""

import threading
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vgp.data.tensor_file import as_bytes
from vgp.train.checkpoint.arena import Arena


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
