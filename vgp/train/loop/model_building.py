"""Builds the model that a rank trains, whole or sharded, with the initial weights of the seed.

Building a sharded model never needs memory for all its weights: no rank holds more than one of them whole. While the
user's constructor runs, operations on large tensors are recorded (`recording`) and repeated later, bit by bit, for one
tensor at a time. Small tensors are always real, so a constructor may read them.

A parameter of shape (n, ...) is split along its first dimension as `torch.chunk` does. FSDP2 pads the shares to one
size, and so do the messages here.
"""

import contextlib
import ctypes
import gc
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.overrides import TorchFunctionMode

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data.task import Task
from vgp.protocol.manifest import Manifest
from vgp.train.checkpoint.training_state import own_share
from vgp.train.loop import optimizers
from vgp.train.loop.gradients import Loss
from vgp.train.loop.sample_order import seed_of
from vgp.train.loop.sharding import Sharded
from vgp.train.loop.tensor_recording import Recording, Unrecordable, View
from vgp.train.processes.rank import Rank
from vgp.train.train_config import TrainConfig


@dataclass(frozen=True)
class Built:
    """A new model with the initial weights of the seed."""

    module: nn.Module
    #: Names of the parameters that the setting `freeze` excludes from training.
    frozen: list[str]
    #: Why a sharded model was first built whole on every rank; "" = it was not.
    made_whole: str = ""
    #: The weights that have no memory until the model is sharded.
    deferred: "Deferred | None" = None


def build_whole(task: Task, data: Manifest, config: TrainConfig, rank: Rank) -> Built:
    """Builds the whole model on this rank's device."""
    module = _new_model(task, data, config).to(rank.device)
    return Built(module, optimizers.freeze(module, config.freeze))


def build_to_shard(task: Task, data: Manifest, config: TrainConfig, rank: Rank, patience_s: float) -> Built:
    """Builds the model that `shard` splits, if possible without memory for its large weights.

    Args:
        patience_s: How long ranks wait for a rank that builds its model.
    """
    return_freed_memory()
    recorded: Deferred | None = None
    reason = ""
    try:
        recorded = build_deferred(partial(_new_model, task, data, config))
    except Unrecordable as error:
        reason = str(error)
    made_whole = next(filter(None, rank.exchange(reason, within_s=patience_s)), "")
    if made_whole:
        recorded = None
    module = recorded.module if recorded else _new_model(task, data, config)
    return Built(module, optimizers.freeze(module, config.freeze), made_whole, recorded)


def require_frozen_names(task: Task, data: Manifest, config: TrainConfig) -> None:
    """Raises UserError if a pattern of `freeze` matches no parameter, before any row is read.

    A model that cannot be built without memory is checked when it is built.
    """
    try:
        with torch.device("meta"):
            module = task.model(data)
    except Exception:  # an error of the constructor itself occurs again when the model is built
        return
    optimizers.freeze(module, config.freeze)


def shard(
    built: Built, task: Task, config: TrainConfig, rank: Rank, rounded: Collection[str], *, several: bool
) -> Sharded:
    """Splits a new model over all ranks, with the values of the whole model; arguments as for `Sharded`."""
    loss = Loss(built.module, task.loss)
    sharded = Sharded(loss, task.blocks(built.module), config, rank, rounded, several=several)
    if built.deferred:
        fill(built.module, built.deferred, rank, on_cpu=config.cpu_offload)
    return sharded


def _new_model(task: Task, data: Manifest, config: TrainConfig) -> nn.Module:
    """Returns the task's model on the CPU, with the initial weights of the seed.

    Raises:
        UserError: it holds parameters or a state that training cannot exchange or save.
    """
    seed_everything(seed_of(config.seed, "model"))
    module = task.model(data)
    _require_trainable_types(module, is_sharded=config.strategy == "fsdp")
    return module


