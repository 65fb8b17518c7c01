"""Runs a loss without its weights: only operations on raw values compute, all others have shapes and types alone.

Weights are stand-ins without memory (`FakeTensor`), and so is everything computed from them. A dry run therefore takes
the time and memory of the data's preparation, for a model of any size, before the model has memory or is sharded.
"""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vgp.base.documents.json_text import JsonObject
from vgp.data.task import Batch
from vgp.train.loop.attributes import keep_attributes
from vgp.train.loop.gradients import Loss

#: Parameters that are not trained, and vectors, may keep their values up to this size, such as means of raw columns.
_FEW = 65_536


class DryRun:
    """A loss with stand-ins for the weights of its model; its call returns the loss without a value.

    A loss that reads the value of an output, for example with `.item()`, raises an error of its own.
    """

    def __init__(self, loss: Loss, rows: Batch, device: torch.device, *, keeps_vectors: bool = False):
        """
        Args:
            keeps_vectors: Whether trained vectors, such as gains of raw columns, keep their initial values.
        """
        self.loss, self.rows = loss, rows
        mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        #: The stand-ins by the names of the parameters in the model.
        self.weights: dict[str, Tensor] = {}
        self.buffers = {f"module.{name}": buffer.to(device) for name, buffer in loss.module.named_buffers()}
        for name, parameter in loss.module.named_parameters():
            is_trained = parameter.requires_grad and not (keeps_vectors and parameter.ndim < 2)
            if is_trained or parameter.is_meta or parameter.numel() > _FEW:
                with mode:
                    empty = torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
                    self.weights[name] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
            else:
                self.weights[name] = parameter.detach().to(device)

    def __call__(self) -> object:
        copies = {name: buffer.clone() for name, buffer in self.buffers.items()}  # which the loss may change
        values = copies | {f"module.{name}": weight for name, weight in self.weights.items()}
        with keep_attributes(self.loss.module), _Masks():  # type: ignore[no-untyped-call]
            return functional_call(self.loss, values, (self.rows,))


class _Masks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that selects by a mask of raw values, such as of missing ones, with the known number of its elements."""

    def __torch_dispatch__(
        self, operator: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: JsonObject | None = None
    ) -> object:
        if operator is torch.ops.aten.masked_select.default:
            operator, args = torch.ops.aten.index.Tensor, (args[0], [args[1]])
        if operator is torch.ops.aten.index.Tensor and isinstance(args[0], FakeTensor):
            indices = [_positions(index) for index in cast(list[Tensor | None], args[1])]
            args = (args[0], [position for positions in indices for position in positions])
        return operator(*args, **(kwargs or {}))


def _positions(index: Tensor | None) -> Sequence[Tensor | None]:
    """Returns the positions of a mask's elements by dimension; any other index as it is."""
    is_mask = type(index) is Tensor and index.dtype == torch.bool
    return index.nonzero(as_tuple=True) if index is not None and is_mask else [index]


class Uses(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that records which weights of a dry run operators round to `dtype`, and which ones they use exactly."""

    def __init__(self, run: DryRun, dtype: torch.dtype):
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = dtype
        self.names = {_storage_bytes(w): name for name, w in run.weights.items() if isinstance(w, FakeTensor)}
        self.rounded: set[str] = set()
        self.exact: set[str] = set()

    def __torch_dispatch__(
        self, operator: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: JsonObject | None = None
    ) -> object:
        result = operator(*args, **(kwargs or {}))
        storages = {_storage_bytes(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, FakeTensor)}
        for name in {self.names[storage] for storage in storages & self.names.keys()}:
            if operator is torch.ops.aten._to_copy.default and cast(Tensor, result).dtype == self.dtype:
                self.rounded.add(name)
            elif not (operator.is_view or operator.namespace == "prim"):  # `prim` reads the device
                self.exact.add(name)
        return result


def _storage_bytes(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def run_without_graph(forward: Callable[[], object]) -> object:
    """Calls `forward` with gradients turned on, but keeps no tensors for a backward pass."""
    with saved_tensors_hooks(lambda tensor: None, lambda kept: kept):
        return forward()
