"""The arithmetic of the forward pass: float32, or bfloat16 or float16 where that loses nothing that matters.

Autocast rounds what goes into a matrix product to 8 significant bits; in float16 to 11, up to 65,504. Weights and
activations bear it; of a raw column of 101,325 +- 100 nothing is left but 101,376, or infinity. So a layer that is
given such a column computes in float32.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from training.config import TrainConfig

#: Layers that autocast computes in half precision.
_ROUNDED = (nn.Linear, nn.Bilinear, _ConvNd, nn.RNNBase, nn.MultiheadAttention)
#: Of a feature's variance, what rounding may take: reached by a mean of about 28 deviations.
_MOST_LOST = 1e-3


#: Compute capability from which a GPU has tensor cores for float16: V100 is 7.0, T4 7.5.
#: https://developer.nvidia.com/cuda/gpus
_TENSOR_CORES = (7, 0)


def has_bf16(device: torch.device) -> bool:
    """Whether it is a GPU that computes bfloat16 in hardware: PyTorch alone would count those that emulate it."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def has_fp16(device: torch.device) -> bool:
    """Whether it is a GPU with tensor cores for float16."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= _TENSOR_CORES


def half(config: TrainConfig) -> torch.dtype | None:
    """What autocast computes in; None = all is float32. Of a configuration that leaves nothing open."""
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(config.precision)


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[Any]:
    """What the forward pass runs in; nothing in float32, since a disabled autocast costs as much as an enabled one.

    Its cache of weights in half precision would hold a whole model where each rank should hold a share.
    """
    dtype = half(config)
    return torch.autocast(device.type, dtype, cache_enabled=config.strategy != "fsdp") if dtype else nullcontext()


def keep_float32(module: nn.Module, forward: Callable[[], Any], dtype: torch.dtype) -> list[str]:
    """Names of the layers that are given raw values which `dtype` would spoil; from now on they compute in float32.

    Args:
        forward: Runs the model in float32 on some rows. What a parameter has touched is not looked at, so that the
            answer depends on the data and the model's form alone.
    """
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, _ROUNDED)}
    spoilt: set[nn.Module] = set()

    def look(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        raw = [value for value in inputs if isinstance(value, Tensor) and not value.requires_grad]
        if any(_is_spoilt(value, 1 if isinstance(layer, _ConvNd) else -1, dtype) for value in raw):
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


def _is_spoilt(values: Tensor, features: int, dtype: torch.dtype) -> bool:
    """Whether rounding takes too much of what a feature varies by; `features` is their dimension."""
    if values.dtype != torch.float32 or values.ndim < 2:
        return False
    table = values.movedim(features, -1).flatten(0, -2).double()
    table = torch.where(table.isfinite(), table, table.nanmean(dim=0))
    lost = table.to(dtype).double() - table
    return bool((lost.isinf().any(dim=0) | (lost.var(dim=0) > _MOST_LOST * table.var(dim=0))).any())


def _in_float32(forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    device = next((value.device.type for value in inputs if isinstance(value, Tensor)), "cpu")
    with torch.autocast(device, enabled=False):
        return forward(*inputs, **named)
