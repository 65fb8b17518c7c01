"""How gradients cross processes. Three ways, one interface: called around every microbatch and once a step.

Replicated   the whole model on every rank, averaged by DistributedDataParallel while backward still runs
Exact        the same, added in an order that does not depend on the number of ranks
Sharded      a share of the model on every rank (FSDP2)

A parameter that no microbatch of a step has used has no gradient in that step, on every rank and in each of these ways.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map_only

from vgp.base.exits import UserError
from vgp.data.task import Batch
from vgp.train.config import TrainConfig
from vgp.train.loop.use import Use, unused_sentence
from vgp.train.loop.weighting import TreeSum
from vgp.train.processes.rank import Rank

#: Figures of a model on a batch, such as its loss.
Figures: TypeAlias = Callable[[nn.Module, Batch], object]


class Loss(nn.Module):
    """A task's loss of its model, as one module.

    What makes gradients cross hooks onto a module's forward. Around the loss instead of the model, it misses nothing:
    a task may call the model several times, its parts, its methods, or a model that it has kept for itself.
    """

    def __init__(self, module: nn.Module, loss: Figures):
        super().__init__()
        self.module, self.of = module, loss

    def forward(self, batch: Batch, figures: Figures | None = None) -> object:
        """The loss, or other figures of the model that need as much of it."""
        return (figures or self.of)(self.module, batch)

    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters that want a gradient, in the order that DistributedDataParallel counts them in."""
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def without_gradient(self) -> list[str]:
        return [name for name, parameter in self.trained().items() if parameter.grad is None]


class Replicated:
    """DistributedDataParallel around the loss, or the loss as it is on a single rank."""

    calls = 0  # see Use

    def __init__(self, loss: Loss, rank: Rank, *, unused: bool, within_s: float):
        self.own, self.rank, self.unused, self.within_s = loss, rank, unused, within_s
        self.loss: nn.Module = loss
        if rank.world_size > 1 and loss.trained():
            self._wrap()

    def _wrap(self) -> None:
        self.loss = DistributedDataParallel(
            self.own, gradient_as_bucket_view=True, forward_sync_buffers=False, find_unused_parameters=self.unused
        )

    def rehearse(self, backward: Callable[[], object]) -> list[str]:
        """Runs a first backward pass; names of the parameters that stay without a gradient.

        It runs once before, with nothing crossing, since DistributedDataParallel waits for every gradient for ever.
        """
        if isinstance(self.loss, DistributedDataParallel) and not self.unused:
            with self.loss.no_sync():
                backward()
            absent = self.rank.exchange(self.own.without_gradient(), within_s=self.within_s)
            for parameter in self.own.parameters():
                parameter.grad = None
            if any(absent):
                self.unused, self.loss = True, self.own  # the old wrapper takes its hooks away
                self._wrap()
        backward()
        return self.own.without_gradient()

    def weight(self, share: float) -> float:
        """Factor of a microbatch's mean loss: the ranks' gradients are averaged, but the step wants their sum."""
        return share * self.rank.world_size

    @contextlib.contextmanager
    def microbatch(self, last: bool) -> Iterator[None]:
        """Gradients cross processes once a step, with the last microbatch."""
        if not isinstance(self.loss, DistributedDataParallel):
            yield
        elif not last:
            with self.loss.no_sync():
                yield
        else:
            yield
            self._require_all()

    def _require_all(self) -> None:
        """Raises UserError if the others wait in vain for a gradient of this rank."""
        assert isinstance(self.loss, DistributedDataParallel)
        try:
            self.loss._check_reducer_finalized()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            named = re.search(r"did not receive grad for rank \d+: ([\d ]+)", str(error))
            if not named:
                raise
            names = list(self.own.trained())
            raise UserError(unused_sentence([names[int(n)] for n in named[1].split()], self.rank)) from None

    def end_step(self) -> None: ...


class Exact:
    """Adds the gradients of all microbatches along one binary tree, whoever computed them."""

    unused, calls = True, 0

    def __init__(self, loss: Loss, rank: Rank):
        self.loss = loss
        self.parameters = list(loss.trained().values())
        self.sum = TreeSum(rank.world_size)
        if rank.world_size > 1:  # a model that was not made alike on every rank, as for DistributedDataParallel
            for tensor in loss.state_dict().values():
                dist.broadcast(tensor, 0)
        torch.set_num_threads(1)  # a matrix product adds in another order with another number of threads

    def rehearse(self, backward: Callable[[], object]) -> list[str]:
        backward()
        return self.loss.without_gradient()

    def weight(self, share: float) -> float:
        return share

    @contextlib.contextmanager
    def microbatch(self, last: bool) -> Iterator[None]:
        """The flat gradient ends with a count for each parameter: of the microbatches that have used it."""
        yield
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.parameters]
        used = torch.tensor([float(p.grad is not None) for p in self.parameters], device=grads[0].device)
        self.sum.add(torch.cat([*(grad.reshape(-1) for grad in grads), used.to(grads[0].dtype)]))
        for parameter in self.parameters:
            parameter.grad = None

    def end_step(self) -> None:
        *values, used = torch.split(self.sum.total(), [*(p.numel() for p in self.parameters), len(self.parameters)])
        for parameter, value, count in zip(self.parameters, values, used.tolist(), strict=True):
            parameter.grad = value.view_as(parameter) if count else None


