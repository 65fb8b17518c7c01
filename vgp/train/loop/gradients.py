"""Exchanges gradients between processes. Three classes share one interface, called around every microbatch and step.

Replicated   the whole model on every rank; DistributedDataParallel averages gradients during the backward pass
Exact        the whole model on every rank; gradients are added in an order independent of the number of ranks
Sharded      a share of the model on every rank (`vgp.train.loop.sharding`)

With each of them, a parameter that no microbatch of a step has used has no gradient in that step on any rank.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from vgp.base.exits import UserError
from vgp.data.task import Batch
from vgp.train.loop.block_usage import unused_message
from vgp.train.loop.weighting import TreeSum
from vgp.train.processes.rank import Rank
from vgp.train.train_config import TrainConfig

#: Computes figures of a model on a batch, such as its loss.
Figures: TypeAlias = Callable[[nn.Module, Batch], object]


class Loss(nn.Module):
    """A task's model and loss as one module.

    The exchange of gradients hooks onto a module's forward. The loss, unlike the model, is called exactly once: a task
    may call the model several times, its parts, its methods, or another reference to it.
    """

    def __init__(self, module: nn.Module, loss: Figures):
        super().__init__()
        self.module, self.of = module, loss

    def forward(self, batch: Batch, figures: Figures | None = None) -> object:
        """Computes the loss, or other figures of the model."""
        return (figures or self.of)(self.module, batch)

    def trained(self) -> dict[str, nn.Parameter]:
        """Returns the parameters that require a gradient, in the order of DistributedDataParallel."""
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def without_gradient(self) -> list[str]:
        return [name for name, parameter in self.trained().items() if parameter.grad is None]


class Replicated:
    """DistributedDataParallel around the loss; on a single rank, the loss itself."""

    calls = 0  # as `Use.calls`

    def __init__(self, loss: Loss, config: TrainConfig, rank: Rank):
        self.own, self.rank, self.unused, self.within_s = loss, rank, config.unused_parameters, config.hang_after_s
        self.rounds = config.gradient_precision == "bf16"
        self.loss: nn.Module = loss
        if rank.world_size > 1 and loss.trained():
            self._wrap()

    def _wrap(self) -> None:
        self.loss = DistributedDataParallel(
            self.own, gradient_as_bucket_view=True, forward_sync_buffers=False, find_unused_parameters=self.unused
        )
        if self.rounds:
            self.loss.register_comm_hook(None, _average_rounded)

    def rehearse(self, backward: Callable[[], object]) -> list[str]:
        """Runs a first backward pass; returns the names of parameters without a gradient.

        Runs it once before without an exchange, because DistributedDataParallel waits forever for a missing gradient.
        """
        if isinstance(self.loss, DistributedDataParallel) and not self.unused:
            with self.loss.no_sync():
                backward()
            absent = self.rank.exchange(self.own.without_gradient(), within_s=self.within_s)
            for parameter in self.own.parameters():
                parameter.grad = None
            if any(absent):
                self.unused, self.loss = True, self.own  # the old wrapper removes its hooks
                self._wrap()
        backward()
        return self.own.without_gradient()

    def weight(self, share: float) -> float:
        """Returns the factor of a microbatch's mean loss: ranks average gradients, but the step needs their sum."""
        return share * self.rank.world_size

    @contextlib.contextmanager
    def microbatch(self, last: bool) -> Iterator[None]:
        """Wraps a microbatch; gradients are exchanged once a step, with the last microbatch."""
        if not isinstance(self.loss, DistributedDataParallel):
            yield
        elif not last:
            with self.loss.no_sync():
                yield
        else:
            yield
            self._require_all()

    def _require_all(self) -> None:
        """Raises UserError if other ranks wait for a gradient that this rank does not have."""
        assert isinstance(self.loss, DistributedDataParallel)
        try:
            self.loss._check_reducer_finalized()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            numbers = re.search(r"did not receive grad for rank \d+: ([\d ]+)", str(error))
            if not numbers:
                raise
            names = list(self.own.trained())
            raise UserError(unused_message([names[int(n)] for n in numbers[1].split()], self.rank)) from None

    def end_step(self) -> None: ...


def _average_rounded(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages gradients over the ranks in one message of bfloat16; PyTorch's own hook works with NCCL only."""
    gradients = bucket.buffer()
    work = dist.all_reduce(gradients.bfloat16(), async_op=True)

    def widen(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        return gradients.copy_(future.value()[0]).div_(dist.get_world_size())

    averaged: torch.futures.Future[torch.Tensor] = work.get_future().then(widen)
    return averaged


class Exact:
    """Adds the gradients of all microbatches along one binary tree, independent of their assignment to ranks."""

    unused, calls = True, 0

    def __init__(self, loss: Loss, rank: Rank):
        self.loss = loss
        self.parameters = list(loss.trained().values())
        self.sum = TreeSum(rank.world_size)
        if rank.world_size > 1:  # as DistributedDataParallel does, in case the models differ between ranks
            for tensor in loss.state_dict().values():
                dist.broadcast(tensor, 0)
        torch.set_num_threads(1)  # the number of threads changes the order of additions in a matrix product

    def rehearse(self, backward: Callable[[], object]) -> list[str]:
        backward()
        return self.loss.without_gradient()

    def weight(self, share: float) -> float:
        return share

    @contextlib.contextmanager
    def microbatch(self, last: bool) -> Iterator[None]:
        """Wraps a microbatch; the flat gradient ends with the number of microbatches that used each parameter."""
        yield
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.parameters]
        used = torch.tensor([float(p.grad is not None) for p in self.parameters], device=grads[0].device)
        self.sum.add(torch.cat([*(grad.reshape(-1) for grad in grads), used]))  # in the widest of their types
        for parameter in self.parameters:
            parameter.grad = None

    def end_step(self) -> None:
        *values, used = torch.split(self.sum.total(), [*(p.numel() for p in self.parameters), len(self.parameters)])
        for parameter, value, count in zip(self.parameters, values, used.tolist(), strict=True):
            parameter.grad = value.view_as(parameter).to(parameter.dtype) if count else None


def choose_exchange(loss: Loss, config: TrainConfig, rank: Rank) -> Replicated | Exact:
    """Returns the exchange of gradients of a model that every rank holds whole."""
    return Exact(loss, rank) if config.exact else Replicated(loss, config, rank)
