"""A small transformer trained with FSDP2: the bytes sent between ranks, and those held until the backward pass."""

from typing import Any

import torch
from accumulated import batch, model
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from training.tasks.language_model import LanguageModel
from vgp.train.loop.learner import Learner
from vgp.train.loop.sample_order import Plan
from vgp.train.train_config import TrainConfig


class Task(LanguageModel):
    def model(self, data: Any) -> Any:
        return model()


class Reader(Task):
    """Reads the value of an output, which a dry run does not have."""

    def loss(self, model: Any, batch: Any) -> Any:
        loss = super().loss(model, batch)
        return loss if float(model(batch["tokens"][:, :-1]).sum().detach()) < torch.inf else loss * 2


class Traffic(TorchDispatchMode):
    """Adds up the bytes of gathered parameters and of reduced gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: dict[str, int] = {}
        self.gathers = self.early = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator.namespace == "c10d" and operator.name() == "c10d::allreduce_":
            size = sum(tensor.nbytes for tensor in args[0])
            self.bytes[operator.name()] = self.bytes.get(operator.name(), 0) + size
        if operator.namespace == "c10d" and isinstance(args[0], Tensor):
            size = max(args[0].nbytes, args[1].nbytes)  # the whole one, not a rank's share
            self.bytes[operator.name()] = self.bytes.get(operator.name(), 0) + size
            self.gathers += 1
        if operator is torch.ops.aten.mm.default:
            self.early = self.early or self.gathers
        return operator(*args, **(kwargs or {}))


def figures(argument: dict[str, Any], rank: Any) -> dict[str, Any]:
    """By name: losses and norms of three steps, bytes held for the backward pass, and bytes sent in the last step."""
    found = {}
    for name, (task, stays, changes) in argument.items():
        config = TrainConfig(task="language_model", compile=False, **changes)
        plan = Plan(samples=96, epochs=1, global_batch_size=12, microbatches=4, seed=0)
        own = range(4 * rank.rank // rank.world_size, 4 * (rank.rank + 1) // rank.world_size)
        one = Learner(globals()[task](), None, config, plan, rank, own, batch(0))
        one.warm_up(batch(1))
        if one.sharded:
            one.gradients.stays = stays
        losses = []
        for step in range(3):
            with Traffic() as traffic:
                parts = one.step(step, (batch(10 * step + number) for number in own))
            norm = float(one.norm.total)
            losses.append({"parts": [part.tolist() for part in parts], "norm": norm})
        blocks = sum(p.numel() for p in one.module.blocks.parameters() if p.ndim == 2)
        found[name] = {
            "losses": losses, "held": held(one), "gathered": traffic.bytes.get("c10d::_allgather_base_"),
            "reduced": traffic.bytes.get("c10d::_reduce_scatter_base_"),
            "line": one.rounding.describe_gathers(one.module, config),
            "all-reduced": traffic.bytes.get("c10d::allreduce_"),
            "early": traffic.early, "matrices": blocks, "others": one.parameter_count() - blocks,
        }  # fmt: skip
    return found


def held(one: Any) -> int:
    """Bytes in the shape of a block's weights that a forward pass keeps, besides the gathered weights themselves."""
    shapes = {shape for p in one.module.blocks.parameters() if p.ndim == 2 for shape in (p.shape, p.shape[::-1])}
    kept: dict[int, Any] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.shape in shapes:
            kept[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        return tensor

    with one.autocast, saved_tensors_hooks(keep, lambda tensor: tensor):
        one.gradients.loss(batch(1))
    size = sum(storage.nbytes() for storage in kept.values())
    if one.sharded:
        one.gradients.free()
    return size
