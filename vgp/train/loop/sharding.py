"""Splits a model over the ranks (FSDP2): parameters, gradients and optimizer state, along their first dimension.

FSDP2 gathers the model's blocks one at a time, and the rest of the model as one more unit. Parameters that autocast
would round in every use are gathered in half precision: half the traffic, and no rounded copy stays in memory from the
forward to the backward pass. All other parameters, such as those of norms and of layers on raw values, are gathered in
float32. Inputs are never cast (`cast_forward_inputs=False`), so the results have the bits of autocast on a replicated
model.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam
from torch.utils._pytree import tree_map_only

from vgp.train.checkpoint.training_state import own_share
from vgp.train.loop import precision
from vgp.train.loop.block_usage import BlockUsage
from vgp.train.loop.gradients import Exact, Loss, Replicated
from vgp.train.processes.rank import Rank
from vgp.train.train_config import TrainConfig

#: The share of a GPU's memory that a step may take if parameters stay gathered; fragments and the network library's
#: buffers take the rest: an estimate, not measured.
_MOST_MEMORY = 0.85
#: Bytes of optimizer state for each byte of a parameter, as AdamW has.
_OPTIMIZER = 2


class Sharded:
    """A share of the model on every rank, and the exchange of its gradients."""

    def __init__(self, loss: Loss, blocks: Sequence[nn.Module], config: TrainConfig, rank: Rank,
                 rounded: Collection[str] = (), *, several: bool = False):  # fmt: skip
        """Shards the model, which may be on the CPU (its blocks move one at a time) or on the meta device.

        Args:
            config: With the precision resolved.
            rounded: Names of the parameters to gather in half precision.
            several: Whether a step has several microbatches, whose gradients add up before they are exchanged.
        """
        places = {_place(loss.module, name) for name in rounded}
        #: The bytes of all gathered parameters.
        self.gathered_bytes = sum(
            p.numel() * (2 if _place(loss.module, name) in places else p.element_size())
            for name, p in loss.module.named_parameters()
        )
        mesh = dist.device_mesh.init_device_mesh(rank.device.type, (rank.world_size,))
        pinned = CPUOffloadPolicy(pin_memory=rank.device.type == "cuda")
        policy = MixedPrecisionPolicy(
            param_dtype=precision.half(config) if places else None,
            reduce_dtype=torch.bfloat16 if config.gradient_precision == "bf16" else None, cast_forward_inputs=False,
        )  # fmt: skip
        split = partial(
            fully_shard, mesh=mesh, offload_policy=pinned if config.cpu_offload else OffloadPolicy(), mp_policy=policy
        )
        for member in (*blocks, loss):
            member.register_forward_hook(_own_memory)
        #: The blocks, whose class FSDP2 has changed.
        self.blocks = [split(block) for block in blocks]
        self.unit = split(loss)
        for unit in (*self.blocks, self.unit):
            _adopt(unit, places)
        self.loss: nn.Module = loss
        self.unit.set_reduce_scatter_unused_params(True)  # keeps message lengths equal if branches differ between ranks
        self.rank, self.within_s, self.several = rank, config.hang_after_s, several
        #: Whether gathered parameters stay from the forward to the backward pass and for all microbatches of a step;
        #: equal on every rank.
        self.stays = rank.device.type != "cuda"
        self.use = BlockUsage(
            loss.module, loss, blocks, rank, every_step=config.unused_parameters, within_s=self.within_s
        )

    @property
    def unused(self) -> bool:
        return self.use.every_step

    @property
    def calls(self) -> int:
        return self.use.calls

    def rehearse(self, backward: Callable[[], object]) -> list[str]:
        """Runs a first backward pass; returns the names of parameters that it does not use on this rank."""
        absent = self.use.rehearse(backward)
        self.stays = all(self.rank.exchange(self._fits_gathered(), within_s=self.within_s))
        if not self.use.every_step:
            self._prefetch(self.use.order)
        return absent

    def _fits_gathered(self) -> bool:
        """Whether the GPU has room for all gathered parameters besides the peak of the first backward pass."""
        device = self.rank.device
        if device.type != "cuda":
            return True
        parameters = list(self.loss.parameters())
        own = sum(share.numel() * share.element_size() for share in map(own_share, parameters) if share.is_cuda)
        gradients = 4 * sum(p.numel() for p in parameters if p.requires_grad) if self.several else 0
        needed = torch.cuda.max_memory_allocated(device) + _OPTIMIZER * own + self.gathered_bytes + gradients
        return needed <= _MOST_MEMORY * torch.cuda.get_device_properties(device).total_memory

    def _prefetch(self, order: Sequence[nn.Module]) -> None:
        """Gathers each block before the one that is called before it computes, if a pass calls every block once.

        In the backward pass FSDP2 does so by itself.
        """
        units = [unit for unit in order if isinstance(unit, FSDPModule)]
        if len(units) == len(set(units)) == len(self.blocks) + 1:
            for unit, following in zip(units, units[1:], strict=False):
                unit.set_modules_to_forward_prefetch([following])

    def weight(self, share: float) -> float:
        return share * self.rank.world_size

    @contextlib.contextmanager
    def microbatch(self, last: bool) -> Iterator[None]:
        """Wraps a microbatch; gradients are exchanged once a step, with the last microbatch.

        If there is room, parameters are gathered once a step, and not again for each pass of each microbatch.
        """
        self.unit.set_requires_gradient_sync(last)
        self.unit.set_reshard_after_backward(last or not self.stays)
        for block in self.blocks:
            block.set_reshard_after_forward(not self.stays)
        yield

    def end_step(self) -> None:
        self.use.end_step()

    def free(self) -> None:
        """Frees the gathered parameters of a forward pass without a backward pass."""
        for member in self.loss.modules():
            if isinstance(member, FSDPModule):
                member.reshard()


Gradients: TypeAlias = Replicated | Exact | Sharded


class _InFloat32(FSDPParam):
    """A parameter that is gathered in its own type, though others of its unit are gathered in half precision.

    FSDP2 exchanges the gradients of a unit in one message of one type, so all have the type of the parameters. autograd
    converts them as it would the gradient of a parameter that autocast has rounded.
    """

    is_rounded = False

    def init_dtype_attrs(self, mp_policy: MixedPrecisionPolicy) -> None:
        super().init_dtype_attrs(mp_policy if self.is_rounded else replace(mp_policy, param_dtype=None))
        self.reduce_dtype = mp_policy.reduce_dtype  # one for the unit

    def to_accumulated_grad_if_needed(self) -> None:
        """Keeps the gradient of several microbatches in the type of the parameter until it is exchanged."""

    def init_unsharded_param(self) -> None:
        super().init_unsharded_param()  # type: ignore[no-untyped-call]
        if self._unsharded_param.grad_dtype != self.orig_dtype:
            self._unsharded_param.grad_dtype = self.orig_dtype

    @property
    def unsharded_zero_grad_data(self) -> Tensor:
        return super().unsharded_zero_grad_data.to(self.orig_dtype)


class _Rounded(_InFloat32):
    """A parameter that is gathered in half precision."""

    is_rounded = True


def _adopt(unit: FSDPModule, places: Collection[tuple[nn.Module, str]]) -> None:
    for group in unit._get_fsdp_state()._fsdp_param_groups:
        for parameter in group.fsdp_params:
            place = parameter._module_info.module, parameter._module_info.param_name
            parameter.__class__ = _Rounded if place in places else _InFloat32


def _place(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    owner, _, attribute = name.rpartition(".")
    return module.get_submodule(owner), attribute


def _own_memory(module: nn.Module, inputs: object, output: object) -> object:
    """Clones views in a module's output: FSDP2 hooks onto the output, and `+=` on a view silently drops the hook."""
    return tree_map_only(Tensor, lambda t: t.clone() if t.requires_grad and t._base is not None else t, output)
