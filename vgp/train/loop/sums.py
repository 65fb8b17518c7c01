"""Sums of flat tensors over microbatches and ranks."""

import torch
import torch.distributed as dist
from torch import Tensor, nn


class RingSum:
    """Sums flat tensors over microbatches and ranks, in whatever order the network library takes."""

    def __init__(self) -> None:
        self.value: Tensor | None = None

    def add(self, flat: Tensor) -> None:
        self.value = flat if self.value is None else self.value.add_(flat)

    def total(self) -> Tensor:
        value, self.value = self.value, None
        assert value is not None
        dist.all_reduce(value)
        return value


class TreeSum:
    """The same along one binary tree over all microbatches: the same bits for any number of ranks.

    A rank adds its own microbatches as the lower levels of the tree. Then each rank gets one slice of everyone's
    sum, adds the upper levels, and sends its slice to all: as much traffic as a ring, but a fixed order.
    Microbatches and ranks must be powers of two, so that every rank holds a whole subtree.
    """

    def __init__(self, world_size: int):
        self.world_size = world_size
        self.subtrees: list[tuple[int, Tensor]] = []

    def add(self, flat: Tensor) -> None:
        """Like adding one to a binary counter: two subtrees of the same height become one."""
        height = 0
        while self.subtrees and self.subtrees[-1][0] == height:
            flat = self.subtrees.pop()[1].add_(flat)
            height += 1
        self.subtrees.append((height, flat))

    def total(self) -> Tensor:
        ((_, own),) = self.subtrees
        self.subtrees = []
        return self._across(own) if self.world_size > 1 else own

    def _across(self, own: Tensor) -> Tensor:
        length = -(-own.numel() // self.world_size)
        sent = nn.functional.pad(own, (0, length * self.world_size - own.numel()))
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        slices = list(received.view(self.world_size, length))
        while len(slices) > 1:
            slices = [a + b for a, b in zip(slices[::2], slices[1::2], strict=True)]
        dist.all_gather_single(sent, slices[0])
        return sent[: own.numel()]
