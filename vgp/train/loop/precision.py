"""Applies bfloat16 or float16 to the forward pass, except to modules whose inputs need float32.

Autocast rounds the inputs of a matrix product to 8 significant bits, or in float16 to 11 bits up to 65,504. Weights and
activations tolerate it, but a raw column of 101,325 +- 100 becomes 101,376 everywhere, or infinity. Such layers compute
in float32, and so does a module whose own code multiplies such a column, with all its submodules.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import cast

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
    "mm": (-1, -2), "bmm": (-1, -2), "mv": (-1, -1), "addmm": (-1, -1, -2), "baddbmm": (-1, -1, -2),
    "addbmm": (-1, -1, -2), "addmv": (-1, -1, -1), "matmul": (-1, -2), "linear": (-1,), "convolution": (1,),
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
        forward: Runs the model in float32 on some rows, for example a `DryRun`; called in evaluation mode and in
            training mode. Values that require a gradient are not checked, so that the result depends only on the data
            and the new model.
        device: The device type of the computation.
    """
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, _ROUNDED)}
    spoilt: set[nn.Module] = set()
    watch = _Products(module, dtype)

    def check(layer: nn.Module, inputs: tuple[object, ...]) -> None:
        raw = [value for value in inputs if type(value) is Tensor and not value.requires_grad]
        if any(watch.is_spoilt(value, 1 if isinstance(layer, _ConvNd) else -1, layer) for value in raw):
            spoilt.add(layer)

    hooks = [layer.register_forward_pre_hook(check) for layer in layers.values()]
    hooks += [member.register_forward_pre_hook(watch.enter) for member in module.modules()]
    hooks += [member.register_forward_hook(watch.leave, always_call=True) for member in module.modules()]
    try:
        with _autocast_to_float32(device), _Switch(watch, device), watch:
            _run_in_both_modes(module, forward)
    finally:
        for hook in hooks:
            hook.remove()
    for owner in watch.find_spoilt_owners():
        if isinstance(owner, _ROUNDED):
            spoilt.add(owner)
        else:
            watch.note(owner)
    own = {name: member for name, member in module.named_modules() if member in watch.spoilt}
    for member in {*spoilt, *own.values()}:
        member.forward = partial(_run_in_float32, member.forward, device)
    names = [f"{name or type(m).__name__} (all of it: its own code multiplies them)" for name, m in own.items()]
    return [EVERYTHING] * watch.is_outside + names + [name for name, layer in layers.items() if layer in spoilt]


def find_rounded(module: nn.Module, run: DryRun, dtype: torch.dtype, device: str) -> list[str]:
    """Returns the names of the parameters that autocast rounds to `dtype` before every use in a dry run.

    Call it after `keep_float32`. Parameters that the run does not use are not among them.
    """
    with torch.autocast(device, dtype, cache_enabled=False), Uses(run, dtype) as uses:
        _run_in_both_modes(module, run)
    return [name for name in run.weights if name in uses.rounded - uses.exact]


def _is_torch_layer(module: nn.Module) -> bool:
    """Whether the inputs of the module are those of its product, as in a layer of PyTorch, but not of a subclass."""
    return isinstance(module, _ROUNDED) and type(module).forward.__module__.startswith("torch.nn.")


def _find_features(operator: str) -> tuple[int, ...]:
    """Returns the dimension of features of each input of a matrix product or of attention; () = another operator."""
    return (-1, -1, -1) if operator.startswith("_scaled_dot_product") else _PRODUCTS.get(operator, ())


def _run_in_both_modes(module: nn.Module, run: Callable[[], object]) -> None:
    """Calls `run` with the module in evaluation mode and in training mode, which may compute other products."""
    training = module.training
    try:
        for mode in (False, True):
            module.train(mode)
            run()
    finally:
        module.train(training)


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
        self._kept = {_count_bytes(value) for value in module.parameters()}
        #: Single rows, multiplied one after another, by the module that multiplies them and their width.
        self._rows: dict[tuple[nn.Module | None, int], list[Tensor]] = {}

    def enter(self, module: nn.Module, inputs: object) -> None:
        self._inside.append(module)

    def leave(self, module: nn.Module, inputs: object, outputs: object) -> None:
        if self._inside:
            self._inside.pop()

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: JsonObject | None = None
    ) -> object:
        is_layers = bool(self._inside) and _is_torch_layer(self._inside[-1])
        features = _find_features(func.overloadpacket.__name__) if self.rounds and not is_layers else ()
        owner = self._inside[-1] if self._inside else None
        raw = [(value, place) for value, place in zip(args, features, strict=False) if self._is_raw(value)]
        if any(self.is_spoilt(cast(Tensor, value), place, owner) for value, place in raw):
            self.note(owner)
        return func(*args, **(kwargs or {}))

    def _is_raw(self, value: object) -> bool:
        return type(value) is Tensor and not value.requires_grad and _count_bytes(value) not in self._kept

    def is_spoilt(self, value: Tensor, features: int, owner: nn.Module | None) -> bool:
        """Whether rounding spoils the values; keeps a single row until `find_spoilt_owners` compares all of them."""
        if value.dtype != torch.float32 or value.ndim == 0:
            return False
        if value.numel() == value.shape[features]:
            with torch.utils._python_dispatch._disable_current_modes():
                self._rows.setdefault((owner, value.numel()), []).append(value.flatten().clone())
            return False
        return _is_spoilt(value, features, self.dtype)

    def find_spoilt_owners(self) -> list[nn.Module | None]:
        """Returns the modules whose single rows rounding spoils, seen together; None = code outside of modules."""
        return [owner for (owner, _), rows in self._rows.items() if _is_spoilt(torch.stack(rows), -1, self.dtype)]

    def note(self, owner: nn.Module | None) -> None:
        if owner is None:
            self.is_outside = True
        else:
            self.spoilt.add(owner)


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


def _count_bytes(value: Tensor) -> int:
    return 0 if value.device.type == "meta" or isinstance(value, DTensor) else value.untyped_storage().data_ptr()


def _is_spoilt(values: Tensor, features: int, dtype: torch.dtype) -> bool:
    """Whether rounding to `dtype` loses too much of a feature's variance; `features` is the dimension of features."""
    table = values.movedim(features, -1).flatten(0, -2).double()
    table = torch.where(table.isfinite(), table, table.nanmean(dim=0))
    lost = table.to(dtype).double() - table
    return bool((lost.isinf().any(dim=0) | (lost.var(dim=0) > _MOST_LOST * table.var(dim=0))).any())


def _run_in_float32(forward: Callable[..., object], device: str, *inputs: object, **named: object) -> object:
    with torch.autocast(device, enabled=False):
        inputs, named = tree_map(_widen, (inputs, named))
        return forward(*inputs, **named)


def _widen(value: object) -> object:
    """Converts a tensor in half precision, from a previous layer, to float32."""
    if isinstance(value, Tensor) and value.dtype in (torch.bfloat16, torch.float16):
        return value.float()
    return value
