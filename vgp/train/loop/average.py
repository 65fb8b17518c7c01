"""An exponential moving average of the weights (EMA): what is validated and shipped in place of the last weights.

Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", SIAM J. Control Optim. 30 (1992). The
warm-up, decay = min(decay, (1 + n) / (10 + n)) after n updates, is that of TensorFlow's `ExponentialMovingAverage`
(https://www.tensorflow.org/api_docs/python/tf/train/ExponentialMovingAverage): the first averages are of few steps, and
the initial weights are soon forgotten. It depends on the step's number alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


class Average:
    """A part of the trainer's state (`vgp.train.loop.trainer_state`).

    Of every parameter that the optimizer updates, in float32 at least, cut over the ranks as the parameter is. Buffers,
    such as the statistics of batch norm, are not averaged: they stay the model's.
    """

    def __init__(self, module: nn.Module, updated: Sequence[Tensor], decay: float):
        chosen = set(updated)
        self.decay = decay
        self.parameters = {name: p for name, p in module.named_parameters() if p in chosen}
        self.values = {name: _wide(p) for name, p in self.parameters.items()}

    @torch.no_grad()
    def begin(self) -> None:
        """Starts from the weights as they are, such as those of a warm start."""
        for name, parameter in self.parameters.items():
            _local(self.values[name]).copy_(_local(parameter))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Takes in the weights after the step numbered `step`, from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        weights = [_local(p).to(v.dtype) for p, v in zip(self.parameters.values(), self.values.values(), strict=True)]
        torch._foreach_lerp_([_local(value) for value in self.values.values()], weights, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model has the average as its weights, and then its own again, to the bit.

        Values are exchanged one parameter after the other, so that there is no third copy of the model.
        """
        held = self._exchange({})
        yield
        self._exchange(held)

    @torch.no_grad()
    def _exchange(self, held: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Exchanges weights and averages. Weights of another type, which no average fits into, are held or put back."""
        kept = {}
        for name, parameter in self.parameters.items():
            weights, average = _local(parameter), _local(self.values[name])
            if name in held:
                weights.copy_(held[name])
                continue
            before = weights.clone()
            weights.copy_(average)
            if before.dtype == average.dtype:
                average.copy_(before)
            else:
                kept[name] = before
        return kept

    def take(self) -> None:
        """Leaves the average in the model for good."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                _local(parameter).copy_(_local(self.values[name]))

    def tensors(self) -> Mapping[str, Tensor]:
        return self.values

    def scalars(self) -> dict[str, Any]:
        return {}

    def restore(self, scalars: dict[str, Any]) -> None:
        if scalars:
            raise ValueError(f"the average of the weights has {', '.join(scalars)}")


def _wide(parameter: Tensor) -> Tensor:
    return parameter.detach().clone().to(torch.promote_types(parameter.dtype, torch.float32))


def _local(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
