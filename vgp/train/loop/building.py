"""The model that a rank trains: whole, or its share of it, as the seed makes it.

What is done to the repeated blocks of a model (`vgp.networks.blocks`): computed again, or compiled.

It is done to a block's `forward` in place, so that no name in a state dict changes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from vgp.base.exits import UserError
from vgp.data.task import Task
from vgp.protocol.manifest import Manifest
from vgp.train.config import TrainConfig
from vgp.train.loop import gradients, optimizers, recording, shards
from vgp.train.loop.gradients import Gradients, Loss
from vgp.train.loop.memory import return_what_is_freed
from vgp.train.loop.order import seed_of
from vgp.train.processes.rank import Rank


@dataclass(frozen=True)
class Built:
    """A new model, its weights those of the seed."""

    module: nn.Module
    #: Names of the parameters that the setting `freeze` keeps as they are.
    frozen: list[str]
    #: Why a sharded model was first made whole on every rank; "" = it was not.
    made_whole: str = ""


def whole(task: Task, data: Manifest, config: TrainConfig, rank: Rank) -> Built:
    """The model, all of it on this rank's device."""
    module = _new_model(task, data, config).to(rank.device)
    return Built(module, optimizers.freeze(module, config.freeze))


def sharded(task: Task, data: Manifest, config: TrainConfig, rank: Rank, patience_s: float) -> tuple[Built, Gradients]:
    """The model cut over all ranks, its values those of the whole one, which there is nowhere if that can be.

    Args:
        patience_s: How long ranks wait for one that works alone on its model.
    """
    return_what_is_freed()
    recorded: shards.Deferred | None = None
    why = ""
    try:
        recorded = shards.build_deferred(partial(_new_model, task, data, config))
    except recording.Unrecordable as error:
        why = str(error)
    made_whole = next(filter(None, rank.exchange(why, within_s=patience_s)), "")
    if made_whole:
        recorded = None
    module = recorded.module if recorded else _new_model(task, data, config)
    frozen = optimizers.freeze(module, config.freeze)
    cut = gradients.choose(Loss(module, task.loss), task.blocks(module), config, rank)
    if recorded:
        shards.fill(module, recorded, rank, on_cpu=config.cpu_offload)
    return Built(module, frozen, made_whole), cut


def _new_model(task: Task, data: Manifest, config: TrainConfig) -> nn.Module:
    """The task's model on the CPU, as the seed makes it."""
    seed_everything(seed_of(config.seed, "model"))
    return task.model(data)


# ---- the seeds of everything that draws: Python, numpy and torch, on this process's device


def seed_everything(seed: int) -> None:
    """For code that runs once, such as the making of a model."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def seed_step(seed: int, step: int | str, microbatch: int, device: torch.device) -> None:
    """Dropout of a microbatch depends on its place alone. `torch.manual_seed` would cost 340 us more."""
    number = seed_of(seed, step, microbatch)
    random.seed(number)
    np.random.seed(number % 2**32)
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(number)


def recompute_blocks(blocks: Sequence[nn.Module]) -> None:
    """Activation checkpointing: keeps only what goes into a block, and runs it again in the backward pass.

    Dropout draws the same again. Blocks with batch norm stay as they are: a second pass would count a batch twice.

    Raises:
        UserError: no block can be recomputed.
    """
    chosen = [block for block in blocks if not any(isinstance(m, _BatchNorm) for m in block.modules())]
    if not chosen:
        raise UserError(
            "activation_checkpointing=true finds no blocks to recompute: keep the model's repeated blocks, without "
            "batch norm, in an nn.ModuleList, or name them in the task's `blocks`."
        )
    for block in chosen:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def compile_blocks(module: nn.Module, parts: Sequence[nn.Module], *, deterministic: bool, asked: bool) -> None:
    """Compiles each part, such as a block, or the whole model where there are none.

    Equal blocks share one compilation, and gradients of a block leave while the next one is still computed.

    Args:
        deterministic: Whether kernels must not be chosen by their time, which differs from run to run.
        asked: Whether the user wants it; else what cannot be compiled runs as it is, with a warning of PyTorch.
    """
    import torch._dynamo.config
    import torch._inductor.config

    torch._inductor.config.deterministic = deterministic
    torch._dynamo.config.suppress_errors = not asked
    for part in parts:
        part.forward = torch.compile(part.forward)
    if not parts:
        module.compile()
