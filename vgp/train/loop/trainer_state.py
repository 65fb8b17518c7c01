"""What no step number tells: the state of a trainer besides model and optimizer, as named parts of each checkpoint.

A part is such as the scale of a fp16 loss, an average of weights, or the best validation so far. `Learner.state` holds
them; whoever needs one adds it before `Trainer` looks for a checkpoint:

    learner.state.add("scaler", scaler)

An exponential moving average of the weights (EMA): what is validated and shipped in place of the last weights.

Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", SIAM J. Control Optim. 30 (1992). The
warm-up, decay = min(decay, (1 + n) / (10 + n)) after n updates, is that of TensorFlow's `ExponentialMovingAverage`
(https://www.tensorflow.org/api_docs/python/tf/train/ExponentialMovingAverage): the first averages are of few steps, and
the initial weights are soon forgotten. It depends on the step's number alone.

The best validation so far: its value, its weights, and whether training has stopped getting better.

All of it is state of each checkpoint, so a run that was killed anywhere goes on to the same best and the same end. The
weights are a copy in host memory, cut over the ranks as the model is, and not a checkpoint that must outlive others:
one file holds all that a resume needs, in whatever folder, and on however many processes.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from vgp.base.documents import json_text
from vgp.base.documents.json_text import JsonObject
from vgp.train.checkpoint.state import own_share
from vgp.train.config import TrainConfig


class Part(Protocol):
    """A named part of a trainer's state."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Its tensors by name: the live ones, always the same. Cut over the ranks as parameters are, or equal on all.

        They change in the optimizer's update and in a validation only, after `Learner.before_update`. A restore fills
        them in place.
        """

    def scalars(self) -> JsonObject:
        """Its other values as JSON, the same on every rank."""

    def restore(self, scalars: JsonObject) -> None:
        """Takes the scalars of a checkpoint, whose tensors are filled in already.

        Raises:
            ValueError: this part cannot have written them.
        """


class TrainerState:
    """The parts that a trainer has, by name."""

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}

    def add(self, name: str, part: Part) -> None:
        """Has every checkpoint hold the part: its tensors as `name/...`, its scalars as `trainer` of the manifest."""
        if name in self.parts or name in ("model", "optimizer") or "/" in name:
            raise ValueError(f"{name!r} names another part of a checkpoint")
        self.parts[name] = part

    def tensors(self) -> dict[str, Tensor]:
        return {f"{name}/{key}": tensor for name, part in self.parts.items() for key, tensor in part.tensors().items()}

    def scalars(self) -> JsonObject:
        return {name: part.scalars() for name, part in self.parts.items()}

    def restore(self, scalars: JsonObject) -> None:
        """Takes the scalars of a checkpoint. Raises ValueError unless they are those of these parts."""
        if scalars.keys() != self.parts.keys():
            raise ValueError(f"it holds {_named(scalars)} besides model and optimizer, not {_named(self.parts)}")
        for name, part in self.parts.items():
            if not isinstance(scalars[name], dict):
                raise ValueError(f"{name} is no mapping")
            part.restore(scalars[name])


def _named(parts: Iterable[str]) -> str:
    return ", ".join(sorted(parts)) or "nothing"


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
            own_share(self.values[name]).copy_(own_share(parameter))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Takes in the weights after the step numbered `step`, from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        weights = [
            own_share(p).to(v.dtype) for p, v in zip(self.parameters.values(), self.values.values(), strict=True)
        ]
        torch._foreach_lerp_([own_share(value) for value in self.values.values()], weights, 1 - decay)

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
            weights, average = own_share(parameter), own_share(self.values[name])
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

    @torch.no_grad()
    def take(self) -> None:
        """Leaves the average in the model for good."""
        for name, parameter in self.parameters.items():
            own_share(parameter).copy_(own_share(self.values[name]))

    def tensors(self) -> Mapping[str, Tensor]:
        return self.values

    def scalars(self) -> JsonObject:
        return {}

    def restore(self, scalars: JsonObject) -> None:
        if scalars:
            raise ValueError(f"the average of the weights has {', '.join(scalars)}")


def _wide(parameter: Tensor) -> Tensor:
    return parameter.detach().clone().to(torch.promote_types(parameter.dtype, torch.float32))


class _BestState(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    #: None = no validation so far had a number.
    value: float | None
    step: int = Field(ge=0)
    since: int = Field(ge=0)


class Best:
    """A part of the trainer's state (`vgp.train.loop.trainer_state`)."""

    def __init__(self, module: nn.Module, config: TrainConfig, direction: str, *, keeps: bool):
        """
        Args:
            direction: Whether the "min" or the "max" of the metric is best.
            keeps: Whether the weights are kept.
        """
        self.module, self.metric = module, config.best_metric
        self.sign = 1.0 if direction == "min" else -1.0
        self.patience, self.min_delta = config.patience, config.min_delta
        self.weights = {name: _zeros(tensor) for name, tensor in module.state_dict().items()} if keeps else {}
        #: The metric of the best validation, the steps that were done then, and the validations since.
        self.value: float | None = None
        self.step = self.since = 0

    @property
    def stopped(self) -> bool:
        """Whether training ends, since the last `patience` validations were no better."""
        return bool(self.patience) and self.since >= self.patience

    @property
    def kept(self) -> bool:
        """Whether there are weights to take."""
        return bool(self.weights and self.step)

    @torch.no_grad()
    def validated(self, step: int, value: float) -> None:
        """Takes the metric after `step` steps, and the model's weights if it is the best; nan is never better."""
        is_better = self.value is None or self.sign * value < self.sign * self.value - self.min_delta
        if not (math.isfinite(value) and is_better):
            self.since += 1
            return
        self.value, self.step, self.since = value, step, 0
        for name, tensor in self.module.state_dict().items() if self.weights else ():
            own_share(self.weights[name]).copy_(own_share(tensor))

    @torch.no_grad()
    def take(self) -> None:
        """Puts the weights of the best validation into the model."""
        current = self.module.state_dict()
        for name, tensor in current.items():
            own_share(tensor).copy_(own_share(self.weights[name]))
        self.module.load_state_dict(current)  # for a module whose state is not its own tensors

    def tensors(self) -> Mapping[str, Tensor]:
        return self.weights

    def scalars(self) -> JsonObject:
        return {"value": self.value, "step": self.step, "since": self.since}

    def restore(self, scalars: JsonObject) -> None:
        saved = json_text.parse_model(_BestState, json.dumps(scalars).encode())
        if (saved.value is None) != (saved.step == 0):
            raise ValueError(f"the best validation is {saved.value} after step {saved.step}")
        self.value, self.step, self.since = saved.value, saved.step, saved.since


def _zeros(tensor: Tensor) -> Tensor:
    """In host memory; of a sharded tensor for this rank's share. `DTensor.from_local` would move it to the GPU."""
    return torch.zeros_like(tensor.detach(), device="cpu", memory_format=torch.contiguous_format)
