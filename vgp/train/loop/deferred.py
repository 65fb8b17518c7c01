"""A model that is built without the memory of its weights, which then come to be one at a time: the same bits.

A user's constructor makes and fills its weights as it likes. While it runs, what is done to large tensors is recorded
(`recording`); later the value of each is had by doing it again. Small tensors are real all the time, so that a
constructor may look into them.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vgp.train.loop.recording import Recording, Unrecordable, View


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


def build(make: Callable[[], nn.Module]) -> Deferred:
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

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answers: dict[Any, Any] = {
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
