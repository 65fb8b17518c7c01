"""The learning curve: what every step's loss was, thinned to points, and exact across a resume."""

import json
import math
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from vgp.base import strict
from vgp.data.bundle import Point
from vgp.train.loop.order import Plan

#: Points of the curve besides the ends of epochs.
_POINTS = 200


class _State(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    points: list[Point]
    total: float
    count: int = Field(ge=0)


class History:
    """Collects mean losses step by step. Its `state` is JSON and goes into every checkpoint.

    `factor` gives each step's share of the peak learning rate.
    """

    def __init__(self, plan: Plan, learning_rate: float, factor: Callable[[int], float]):
        self.plan, self.peak, self.factor = plan, learning_rate, factor
        self.every = math.ceil(plan.steps / _POINTS)
        self.points: list[dict[str, Any]] = []
        self.total, self.count = 0.0, 0

    def go_on(self, state: dict[str, Any], step: int) -> None:
        """Takes the `state` of a checkpoint after `step` steps. Raises ValueError if it cannot be that."""
        parsed = strict.parse(_State, json.dumps(state).encode())
        covered = (parsed.points[-1].step if parsed.points else 0) + parsed.count
        if covered != step:
            raise ValueError(f"its learning curve ends at step {covered}, not {step}")
        self.points = [point.model_dump() for point in parsed.points]
        self.total, self.count = parsed.total, parsed.count

    @property
    def state(self) -> dict[str, Any]:
        return {"points": list(self.points), "total": self.total, "count": self.count}

    def add(self, step: int, loss: float) -> None:
        """The loss of the step numbered `step`, from 0."""
        self.total += loss
        self.count += 1
        if (step + 1) % self.every == 0 or self.plan.ends_epoch(step):
            self._point(step)

    def validated(self, step: int, loss: float | None, metrics: dict[str, float]) -> None:
        """What was measured after `step` steps, the last of which was added last; None = the loss was no number."""
        if not self.points or self.points[-1]["step"] != step:
            self._point(step - 1)
        self.points[-1] |= {"validation_loss": loss, "metrics": metrics}

    def learning_rate(self, step: int) -> float:
        return self.peak * self.factor(step)

    def _point(self, step: int) -> None:
        self.points.append(
            {"step": step + 1, "epoch": round(self.plan.epoch(step + 1), 6), "loss": self.total / self.count,
             "validation_loss": None, "metrics": {}, "learning_rate": self.learning_rate(step)}
        )  # fmt: skip
        self.total, self.count = 0.0, 0
