"""Buffers that a forward pass changes, such as batch norm's running statistics, kept equal on all ranks.

Every microbatch of a step starts from the values before the step, and the step ends with the mean of what the
microbatches made of them, weighted by their samples. So the values depend neither on which rank computed which
microbatch nor on how many ranks there are, and each rank can save its share of them.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn


class MovingBuffers:
    """The changing buffers of a model; found by comparing them before and after a forward pass."""

    def __init__(self, module: nn.Module, before: dict[str, Tensor]):
        changed = [buffer for name, buffer in module.named_buffers() if not torch.equal(buffer, before[name])]
        self.buffers = changed
        self.means = [buffer for buffer in changed if buffer.is_floating_point()]
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                buffer.copy_(before[name])

    def begin_step(self) -> None:
        if self.buffers:
            self.start = [buffer.clone() for buffer in self.buffers]
            self.sums = [torch.zeros_like(buffer) for buffer in self.means]

    def begin_microbatch(self) -> None:
        if self.buffers:
            torch._foreach_copy_(self.buffers, self.start)

    def end_microbatch(self, share: float) -> None:
        if self.means:
            torch._foreach_add_(self.sums, self.means, alpha=share)

    def end_step(self) -> None:
        """Counters, which are whole numbers, moved alike in every microbatch."""
        if not self.means:
            return
        flat = torch.cat([value.reshape(-1) for value in self.sums])
        dist.all_reduce(flat)
        for buffer, value in zip(self.means, flat.split([b.numel() for b in self.means]), strict=True):
            buffer.copy_(value.view_as(buffer))