def _require_trainable_types(module: nn.Module, *, is_sharded: bool) -> None:
    parameters = dict(module.named_parameters())
    if names := [name for name, parameter in parameters.items() if parameter.is_complex()]:
        raise UserError(
            f"these parameters of the model are complex numbers: {join_names(names)}. Store the real and imaginary "
            "parts as floats, in a last dimension of 2, and use torch.view_as_complex in `forward`."
        )
    if names := [name for name, value in module.state_dict().items() if not isinstance(value, Tensor)]:
        raise UserError(
            f"the state of the model holds values that are not tensors: {join_names(names)}. Register them as buffers "
            "instead of get_extra_state, so that a checkpoint can hold them."
        )
    if is_sharded and (names := [name for name, p in parameters.items() if not p.ndim or not p.numel()]):
        raise UserError(
            f"strategy=fsdp cannot split these parameters: {join_names(names)}. Give a single number the shape (1,), "
            "and leave out an empty parameter."
        )
    types = {str(parameter.dtype).removeprefix("torch.") for parameter in parameters.values()}
    if is_sharded and len(types) > 1:
        raise UserError(
            f"strategy=fsdp needs parameters of one type; the model has {' and '.join(sorted(types))}. Convert them in "
            "the task's `model`, for example with model.float()."
        )


def return_freed_memory() -> None:
    """Makes glibc return the memory of large tensors to the system as soon as they are freed.

    By default it keeps blocks of up to 32 MiB in a fragmented heap, which grew to three times the memory in use
    (M_MMAP_THRESHOLD, mallopt(3)). Does nothing with other C libraries.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(-3, 1 << 20)


def seed_everything(seed: int) -> None:
    """Seeds Python, NumPy and torch for code that runs once, such as a model's constructor."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def seed_step(seed: int, step: int | str, microbatch: int, device: torch.device) -> None:
    """Seeds Python, NumPy and torch for a microbatch, so that dropout depends on its position alone.

    Takes 340 us less than `torch.manual_seed`.
    """
    number = seed_of(seed, step, microbatch)
    random.seed(number)
    np.random.seed(number % 2**32)
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(number)


@dataclass
class Deferred:
    """A module whose large parameters are on the meta device, and the recording that gives their values."""

    module: nn.Module
    recording: Recording
    #: The large parameters by name; all others are real.
    views: dict[str, View]

    def value(self, name: str) -> Tensor:
        """Returns the initial value of a parameter, whole, on the CPU."""
        return self.recording.value(self.views[name])


def build_deferred(make: Callable[[], nn.Module]) -> Deferred:
    """Calls `make` and returns its module, with large parameters deferred and buffers real.

    Raises:
        Unrecordable: `make` needs the values of its weights; build the module whole instead.
    """
    recording = Recording()
    try:
        with _LooksReal(recording), recording:
            module = make()
    except Unrecordable:
        raise
    except Exception as error:  # an error of the constructor itself occurs again when the module is built whole
        raise Unrecordable(" ".join(f"{type(error).__name__}: {error}".split())[:200]) from error
    _fill_buffers(module, recording)
    views = {name: view for name, parameter in module.named_parameters() if (view := recording.view(parameter))}
    _require_nothing_else(module, recording)
    return Deferred(module, recording, views)


class _LooksReal(TorchFunctionMode):
    """A mode in which deferred tensors report the CPU as their device."""

    def __init__(self, recording: Recording):
        super().__init__()
        self.recording = recording

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[Tensor, ...] = (),
        kwargs: JsonObject | None = None,
    ) -> object:
        answers: dict[Callable[..., object], object] = {
            torch.Tensor.device.__get__: torch.device("cpu"), torch.Tensor.is_meta.__get__: False,  # type: ignore[attr-defined]
            torch.Tensor.is_cpu.__get__: True,  # type: ignore[attr-defined]
        }  # fmt: skip
        if func in answers and self.recording.view(args[0]):
            return answers[func]
        return func(*args, **(kwargs or {}))


