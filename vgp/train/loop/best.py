"""The best validation so far: its value, its weights, and whether training has stopped getting better.

All of it is state of each checkpoint, so a run that was killed anywhere goes on to the same best and the same end. The
weights are a copy in host memory, cut over the ranks as the model is, and not a checkpoint that must outlive others:
one file holds all that a resume needs, in whatever folder, and on however many processes.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vgp.base import strict
from vgp.train.config import TrainConfig


class _State(BaseModel):
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

    def validated(self, step: int, value: float) -> None:
        """Takes the metric after `step` steps, and the model's weights if it is the best; nan is never better."""
        if not (math.isfinite(value) and self._is_better(value)):
            self.since += 1
            return
        self.value, self.step, self.since = value, step, 0
        for name, tensor in self.module.state_dict().items() if self.weights else ():
            _local(self.weights[name]).copy_(_local(tensor))

    def _is_better(self, value: float) -> bool:
        return self.value is None or self.sign * value < self.sign * self.value - self.min_delta

    def take(self) -> None:
        """Puts the weights of the best validation into the model."""
        current = self.module.state_dict()
        for name, tensor in current.items():
            _local(tensor).copy_(_local(self.weights[name]))
        self.module.load_state_dict(current)  # for a module whose state is not its own tensors

    def tensors(self) -> Mapping[str, Tensor]:
        return self.weights

    def scalars(self) -> dict[str, Any]:
        return {"value": self.value, "step": self.step, "since": self.since}

    def restore(self, scalars: dict[str, Any]) -> None:
        saved = strict.parse(_State, json.dumps(scalars).encode())
        if (saved.value is None) != (saved.step == 0):
            raise ValueError(f"the best validation is {saved.value} after step {saved.step}")
        self.value, self.step, self.since = saved.value, saved.step, saved.since


def _local(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _zeros(tensor: Tensor) -> Tensor:
    """In host memory; of a sharded tensor for this rank's share. `DTensor.from_local` would move it to the GPU."""
    return torch.zeros_like(tensor.detach(), device="cpu", memory_format=torch.contiguous_format)
