"""Applies bfloat16 or float16 to the forward pass, except to modules whose inputs need float32.

Autocast rounds the inputs of a matrix product to 8 significant bits, or in float16 to 11 bits up to 65,504. Weights and
activations tolerate it, but a raw column of 101,325 +- 100 becomes 101,376 everywhere, or infinity. Such layers compute
in float32, and so does a module whose own code multiplies such a column, with all its submodules.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.distributed.tensor import DTensor
from torch.nn.modules.conv import _ConvNd
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from vgp.base.documents.json_text import JsonObject
from vgp.train.loop.dry_run import DryRun, Uses
from vgp.train.train_config import TrainConfig

#: Layers that autocast computes in half precision.
_ROUNDED = (nn.Linear, nn.Bilinear, _ConvNd, nn.RNNBase, nn.MultiheadAttention)
#: The operators of matrix products, and the dimension of features of each of their inputs.
_PRODUCTS = {
    "mm": (-1, -2), "bmm": (-1, -2), "mv": (-1,), "addmm": (-1, -1, -2), "baddbmm": (-1, -1, -2),
    "addbmm": (-1, -1, -2), "addmv": (-1, -1), "matmul": (-1, -2), "linear": (-1,), "convolution": (1,),
}  # fmt: skip
#: Takes the place of a module's name if the task's code multiplies raw values outside of the model.
EVERYTHING = "everything (raw values are multiplied outside of the model's modules)"
#: The share of a feature's variance that rounding may lose, reached if the mean is about 28 standard deviations.
_MOST_LOST = 1e-3


#: Compute capability from which a GPU has tensor cores for float16: V100 is 7.0, T4 7.5.
#: https://developer.nvidia.com/cuda/gpus
_TENSOR_CORES = (7, 0)


def has_bf16(device: torch.device) -> bool:
    """Whether the device is a GPU with bfloat16 in hardware; PyTorch's default also counts emulation."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def has_fp16(device: torch.device) -> bool:
    """Whether the device is a GPU with tensor cores for float16."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= _TENSOR_CORES


def half(config: TrainConfig) -> torch.dtype | None:
    """Returns the dtype of autocast for a resolved configuration; None = float32."""
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(config.precision)


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[object]:
    """Returns the autocast context of the forward pass; a null context for float32, as a disabled autocast costs time.

    With FSDP the cache is off: its copies of weights would add up to a whole model on every rank.
    """
    dtype = half(config)
    return torch.autocast(device.type, dtype, cache_enabled=config.strategy != "fsdp") if dtype else nullcontext()


def keep_float32(
    module: nn.Module, forward: Callable[[], object], dtype: torch.dtype, device: str = "cpu"
) -> list[str]:
    """Makes layers, and modules with own matrix products, compute in float32 if `dtype` would spoil their raw inputs.

    Returns their names; if `EVERYTHING` is among them, the caller must turn autocast off.

    Args:
        forward: Runs the model in float32 on some rows, for example a `DryRun`. Values computed from parameters are
            not checked, so that the result depends only on the data and the form of the model.
        device: The device type of the computation.
    """
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, _ROUNDED)}
    spoilt: set[nn.Module] = set()

    def check(layer: nn.Module, inputs: tuple[object, ...]) -> None:
        raw = [value for value in inputs if type(value) is Tensor and not value.requires_grad]
        if any(_is_spoilt(value, 1 if isinstance(layer, _ConvNd) else -1, dtype) for value in raw):
            spoilt.add(layer)

    watch = _Products(module, dtype)
    hooks = [layer.register_forward_pre_hook(check) for layer in layers.values()]
    hooks += [member.register_forward_pre_hook(watch.enter) for member in module.modules()]
    hooks += [member.register_forward_hook(watch.leave, always_call=True) for member in module.modules()]
    training = module.training
    try:
        module.eval()
        with _autocast_to_float32(device), _Switch(watch, device), watch:
            forward()
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()
    own = {name: member for name, member in module.named_modules() if member in watch.spoilt}
    for member in {*spoilt, *own.values()}:
        member.forward = partial(_in_float32, member.forward, device)
    names = [f"{name or type(m).__name__} (all of it: its own code multiplies them)" for name, m in own.items()]
    return [EVERYTHING] * watch.is_outside + names + [name for name, layer in layers.items() if layer in spoilt]


def find_rounded(module: nn.Module, run: DryRun, dtype: torch.dtype, device: str) -> list[str]:
    """Returns the names of the parameters that autocast rounds to `dtype` before every use in a dry run.

    Call it after `keep_float32`. Parameters that the run does not use are not among them.
    """
    training = module.training
    try:
        module.eval()
        with torch.autocast(device, dtype, cache_enabled=False), Uses(run, dtype) as uses:
            run()
    finally:
        module.train(training)
    return [name for name in run.weights if name in uses.rounded - uses.exact]


class _Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that finds modules whose own code, outside of PyTorch's layers, multiplies sensitive values."""

    def __init__(self, module: nn.Module, dtype: torch.dtype):
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = dtype
        self.spoilt: set[nn.Module] = set()
        #: Whether code outside of the modules multiplies sensitive values.
        self.is_outside = False
        #: Whether autocast would round the inputs of the next product; code may have turned it off.
        self.rounds = True
        self._inside: list[nn.Module] = []
        self._kept = {_memory(value) for value in (*module.parameters(), *module.buffers())}

    def enter(self, module: nn.Module, inputs: object) -> None:
        self._inside.append(module)

    def leave(self, module: nn.Module, inputs: object, outputs: object) -> None:
        if self._inside:
            self._inside.pop()

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: JsonObject | None = None
    ) -> object:
        is_layers = bool(self._inside) and isinstance(self._inside[-1], _ROUNDED)
        features = _PRODUCTS.get(func.overloadpacket.__name__, ()) if self.rounds and not is_layers else ()
        if any(self._is_spoilt(value, place) for value, place in zip(args, features, strict=False)):
            self._note()
        return func(*args, **(kwargs or {}))

    def _is_spoilt(self, value: object, features: int) -> bool:
        if (
            not isinstance(value, Tensor)
            or type(value) is not Tensor
            or value.requires_grad
            or _memory(value) in self._kept
        ):
            return False
        return _is_spoilt(value, features, self.dtype)

    def _note(self) -> None:
        if self._inside:
            self.spoilt.add(self._inside[-1])
        else:
            self.is_outside = True


