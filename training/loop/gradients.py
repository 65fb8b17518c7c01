"""How gradients cross processes. Three ways, one interface: called around every microbatch and once a step.

Replicated   the whole model on every rank, averaged by DistributedDataParallel while backward still runs
Exact        the same, added in an order that does not depend on the number of ranks
Sharded      a share of the model on every rank (FSDP2)
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map_only

from training.config import TrainConfig
from training.processes.rank import Rank


class Replicated:
    """DistributedDataParallel, or the model as it is on a single rank."""

    def __init__(self, module: nn.Module, rank: Rank):
        self.module, self.world_size = module, rank.world_size
        self.model = module
        if rank.world_size > 1 and any(p.requires_grad for p in module.parameters()):
            self.model = DistributedDataParallel(
                module, device_ids=[rank.device] if rank.device.type == "cuda" else None,
                gradient_as_bucket_view=True, forward_sync_buffers=False,
            )  # fmt: skip

    def weight(self, share: float) -> float:
        """Factor of a microbatch's mean loss: the ranks' gradients are averaged, but the step wants their sum."""
        return share * self.world_size

    def microbatch(self, last: bool) -> contextlib.AbstractContextManager[None]:
        """Gradients cross processes once a step, with the last microbatch."""
        if last or not isinstance(self.model, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.model.no_sync()

    def end_step(self) -> None: ...


class Exact:
    """Adds the gradients of all microbatches along one binary tree, whoever computed them."""

    def __init__(self, module: nn.Module, rank: Rank):
        self.model = module
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.sum = TreeSum(rank.world_size)
        torch.set_num_threads(1)  # a matrix product adds in another order with another number of threads

    def weight(self, share: float) -> float:
        return share

    @contextlib.contextmanager
    def microbatch(self, last: bool) -> Iterator[None]:
        yield
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.parameters]
        self.sum.add(torch.cat([grad.reshape(-1) for grad in grads]))
        for parameter in self.parameters:
            parameter.grad = None

    def end_step(self) -> None:
        values = torch.split(self.sum.total(), [p.numel() for p in self.parameters])
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.grad = value.view_as(parameter)


class Sharded:
    """FSDP2: parameters, gradients and optimizer state are cut along their first dimension.

    The model's blocks are gathered one at a time; the rest of it as one more. They are gathered as they are, and
    autocast alone decides what computes in bfloat16, as it does for a replicated model. FSDP2's own mixed precision
    casts inputs, rotary tables, means and norms by module: values of 101,325 +- 100 all become 101,376.
    """

    def __init__(self, module: nn.Module, blocks: Sequence[nn.Module], rank: Rank, *, cpu_offload: bool):
        """`module` may be on the CPU, of which one block at a time is then moved, or have no memory yet."""
        from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

        pinned = CPUOffloadPolicy(pin_memory=rank.device.type == "cuda")
        how: dict[str, Any] = {
            "mesh": dist.device_mesh.init_device_mesh(rank.device.type, (rank.world_size,)),
            "offload_policy": pinned if cpu_offload else OffloadPolicy(),
        }
        for member in (*blocks, module):
            member.register_forward_hook(_own_memory)
        for block in blocks:
            fully_shard(block, **how)
        self.model: Any = fully_shard(module, **how)
        self.world_size = rank.world_size

    def weight(self, share: float) -> float:
        return share * self.world_size

    @contextlib.contextmanager
    def microbatch(self, last: bool) -> Iterator[None]:
        self.model.set_requires_gradient_sync(last)
        yield

    def end_step(self) -> None: ...

    def free(self) -> None:
        """Lets go of what a forward pass has gathered that no backward pass will follow."""
        for member in self.model.modules():
            if hasattr(member, "reshard"):
                member.reshard()


def _own_memory(module: nn.Module, inputs: Any, output: Any) -> Any:
    """Copies of the views in what a module returns: FSDP2 hooks onto it, and `+=` on a view drops the hook unsaid."""
    return tree_map_only(Tensor, lambda t: t.clone() if t.requires_grad and t._base is not None else t, output)


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


def choose(
    module: nn.Module, blocks: Sequence[nn.Module], config: TrainConfig, rank: Rank
) -> Replicated | Exact | Sharded:
    if config.strategy == "fsdp":
        return Sharded(module, blocks, rank, cpu_offload=config.cpu_offload)
    return Exact(module, rank) if config.exact else Replicated(module, rank)
