"""What is done to the repeated blocks of a model (`vgp.networks.blocks`): computed again, or compiled.

It is done to a block's `forward` in place, so that no name in a state dict changes.
"""

from collections.abc import Sequence
from functools import partial

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from vgp.base.exits import UserError


def recompute(blocks: Sequence[nn.Module]) -> None:
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


def compile_in_place(module: nn.Module, parts: Sequence[nn.Module], *, deterministic: bool, asked: bool) -> None:
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