def _fill_buffers(module: nn.Module, recording: Recording) -> None:
    values: dict[Tensor, Tensor] = {}
    for member in module.modules():
        for name, buffer in member._buffers.items():
            if buffer is not None and (view := recording.view(buffer)):
                if buffer not in values:
                    values[buffer] = recording.value(view).requires_grad_(buffer.requires_grad)
                member._buffers[name] = values[buffer]


def _require_nothing_else(module: nn.Module, recording: Recording) -> None:
    """Raises Unrecordable if a large tensor besides the parameters exists, which would never get a value."""
    gc.collect()
    known = {id(parameter) for parameter in module.parameters()}
    for item in gc.get_objects():
        if issubclass(type(item), Tensor) and id(item) not in known and recording.view(item):
            raise Unrecordable(f"a tensor of shape {list(item.shape)} that is neither a parameter nor a buffer is kept")


def fill(module: nn.Module, deferred: Deferred, rank: Rank, *, on_cpu: bool) -> None:
    """Fills the deferred parameters with their initial values; every rank must call it.

    Each rank computes every n-th parameter whole and sends each rank its share.

    Args:
        on_cpu: Whether the shares stay in host memory.
    """
    waiting = [name for name, parameter in module.named_parameters() if own_share(parameter).is_meta]
    for start in range(0, len(waiting), rank.world_size):
        group = waiting[start : start + rank.world_size]
        own = deferred.value(group[rank.rank]) if rank.rank < len(group) else None
        for owner, name in enumerate(group):
            share = _scatter(own if owner == rank.rank else None, owner, module.get_parameter(name), rank)
            _replace(module, module.get_parameter(name), share.cpu() if on_cpu else share)


def pieces(tensor: Tensor, rank: Rank) -> Iterator[Tensor]:
    """Yields the values of a tensor of the model, on rank 0, as consecutive CPU tensors along its first dimension.

    Every rank must call it; the others yield nothing.
    """
    tensor = tensor.detach()
    if not isinstance(tensor, DTensor):
        if rank.leads:
            yield tensor.cpu()
        return
    local, rows = tensor.to_local(), _count_rows(tensor, rank.world_size)
    if rank.world_size == 1:
        yield local.cpu()
        return
    sent = local.new_zeros((rows, *tensor.shape[1:]))
    sent[: len(local)] = local
    shares = [torch.empty_like(sent) for _ in range(rank.world_size)] if rank.leads else None
    dist.gather(sent, shares, dst=0)
    for number, share in enumerate(shares or ()):
        yield share[: max(0, len(tensor) - number * rows)].cpu()


def _scatter(whole: Tensor | None, owner: int, parameter: Tensor, rank: Rank) -> Tensor:
    """Scatters the tensor that `owner` holds; returns this rank's share on its device."""
    if rank.world_size == 1:
        assert whole is not None
        return whole.to(rank.device)
    rows = _count_rows(parameter, rank.world_size)
    own = torch.empty((rows, *parameter.shape[1:]), dtype=parameter.dtype, device=rank.device)
    shares = None
    if whole is not None:
        shares = [torch.zeros_like(own) for _ in range(rank.world_size)]
        for share, values in zip(shares, torch.split(whole, rows), strict=False):  # the last ranks may have no rows
            share[: len(values)] = values
    dist.scatter(own, shares, src=owner)
    return own[: len(own_share(parameter))]


def _replace(module: nn.Module, parameter: Tensor, share: Tensor) -> None:
    """Replaces a deferred parameter by one with memory, under all its names."""
    assert isinstance(parameter, DTensor)
    former: Tensor = parameter
    filled = DTensor.from_local(share, parameter.device_mesh, parameter.placements, run_check=False,
                                shape=parameter.shape, stride=parameter.stride())  # fmt: skip
    replacement = nn.Parameter(filled, requires_grad=parameter.requires_grad)
    for member in module.modules():
        for name, current in member._parameters.items():
            if current is former:
                member._parameters[name] = replacement


def _count_rows(tensor: Tensor, world_size: int) -> int:
    return max(1, -(-len(tensor) // world_size))
