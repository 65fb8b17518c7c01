"""Buffers that a forward pass changes, such as batch norm's running statistics, kept equal on all ranks.

Every microbatch of a step starts from the values before the step, and the step ends with the mean of what the
microbatches made of them, weighted by their samples. So the values depend neither on which rank computed which
microbatch nor on how many ranks there are, and each rank can save its share of them.
"""

import torch
from torch import Tensor, nn

from training.loop.sums import RingSum, TreeSum


class MovingBuffers:
    """The changing buffers of a model; found by comparing them before and after a forward pass."""

    def __init__(self, module: nn.Module, before: dict[str, Tensor], total: RingSum | TreeSum):
        self.buffers = [b for name, b in module.named_buffers() if not torch.equal(b, before[name])]
        self.means = [buffer for buffer in self.buffers if buffer.is_floating_point()]
        self.sum = total
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                buffer.copy_(before[name])

    def begin_step(self) -> None:
        if self.buffers:
            self.start = [buffer.clone() for buffer in self.buffers]

    def begin_microbatch(self) -> None:
        if self.buffers:
            torch._foreach_copy_(self.buffers, self.start)

    def end_microbatch(self, share: float) -> None:
        if self.means:
            self.sum.add(torch.cat([buffer.reshape(-1) for buffer in self.means]) * share)

    def end_step(self) -> None:
        """Counters, which are whole numbers, moved alike in every microbatch."""
        if self.means:
            values = torch.split(self.sum.total(), [buffer.numel() for buffer in self.means])
            for buffer, value in zip(self.means, values, strict=True):
                buffer.copy_(value.view_as(buffer))
