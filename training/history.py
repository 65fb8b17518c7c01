"""The learning curve: what every step's loss was, thinned to points, and exact across a resume."""

import math
from typing import Any

from training.order import Plan, learning_rate_factor

#: Points of the curve besides the ends of epochs.
_POINTS = 200


class History:
    """Collects mean losses step by step. Its `state` is JSON and goes into every checkpoint."""

    def __init__(self, plan: Plan, learning_rate: float, warmup_fraction: float, state: dict[str, Any] | None = None):
        self.plan, self.learning_rate, self.warmup_fraction = plan, learning_rate, warmup_fraction
        self.every = math.ceil(plan.steps / _POINTS)
        state = state or {}
        self.points: list[dict[str, Any]] = list(state.get("points", ()))
        self.total: float = state.get("total", 0.0)
        self.count: int = state.get("count", 0)

    @property
    def state(self) -> dict[str, Any]:
        return {"points": list(self.points), "total": self.total, "count": self.count}

    def add(self, step: int, loss: float) -> None:
        """The loss of the step numbered `step`, from 0."""
        self.total += loss
        self.count += 1
        if (step + 1) % self.every == 0 or self.plan.ends_epoch(step):
            self._point(step)

    def validated(self, loss: float) -> None:
        """The validation loss after the step that was added last."""
        self.points[-1]["validation_loss"] = loss

    def _point(self, step: int) -> None:
        factor = learning_rate_factor(step, self.plan.steps, self.warmup_fraction)
        self.points.append(
            {"step": step + 1, "epoch": round(self.plan.epoch(step + 1), 6), "loss": self.total / self.count,
             "validation_loss": None, "learning_rate": self.learning_rate * factor}
        )  # fmt: skip
        self.total, self.count = 0.0, 0