class _Switch(TorchFunctionMode):
    """A mode that records whether autocast is on before each function, since the dispatcher below cannot see it."""

    def __init__(self, watch: _Products, device: str):
        super().__init__()
        self.watch, self.device = watch, device

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: JsonObject | None = None,
    ) -> object:
        self.watch.rounds = torch.is_autocast_enabled(self.device)
        return func(*args, **(kwargs or {}))


@contextmanager
def _autocast_to_float32(device: str) -> Iterator[None]:
    """Turns autocast on with float32, which changes nothing; `torch.autocast` accepts half precision only."""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_dtype(device, torch.float32)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, before[0])
        torch.set_autocast_dtype(device, before[1])


def _memory(value: Tensor) -> int:
    return 0 if value.device.type == "meta" or isinstance(value, DTensor) else value.untyped_storage().data_ptr()


def _is_spoilt(values: Tensor, features: int, dtype: torch.dtype) -> bool:
    """Whether rounding to `dtype` loses too much of a feature's variance; `features` is the dimension of features."""
    if values.dtype != torch.float32 or values.ndim < 2:
        return False
    table = values.movedim(features, -1).flatten(0, -2).double()
    table = torch.where(table.isfinite(), table, table.nanmean(dim=0))
    lost = table.to(dtype).double() - table
    return bool((lost.isinf().any(dim=0) | (lost.var(dim=0) > _MOST_LOST * table.var(dim=0))).any())


def _in_float32(forward: Callable[..., object], device: str, *inputs: object, **named: object) -> object:
    with torch.autocast(device, enabled=False):
        inputs, named = tree_map(_widen, (inputs, named))
        return forward(*inputs, **named)


def _widen(value: object) -> object:
    """Converts a tensor in half precision, from a previous layer, to float32."""
    if isinstance(value, Tensor) and value.dtype in (torch.bfloat16, torch.float16):
        return value.float()
    return value