class Sharded:
    """FSDP2: parameters, gradients and optimizer state are cut along their first dimension.

    The model's blocks are gathered one at a time; the rest of it as one more. They are gathered as they are, and
    autocast alone decides what computes in bfloat16, as it does for a replicated model. FSDP2's own mixed precision
    casts inputs, rotary tables, means and norms by module: values of 101,325 +- 100 all become 101,376.
    """

    keeps_gathered = False

    def __init__(
        self, loss: Loss, blocks: Sequence[nn.Module], rank: Rank, *, cpu_offload: bool, unused: bool, within_s: float
    ):
        """The model may be on the CPU, of which one block at a time is then moved, or have no memory yet."""
        from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

        pinned = CPUOffloadPolicy(pin_memory=rank.device.type == "cuda")
        mesh = dist.device_mesh.init_device_mesh(rank.device.type, (rank.world_size,))
        policy = pinned if cpu_offload else OffloadPolicy()
        for member in (*blocks, loss):
            member.register_forward_hook(_own_memory)
        #: The blocks as FSDP2 sees them: modules of which it has changed the class.
        self.blocks = [fully_shard(block, mesh=mesh, offload_policy=policy) for block in blocks]
        self.unit = fully_shard(loss, mesh=mesh, offload_policy=policy)
        self.loss: nn.Module = loss
        self.unit.set_reduce_scatter_unused_params(True)  # else ranks whose branches differ send different lengths
        self.world_size = rank.world_size
        #: Whether what is gathered may stay for all microbatches of a step; the same on every rank, as gathering is.
        self.stays = all(rank.exchange(_fits_whole(loss, rank.device), within_s=within_s))
        self.use = Use(loss.module, loss, blocks, rank, every_step=unused, within_s=within_s)

    @property
    def unused(self) -> bool:
        return self.use.every_step

    @property
    def calls(self) -> int:
        return self.use.calls

    def rehearse(self, backward: Callable[[], object]) -> list[str]:
        return self.use.rehearse(backward)

    def weight(self, share: float) -> float:
        return share * self.world_size

    @contextlib.contextmanager
    def microbatch(self, last: bool) -> Iterator[None]:
        """Gradients cross processes once a step, with the last microbatch.

        What was gathered for the first stays for all where it fits: gradients that have not crossed are as large, and
        gathering twice for each microbatch, for its forward and its backward pass, would be in vain.
        """
        self.unit.set_requires_gradient_sync(last)
        if self.stays and not last:
            self._keep_gathered(True)
        elif self.stays and self.keeps_gathered:
            self.unit.set_reshard_after_backward(True)
        yield
        if last and self.keeps_gathered:
            self._keep_gathered(False)

    def _keep_gathered(self, wanted: bool) -> None:
        if wanted != self.keeps_gathered:
            self.unit.set_reshard_after_backward(not wanted)
            for block in self.blocks:
                block.set_reshard_after_forward(not wanted)
            self.keeps_gathered = wanted

    def end_step(self) -> None:
        self.use.end_step()

    def free(self) -> None:
        """Lets go of what a forward pass has gathered that no backward pass will follow."""
        from torch.distributed.fsdp import FSDPModule

        for member in self.loss.modules():
            if isinstance(member, FSDPModule):
                member.reshard()


def _fits_whole(loss: Loss, device: torch.device) -> bool:
    """Whether all weights take at most a quarter of the device's memory: their gradients then take another."""
    if device.type != "cuda":
        return True
    whole = sum(parameter.numel() * parameter.element_size() for parameter in loss.parameters())
    return 4 * whole <= torch.cuda.get_device_properties(device).total_memory


def _own_memory(module: nn.Module, inputs: object, output: object) -> object:
    """Copies of the views in what a module returns: FSDP2 hooks onto it, and `+=` on a view drops the hook unsaid."""
    return tree_map_only(Tensor, lambda t: t.clone() if t.requires_grad and t._base is not None else t, output)


Gradients: TypeAlias = Replicated | Exact | Sharded


def choose(loss: Loss, blocks: Sequence[nn.Module], config: TrainConfig, rank: Rank) -> Gradients:
    within_s, unused = config.hang_after_s, config.unused_parameters
    if config.strategy == "fsdp":
        return Sharded(loss, blocks, rank, cpu_offload=config.cpu_offload, unused=unused, within_s=within_s)
    return Exact(loss, rank) if config.exact else Replicated(loss, rank, unused=unused, within_s=within_s)
