"""The model that a rank trains: whole, or its share of it, with the weights of the seed.

A sharded model is built without the memory of its weights, which come in and leave one at a time: no rank ever holds
more than one of them whole. While a user's constructor runs, what is done to large tensors is recorded
(`recording`); later the value of each is had by doing it again, to the same bits. Small tensors are real all the time,
so that a constructor may look into them.

Legend: a parameter of shape (n, ...) is cut along its first dimension as `torch.chunk` would; FSDP2 pads the shares to
one size, and so does what travels here.
"""

import contextlib
import ctypes
import gc
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.overrides import TorchFunctionMode

from vgp.base.documents.json_text import JsonObject
from vgp.data.task import Task
from vgp.protocol.manifest import Manifest
from vgp.train.checkpoint.state import own_share
from vgp.train.config import TrainConfig
from vgp.train.loop import gradients, optimizers
from vgp.train.loop.gradients import Gradients, Loss
from vgp.train.loop.order import seed_of
from vgp.train.loop.recording import Recording, Unrecordable, View
from vgp.train.processes.rank import Rank


@dataclass(frozen=True)
class Built:
    """A new model, its weights those of the seed."""

    module: nn.Module
    #: Names of the parameters that the setting `freeze` keeps as they are.
    frozen: list[str]
    #: Why a sharded model was first made whole on every rank; "" = it was not.
    made_whole: str = ""


def build_whole(task: Task, data: Manifest, config: TrainConfig, rank: Rank) -> Built:
    """The model, all of it on this rank's device."""
    module = _new_model(task, data, config).to(rank.device)
    return Built(module, optimizers.freeze(module, config.freeze))


def build_sharded(
    task: Task, data: Manifest, config: TrainConfig, rank: Rank, patience_s: float
) -> tuple[Built, Gradients]:
    """The model cut over all ranks, its values those of the whole one, which there is nowhere if that can be.

    Args:
        patience_s: How long ranks wait for one that works alone on its model.
    """
    return_what_is_freed()
    recorded: Deferred | None = None
    why = ""
    try:
        recorded = build_deferred(partial(_new_model, task, data, config))
    except Unrecordable as error:
        why = str(error)
    made_whole = next(filter(None, rank.exchange(why, within_s=patience_s)), "")
    if made_whole:
        recorded = None
    module = recorded.module if recorded else _new_model(task, data, config)
    frozen = optimizers.freeze(module, config.freeze)
    cut = gradients.choose(Loss(module, task.loss), task.blocks(module), config, rank)
    if recorded:
        fill(module, recorded, rank, on_cpu=config.cpu_offload)
    return Built(module, frozen, made_whole), cut


def _new_model(task: Task, data: Manifest, config: TrainConfig) -> nn.Module:
    """The task's model on the CPU, as the seed makes it."""
    seed_everything(seed_of(config.seed, "model"))
    return task.model(data)


def return_what_is_freed() -> None:
    """Has the C library give the memory of large tensors back to the system as soon as they are freed.

    Otherwise glibc keeps blocks of up to 32 MiB in a heap full of gaps, which grew to three times what was in use
    (M_MMAP_THRESHOLD, mallopt(3)). Other libraries do not have the call.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(-3, 1 << 20)


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


@dataclass
class Deferred:
    """A module whose large parameters are of the meta device, and how they come to their values."""

    module: nn.Module
    recording: Recording
    #: By the parameter's name; the others are real.
    views: dict[str, View]

    def value(self, name: str) -> Tensor:
        """The parameter as its constructor left it, whole, on the CPU."""
        return self.recording.value(self.views[name])


def build_deferred(make: Callable[[], nn.Module]) -> Deferred:
    """The module that `make` returns, its buffers real.

    Raises:
        Unrecordable: it needs the values of its weights; call it without this.
    """
    recording = Recording()
    try:
        with _LooksReal(recording), recording:
            module = make()
    except Unrecordable:
        raise
    except Exception as error:  # the constructor's own mistakes show again when it is called without this
        raise Unrecordable(" ".join(f"{type(error).__name__}: {error}".split())[:200]) from error
    _fill_buffers(module, recording)
    views = {name: view for name, parameter in module.named_parameters() if (view := recording.view(parameter))}
    _require_nothing_else(module, recording)
    return Deferred(module, recording, views)


class _LooksReal(TorchFunctionMode):
    """Constructors that ask for a tensor's device learn that it is the CPU, as it would be."""

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
    """Raises Unrecordable if somebody else holds a large tensor, which would stay without a value."""
    gc.collect()
    known = {id(parameter) for parameter in module.parameters()}
    for thing in gc.get_objects():
        if issubclass(type(thing), Tensor) and id(thing) not in known and recording.view(thing):
            raise Unrecordable(
                f"a tensor of shape {list(thing.shape)} that is neither a parameter nor a buffer is kept"
            )


