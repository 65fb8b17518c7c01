"""Losses that are a sum and its weight (`vgp.data.task.WeightedLoss`): the mean is over the whole global batch.

What a mean over the batch is divided by, such as its tokens, is known when the last microbatch of the last rank has
been computed. So each backward pass starts from its sum, divided by a number that is the same in every step, and the
gradient is multiplied by what that was off once all weights are added up.
"""

import math
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from vgp.base.exits import UserError
from vgp.data.task import WeightedLoss
from vgp.train.loop.finite import _values
from vgp.train.loop.order import Plan
from vgp.train.processes.rank import Rank

# ---- sums of flat tensors over microbatches and ranks


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


def parts(loss: object) -> tuple[Tensor, Tensor | float | None]:
    """A loss as the task gave it, and its weight; None = it is the mean over the rows.

    Raises:
        UserError: it is neither.
    """
    total, weight = loss if isinstance(loss, WeightedLoss) else (loss, None)
    if not isinstance(total, Tensor) or total.ndim or (isinstance(weight, Tensor) and weight.ndim):
        raise UserError(
            f"the task's loss gave {_form(loss)}. Give the mean over the rows of the batch, a scalar tensor; or where "
            "the mean is over something else, such as tokens, WeightedLoss(total, weight) of vgp.data.task: the sum "
            "of the losses and what it is divided by, both scalars."
        )
    return total, weight


def mean(loss: object) -> Tensor:
    """The loss as one number, whichever way the task gave it."""
    total, weight = parts(loss)
    return total if weight is None else total / weight


class Weighting:
    """The weights of a step's microbatches, seen by one rank; without effect where losses are means over rows."""

    def __init__(self, plan: Plan, rank: Rank, total: RingSum | TreeSum):
        self.plan, self.rank, self.sum = plan, rank, total
        #: A power of two near the weight of a row; 0 = losses are means over rows.
        self.unit = 0.0
        #: Whether it is still to be seen which of both they are.
        self.open = True
        self.first: float | None = None

    def settle(self, rows: int, within_s: float) -> None:
        """Ends the first pass, over so many rows. Raises UserError if the ranks have seen losses of both kinds."""
        seen = None if self.first is None else self.first / rows
        everyone = self.rank.exchange(seen, within_s=within_s) if self.rank.world_size > 1 else [seen]
        if len({value is None for value in everyone}) > 1:
            raise UserError(_both_kinds())
        if everyone[0] is not None:  # of the first microbatch, the same for every number of ranks
            self.unit = 2.0 ** round(math.log2(everyone[0])) if 0 < everyone[0] < math.inf else 1.0
        self.open = False

    def factor(self, share: Tensor, whole: float) -> Tensor:
        """What the gradient of a microbatch's loss starts from.

        Args:
            share: That of a mean over its rows.
            whole: That of a microbatch that is the whole batch.
        """
        if not self.unit:
            return share
        return torch.tensor(whole / (self.plan.global_batch_size * self.unit), device=share.device)

    def add(self, loss: Tensor, weight: Tensor | float | None) -> Tensor:
        """Takes note of a microbatch: its mean loss, or its sum and weight, float64 (2,). Waits for no device."""
        if self.open:
            self.first = None if weight is None else float(weight)
        elif (weight is None) == bool(self.unit):
            raise UserError(_both_kinds())
        if weight is None:
            return loss
        both = torch.stack([loss.double(), torch.as_tensor(weight, dtype=torch.float64, device=loss.device).detach()])
        if not self.open:
            self.sum.add(both[1:].clone())
        return both

    def end_step(self, parameters: Sequence[Tensor]) -> None:
        """Turns the step's gradient into that of the sum of all losses divided by the sum of all weights."""
        if not self.unit:
            return
        weight = self.sum.total()[0]
        scale = torch.where(weight > 0, self.plan.global_batch_size * self.unit / weight, 0.0).float()
        gradients = [_values(parameter) for parameter in parameters if parameter.grad is not None]
        for device in {gradient.device for gradient in gradients}:
            torch._foreach_mul_([gradient for gradient in gradients if gradient.device == device], scale.to(device))


def global_mean(totals: Sequence[float], weights: Sequence[float], step: int) -> float:
    """The loss of a step; 0 where nothing in it counts. Raises UserError for weights that cannot be."""
    if not all(0 <= weight < math.inf for weight in weights):
        raise UserError(
            f"the weight of the loss of step {step} was {min(weights):g} to {max(weights):g} in its microbatches: "
            "WeightedLoss(total, weight) takes what the sum is divided by, a finite number of at least 0."
        )
    total, weight = sum(totals), sum(weights)
    return total / weight if weight else total and math.nan


def _both_kinds() -> str:
    return (
        "the task's loss gave a WeightedLoss for one batch and a plain mean for another: let it give the same kind for "
        "every batch; a batch with nothing to learn from gives WeightedLoss(0 * model output, 0)."
    )


def _form(loss: object) -> str:
    if isinstance(loss, WeightedLoss):
        return f"WeightedLoss({_form(loss.total)}, {_form(loss.weight)})"
    if isinstance(loss, Tensor):
        return f"a tensor of shape {list(loss.shape)}"
    return "a plain tuple" if isinstance(loss, tuple) else f"a {type(loss).__name__}"


# ---- what every rank has, on every rank


def gather(values: list[float], length: int) -> Tensor:
    """Every rank's `values`, padded to `length`: float64 (world_size, length) on the CPU, over gloo."""
    own = torch.zeros(length, dtype=torch.float64)
    own[: len(values)] = torch.tensor(values, dtype=torch.float64)
    everyone = torch.empty(dist.get_world_size() * length, dtype=torch.float64)
    dist.all_gather_single(everyone, own)
    return everyone.view(-1, length)
