"""The state of a trainer besides model and optimizer, as named parts of each checkpoint.

Examples of parts are the scale of a loss in float16, an average of the weights, and the best validation so far. Add a
part to `Learner.state` before `Trainer` restores a checkpoint:

    learner.state.add("scaler", scaler)

`Average` is an exponential moving average of the weights (EMA), which is validated and exported in place of the last
weights: Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", SIAM J. Control Optim. 30 (1992).
The warm-up, decay = min(decay, (1 + n) / (10 + n)) after n updates, is that of TensorFlow's `ExponentialMovingAverage`
(https://www.tensorflow.org/api_docs/python/tf/train/ExponentialMovingAverage): it depends on the step number alone, and
the initial weights soon lose their influence.

`Best` is the best validation so far, with its value and weights, and decides on an early stop. A killed run resumes to
an equal best and an equal end. The weights are a copy in host memory, sharded like the model, in every checkpoint: a
resume needs no other file.
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
from vgp.train.checkpoint.snapshot import pin
from vgp.train.checkpoint.training_state import own_share
from vgp.train.train_config import TrainConfig


class Part(Protocol):
    """A named part of a trainer's state."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Returns the live tensors by name, always the same objects, sharded like parameters or equal on all ranks.

        They may change only in the optimizer's update and in a validation, after `Learner.before_update`. A restore
        fills them in place.
        """

    def scalars(self) -> JsonObject:
        """Returns the other values as JSON, equal on every rank."""

    def restore(self, scalars: JsonObject) -> None:
        """Restores the scalars of a checkpoint, after its tensors are filled.

        Raises:
            ValueError: the scalars are implausible.
        """


class TrainerState:
    """The parts of a trainer's state, by name."""

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}

    def add(self, name: str, part: Part) -> None:
        """Adds a part to every checkpoint: its tensors as `name/...`, its scalars under `trainer` in the manifest."""
        if name in self.parts or name in ("model", "optimizer") or "/" in name:
            raise ValueError(f"{name!r} names another part of a checkpoint")
        self.parts[name] = part

    def tensors(self) -> dict[str, Tensor]:
        return {f"{name}/{key}": tensor for name, part in self.parts.items() for key, tensor in part.tensors().items()}

    def scalars(self) -> JsonObject:
        return {name: part.scalars() for name, part in self.parts.items()}

    def restore(self, scalars: JsonObject) -> None:
        """Restores the scalars of a checkpoint. Raises ValueError unless they belong to exactly these parts."""
        if scalars.keys() != self.parts.keys():
            raise ValueError(f"it holds {_list(scalars)} besides model and optimizer, not {_list(self.parts)}")
        for name, part in self.parts.items():
            if not isinstance(scalars[name], dict):
                raise ValueError(f"{name} is not a mapping")
            part.restore(scalars[name])


def _list(parts: Iterable[str]) -> str:
    return ", ".join(sorted(parts)) or "nothing"