def fill(module: nn.Module, deferred: Deferred, rank: Rank, *, on_cpu: bool) -> None:
    """Gives the parameters that have no memory yet the values that their constructor made; every rank must call it.

    Each rank makes every n-th of them whole, and sends each rank its share.

    Args:
        on_cpu: Whether the shares stay in host memory.
    """
    waiting = [name for name, parameter in module.named_parameters() if own_share(parameter).is_meta]
    for start in range(0, len(waiting), rank.world_size):
        group = waiting[start : start + rank.world_size]
        own = deferred.value(group[rank.rank]) if rank.rank < len(group) else None
        for owner, name in enumerate(group):
            share = _scattered(own if owner == rank.rank else None, owner, module.get_parameter(name), rank)
            _replace(module, module.get_parameter(name), share.cpu() if on_cpu else share)


def pieces(tensor: Tensor, rank: Rank) -> Iterator[Tensor]:
    """The values of a tensor of the model in CPU tensors one after the other on rank 0, which need none in between.

    Every rank must call it; the others get nothing.
    """
    tensor = tensor.detach()
    if not isinstance(tensor, DTensor):
        if rank.leads:
            yield tensor.cpu()
        return
    local, rows = tensor.to_local(), _rows(tensor, rank.world_size)
    if rank.world_size == 1:
        yield local.cpu()
        return
    sent = local.new_zeros((rows, *tensor.shape[1:]))
    sent[: len(local)] = local
    shares = [torch.empty_like(sent) for _ in range(rank.world_size)] if rank.leads else None
    dist.gather(sent, shares, dst=0)
    for number, share in enumerate(shares or ()):
        yield share[: max(0, len(tensor) - number * rows)].cpu()


def _scattered(whole: Tensor | None, owner: int, parameter: Tensor, rank: Rank) -> Tensor:
    """This rank's share, on its device, of the tensor that `owner` holds."""
    if rank.world_size == 1:
        assert whole is not None
        return whole.to(rank.device)
    rows = _rows(parameter, rank.world_size)
    own = torch.empty((rows, *parameter.shape[1:]), dtype=parameter.dtype, device=rank.device)
    shares = None
    if whole is not None:
        shares = [torch.zeros_like(own) for _ in range(rank.world_size)]
        for share, values in zip(shares, torch.split(whole, rows), strict=False):  # the last ranks may have none
            share[: len(values)] = values
    dist.scatter(own, shares, src=owner)
    return own[: len(own_share(parameter))]


def _replace(module: nn.Module, parameter: Tensor, share: Tensor) -> None:
    """The parameter with memory in place of the one without, under all its names."""
    assert isinstance(parameter, DTensor)
    former: Tensor = parameter
    filled = DTensor.from_local(share, parameter.device_mesh, parameter.placements, run_check=False,
                                shape=parameter.shape, stride=parameter.stride())  # fmt: skip
    made = nn.Parameter(filled, requires_grad=parameter.requires_grad)
    for member in module.modules():
        for name, held in member._parameters.items():
            if held is former:
                member._parameters[name] = made


def _rows(tensor: Tensor, world_size: int) -> int:
    return max(1, -(-len(tensor) // world_size))
