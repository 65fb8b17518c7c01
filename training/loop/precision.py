"""The arithmetic of the forward pass: float32, or bfloat16 where that loses nothing that matters.

Autocast rounds what goes into a matrix product to 8 significant bits. Weights and activations bear it; of a raw column
of 101,325 +- 100 nothing is left but 101,376. So a layer that is given such a column computes in float32.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from training.config import TrainConfig

#: Layers that autocast computes in bfloat16.
_ROUNDED = (nn.Linear, nn.Bilinear, _ConvNd, nn.RNNBase, nn.MultiheadAttention)
#: Of a feature's variance, what rounding may take: reached by a mean of about 28 deviations.
_MOST_LOST = 1e-3


def uses_bf16(precision: str, device: torch.device) -> bool:
    """Whether the model computes in bfloat16: if asked for, or if left open and the GPU does it in hardware."""
    capable = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return precision == "bf16" or (precision == "auto" and capable)


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[Any]:
    """What the forward pass runs in; nothing in float32, since a disabled autocast costs as much as an enabled one.

    Its cache of weights in bfloat16 would hold a whole model where each rank should hold a share.
    """
    if not uses_bf16(config.precision, device):
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=config.strategy != "fsdp")


def keep_float32(module: nn.Module, forward: Callable[[], Any]) -> list[str]:
    """Names of the layers that are given raw values which bfloat16 would spoil; from now on they compute in float32.

    Args:
        forward: Runs the model in float32 on some rows. What a parameter has touched is not looked at, so that the
            answer depends on the data and the model's form alone.
    """
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, _ROUNDED)}
    spoilt: set[nn.Module] = set()

    def look(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        raw = [value for value in inputs if isinstance(value, Tensor) and not value.requires_grad]
        if any(_is_spoilt(value, 1 if isinstance(layer, _ConvNd) else -1) for value in raw):
            spoilt.add(layer)

    hooks = [layer.register_forward_pre_hook(look) for layer in layers.values()]
    training = module.training
    try:
        module.eval()
        forward()
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()
    for layer in spoilt:
        layer.forward = partial(_in_float32, layer.forward)
    return [name for name, layer in layers.items() if layer in spoilt]


def _is_spoilt(values: Tensor, features: int) -> bool:
    """Whether rounding takes too much of what a feature varies by; `features` is their dimension."""
    if values.dtype != torch.float32 or values.ndim < 2:
        return False
    table = values.movedim(features, -1).flatten(0, -2).double()
    table = torch.where(table.isfinite(), table, table.nanmean(dim=0))
    lost = (table.bfloat16().double() - table).var(dim=0)
    return bool((lost > _MOST_LOST * table.var(dim=0)).any())


def _in_float32(forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    device = next((value.device.type for value in inputs if isinstance(value, Tensor)), "cpu")
    with torch.autocast(device, enabled=False):
        return forward(*inputs, **named)