class Average:
    """A moving average of every parameter that the optimizer updates, in at least float32, sharded like the parameter.

    Buffers, such as the statistics of batch norm, are not averaged.
    """

    def __init__(self, module: nn.Module, updated: Sequence[Tensor], decay: float):
        self.decay = decay
        averaged = set(updated)
        self.parameters = {name: p for name, p in module.named_parameters() if p in averaged}
        self.values = {name: _to_float32(p) for name, p in self.parameters.items()}

    @torch.no_grad()
    def begin(self) -> None:
        """Sets the average to the current weights, such as those of a warm start."""
        for name, parameter in self.parameters.items():
            own_share(self.values[name]).copy_(own_share(parameter))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Adds the weights after the step numbered `step`, from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        weights = [
            own_share(p).to(v.dtype) for p, v in zip(self.parameters.values(), self.values.values(), strict=True)
        ]
        torch._foreach_lerp_([own_share(value) for value in self.values.values()], weights, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Puts the average into the model for the block, then restores the weights bit by bit.

        Exchanges values one parameter at a time, which avoids a third copy of the model.
        """
        held = self._exchange({})
        yield
        self._exchange(held)

    @torch.no_grad()
    def _exchange(self, held: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Exchanges weights and averages; returns weights of another dtype, or restores them from `held`."""
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
        """Puts the average into the model."""
        for name, parameter in self.parameters.items():
            own_share(parameter).copy_(own_share(self.values[name]))

    def tensors(self) -> Mapping[str, Tensor]:
        return self.values

    def scalars(self) -> JsonObject:
        return {}

    def restore(self, scalars: JsonObject) -> None:
        if scalars:
            raise ValueError(f"the average of the weights has {', '.join(scalars)}")


def _to_float32(parameter: Tensor) -> Tensor:
    return parameter.detach().clone().to(torch.promote_types(parameter.dtype, torch.float32))


#: The least size of a tensor in pinned memory; smaller ones may share a page.
_PINNED_BYTES = 1 << 20


class _BestState(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    #: None = no validation so far had a finite value.
    value: float | None
    step: int = Field(ge=0)
    since: int = Field(ge=0)


class Best:
    """The best validation so far.

    Args:
        direction: Whether the "min" or the "max" of the metric is best.
        keeps: Whether to keep its weights.
    """

    def __init__(self, module: nn.Module, config: TrainConfig, direction: str, *, keeps: bool):
        self.module, self.metric = module, config.best_metric
        self.sign = 1.0 if direction == "min" else -1.0
        self.patience, self.min_delta = config.patience, config.min_delta
        self.weights = {name: _zeros(tensor) for name, tensor in module.state_dict().items()} if keeps else {}
        #: The end of the last copy of weights from a GPU, if there was one.
        self.copied: torch.cuda.Event | None = None
        #: The metric of the best validation, its step count, and the number of validations after it.
        self.value: float | None = None
        self.step = self.since = 0

    @property
    def stopped(self) -> bool:
        """Whether training stops early, because the last `patience` validations were no better."""
        return bool(self.patience) and self.since >= self.patience

    @property
    def kept(self) -> bool:
        """Whether weights of a best validation exist."""
        return bool(self.weights and self.step)

    @torch.no_grad()
    def validated(self, step: int, value: float) -> None:
        """Adds the metric after `step` steps; keeps the model's weights if it is the best. A nan is never better."""
        is_better = self.value is None or self.sign * value < self.sign * self.value - self.min_delta
        if not (math.isfinite(value) and is_better):
            self.since += 1
            return
        self.value, self.step, self.since = value, step, 0
        if self.weights:
            self._copy({name: own_share(tensor) for name, tensor in self.module.state_dict().items()})

    def _copy(self, live: Mapping[str, Tensor]) -> None:
        """Copies the weights; from a GPU while the host continues, since later updates are queued behind the copy.

        Not verified on a GPU.
        """
        is_on_gpu = any(tensor.is_cuda for tensor in live.values())
        if is_on_gpu and not self.copied:
            for kept in map(own_share, self.weights.values()):
                if kept.nbytes >= _PINNED_BYTES:
                    pin(kept, self)  # without it, copies are slower
        for name, tensor in live.items():
            own_share(self.weights[name]).copy_(tensor, non_blocking=True)
        if is_on_gpu:
            self.copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.copied.record()

    def _settle(self) -> None:
        """Waits until the weights are in host memory."""
        if self.copied:
            self.copied.synchronize()

    @torch.no_grad()
    def take(self) -> None:
        """Puts the weights of the best validation into the model."""
        self._settle()
        current = self.module.state_dict()
        for name, tensor in current.items():
            own_share(tensor).copy_(own_share(self.weights[name]))
        self.module.load_state_dict(current)  # for modules whose state_dict holds copies

    def tensors(self) -> Mapping[str, Tensor]:
        self._settle()
        return self.weights

    def scalars(self) -> JsonObject:
        return {"value": self.value, "step": self.step, "since": self.since}

    def restore(self, scalars: JsonObject) -> None:
        saved = json_text.parse_model(_BestState, json.dumps(scalars).encode())
        if (saved.value is None) != (saved.step == 0):
            raise ValueError(f"the best validation is {saved.value} after step {saved.step}")
        self.value, self.step, self.since = saved.value, saved.step, saved.since


def _zeros(tensor: Tensor) -> Tensor:
    """Returns zeros in host memory, sharded like the tensor. `DTensor.from_local` would move them to the GPU."""
    return torch.zeros_like(tensor.detach(), device="cpu", memory_format=torch.contiguous_format)
