"""Losses with a sum and a weight (`vgp.data.task.WeightedLoss`), averaged over the whole global batch.

The weight of a batch, such as its number of tokens, is known only after the last microbatch of the last rank. Each
backward pass therefore divides its sum by a constant, and the gradient is corrected by a factor once all weights are
known.
"""

import math
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from vgp.base.exits import UserError
from vgp.data.task import WeightedLoss
from vgp.train.loop.finite_checks import _values
from vgp.train.loop.sample_order import Plan
from vgp.train.processes.rank import Rank

# ---- sums of flat tensors over microbatches and ranks


class RingSum:
    """Sums flat tensors over microbatches and ranks, in the order of the network library."""

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
    """Sums flat tensors along one binary tree over all microbatches, with equal bits for any number of ranks.

    A rank adds its own microbatches as the lower levels of the tree. Then each rank receives one slice of every rank's
    sum, adds the upper levels, and sends its slice to all: as much traffic as a ring, but in a fixed order.
    Microbatches and ranks must be powers of two, so that every rank holds a whole subtree.
    """

    def __init__(self, world_size: int):
        self.world_size = world_size
        self.subtrees: list[tuple[int, Tensor]] = []

    def add(self, flat: Tensor) -> None:
        """Adds a leaf like one to a binary counter: two subtrees of equal height become one."""
        height = 0
        while self.subtrees and self.subtrees[-1][0] == height:
            flat = self.subtrees.pop()[1].add_(flat)
            height += 1
        self.subtrees.append((height, flat))

    def total(self) -> Tensor:
        ((_, own),) = self.subtrees
        self.subtrees = []
        return self._sum_across(own) if self.world_size > 1 else own

    def _sum_across(self, own: Tensor) -> Tensor:
        length = -(-own.numel() // self.world_size)
        sent = nn.functional.pad(own, (0, length * self.world_size - own.numel()))
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        slices = list(received.view(self.world_size, length))
        while len(slices) > 1:
            slices = [a + b for a, b in zip(slices[::2], slices[1::2], strict=True)]
        dist.all_gather_single(sent, slices[0])
        return sent[: own.numel()]


def split_loss(loss: object) -> tuple[Tensor, Tensor | float | None]:
    """Splits a task's loss into its total and weight; the weight None = the loss is a mean over the rows.

    Raises:
        UserError: the loss is neither a scalar tensor nor a WeightedLoss.
    """
    total, weight = loss if isinstance(loss, WeightedLoss) else (loss, None)
    if not isinstance(total, Tensor) or total.ndim or (isinstance(weight, Tensor) and weight.ndim):
        raise UserError(
            f"the task's loss returned {_describe_loss(loss)}. Return the mean over the rows of the batch, a scalar "
            "tensor. For a mean over something else, such as tokens, return WeightedLoss(total, weight) of "
            "vgp.data.task: the sum of the losses and its divisor, both scalars."
        )
    return total, weight


def mean(loss: object) -> Tensor:
    """Returns a task's loss, a mean or a WeightedLoss, as one scalar."""
    total, weight = split_loss(loss)
    return total if weight is None else total / weight


class Weighting:
    """The weights of a step's microbatches on one rank; no effect if losses are means over rows."""

    def __init__(self, plan: Plan, rank: Rank, total: RingSum | TreeSum):
        self.plan, self.rank, self.sum = plan, rank, total
        #: A power of two near the weight of a row; 0 = losses are means over rows.
        self.unit = 0.0
        #: Whether the kind of losses is still unknown.
        self.open = True
        self.first: float | None = None

    def settle(self, rows: int, within_s: float) -> None:
        """Ends the first pass, over `rows` rows. Raises UserError if ranks have seen losses of both kinds."""
        row_weight = None if self.first is None else self.first / rows
        everyone = self.rank.exchange(row_weight, within_s=within_s) if self.rank.world_size > 1 else [row_weight]
        if len({value is None for value in everyone}) > 1:
            raise UserError(_both_kinds_message())
        if everyone[0] is not None:  # the first microbatch's, so that it does not depend on the number of ranks
            self.unit = 2.0 ** round(math.log2(everyone[0])) if 0 < everyone[0] < math.inf else 1.0
        self.open = False

    def factor(self, share: Tensor, whole: float) -> Tensor:
        """Returns the gradient that a microbatch's backward pass starts from.

        Args:
            share: The value for a mean over the microbatch's rows.
            whole: The value for a microbatch that is the whole batch.
        """
        if not self.unit:
            return share
        value = whole / (self.plan.global_batch_size * self.unit)
        return torch.full((), value, device=share.device)  # `torch.tensor` would wait for the device

    def add(self, loss: Tensor, weight: Tensor | float | None) -> Tensor:
        """Adds a microbatch; returns its mean loss, or its sum and weight as float64 (2,). Waits for no device."""
        if self.open:
            self.first = None if weight is None else float(weight)
        elif (weight is None) == bool(self.unit):
            raise UserError(_both_kinds_message())
        if weight is None:
            return loss
        if not isinstance(weight, Tensor):
            weight = torch.full((), weight, device=loss.device, dtype=torch.float64)
        both = torch.stack([loss.double(), weight.detach().to(loss.device, torch.float64, non_blocking=True)])
        if not self.open:
            self.sum.add(both[1:].clone())
        return both

    def end_step(self, parameters: Sequence[Tensor]) -> None:
        """Rescales the step's gradient to that of the sum of all losses divided by the sum of all weights."""
        if not self.unit:
            return
        weight = self.sum.total()[0]
        scale = torch.where(weight > 0, self.plan.global_batch_size * self.unit / weight, 0.0).float()
        gradients = [_values(parameter) for parameter in parameters if parameter.grad is not None]
        for device in {gradient.device for gradient in gradients}:
            torch._foreach_mul_([gradient for gradient in gradients if gradient.device == device], scale.to(device))


def global_mean(totals: Sequence[float], weights: Sequence[float], step: int) -> float:
    """Returns the mean loss of a step; 0 if all weights and losses are 0. Raises UserError for invalid weights."""
    if not all(0 <= weight < math.inf for weight in weights):
        raise UserError(
            f"the weight of the loss of step {step} was {min(weights):g} to {max(weights):g} in its microbatches: the "
            "weight of a WeightedLoss(total, weight) must be a finite number of at least 0."
        )
    total, weight = sum(totals), sum(weights)
    return total / weight if weight else total and math.nan


def _both_kinds_message() -> str:
    return (
        "the task's loss returned a WeightedLoss for one batch and a plain mean for another: return one kind for every "
        "batch; for a batch with nothing to learn, return WeightedLoss(0 * model output, 0)."
    )


def _describe_loss(loss: object) -> str:
    if isinstance(loss, WeightedLoss):
        return f"WeightedLoss({_describe_loss(loss.total)}, {_describe_loss(loss.weight)})"
    if isinstance(loss, Tensor):
        return f"a tensor of shape {list(loss.shape)}"
    return "a plain tuple" if isinstance(loss, tuple) else f"a {type(loss).__name__}"


def gather(values: list[float], length: int) -> Tensor:
    """Gathers every rank's `values`, padded to `length`: float64 (world_size, length) on the CPU, over gloo."""
    own = torch.zeros(length, dtype=torch.float64)
    own[: len(values)] = torch.tensor(values, dtype=torch.float64)
    everyone = torch.empty(dist.get_world_size() * length, dtype=torch.float64)
    dist.all_gather_single(everyone, own)
    return everyone.view(-1, length)
