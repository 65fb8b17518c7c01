"""Chooses the modules that compute in float32, and the parameters that FSDP2 gathers in half precision.

Both follow from a dry run of the loss, before a model is sharded. A loss that rejects a dry run, because it reads the
value of an output, runs for real on some rows, and all parameters are gathered in float32.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data.task import Batch
from vgp.train.loop import precision
from vgp.train.loop.dry_run import DryRun
from vgp.train.loop.gradients import Loss
from vgp.train.processes.rank import Rank
from vgp.train.train_config import TrainConfig


@dataclass
class Rounding:
    """The parts of a model that are computed and gathered in float32; equal on every rank."""

    #: Names of the modules that compute in float32.
    in_float32: list[str]
    #: Names of the parameters that FSDP2 gathers in half precision.
    gathered_half: list[str]
    #: Why the loss rejects a dry run; "" = it does not.
    obstacle: str = ""

    def describe_gathers(self, module: nn.Module, config: TrainConfig) -> str:
        """Returns a sentence about the precision in which FSDP2 gathers the parameters."""
        if self.obstacle:
            return f"fsdp gathers all parameters in float32, because the loss cannot run without them: {self.obstacle}"
        sizes = {name: parameter.numel() for name, parameter in module.named_parameters()}
        share = sum(sizes[name] for name in self.gathered_half) / sum(sizes.values())
        return f"fsdp gathers {share:.1%} of the parameters in {config.precision}, and the others in float32"


def find_rounding(loss: Loss, rows: Batch, config: TrainConfig, rank: Rank, *, within_s: float) -> Rounding:
    """Makes modules with sensitive raw inputs compute in float32, by a dry run; all ranks must call it.

    Args:
        rows: Some rows, equal on every rank.
        config: With the precision resolved.
        within_s: How long ranks wait for each other.

    Raises:
        UserError: tf32=true, but the model multiplies raw values.
    """
    found, dtype = Rounding([], []), precision.half(config)
    try:
        dry = DryRun(loss, rows, rank.device, keeps_vectors=True)
        found.in_float32 = keep_float32(loss.module, dry, rows, config, rank.device)
        if config.strategy == "fsdp" and dtype and precision.EVERYTHING not in found.in_float32:
            dry = DryRun(loss, rows, rank.device)
            found.gathered_half = precision.find_rounded(loss.module, dry, dtype, rank.device.type)
    except UserError:
        raise
    except Exception as error:  # the task's code may fail in any way; an error of its own occurs again in a real run
        reason = str(error).partition(".")[0].partition("\n")[0]
        found.obstacle = f"{type(error).__name__}: {reason:.100}"
    if rank.world_size > 1:
        results = rank.exchange((found.obstacle, found.gathered_half), within_s=within_s)
        found.obstacle, found.gathered_half = next((result for result in results if result[0]), results[0])
    return found


def keep_float32(
    module: nn.Module, forward: Callable[[], object], rows: Batch, config: TrainConfig, device: torch.device
) -> list[str]:
    """Makes modules with sensitive raw inputs compute in float32; returns their names.

    Args:
        forward: Runs the loss on the `rows`, dry or for real.

    Raises:
        UserError: tf32=true, but the model multiplies raw values.
    """
    has_floats, dtype = any(values.is_floating_point() for values in rows.values()), precision.half(config)
    if config.tf32:
        dtype = dtype or torch.float16  # which has as many bits as TF32
    if not has_floats or dtype is None:
        return []
    names = precision.keep_float32(module, forward, dtype, device.type)
    if names and config.tf32:
        raise UserError(
            f"tf32=true would round raw values that need all bits of float32: inputs of {join_names(names)}. "
            "Standardise them in the task, or set tf32=false."
        )
    return names
