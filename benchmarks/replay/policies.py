"""The replayed task, months and policies, and the results of a year."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vgp.decision.decision import Decision

TASK, OPTIONS = "flights", {"train": "3 months", "test": "1 month"}
#: The first month in which a model beats the baseline; that of April does not.
FIRST, LAST = 5, 12
CONFIG: dict[str, Any] = {"epochs": 3.0, "learning_rate": 1e-3, "seed": 0}
#: Decisions of a year, one each month, which share the error.
NIGHTS = 12
POLICIES: dict[str, dict[str, Any]] = {
    "every month": {"when": "always"},
    "on drift": {"when": "drift", "retrain_every": ""},
    "never": {"when": "never"},
}
#: For comparison: a new champion every month, without a test.
UNGATED = "every month, no gate"
#: Assumed cost of a training: an hour of g2-standard-24, on demand in us-central1 (`vgp machines`).
USD_PER_HOUR, GPU_HOURS = 2.30, 1.0


@dataclass(frozen=True)
class Released:
    """The result of a training."""

    words: str
    #: Number of training rows.
    rows: int
    decision: Decision


@dataclass
class Month:
    """One month under one policy."""

    month: int
    #: The champion at the month's beginning, and its scores on the month's rows.
    champion: int
    loss: float
    auc: float
    #: The decision at the month's end, its reason, and its result.
    trained: bool = False
    why: str = ""
    released: Released | None = None
    #: Whether there is a new champion from the month's end on.
    replaced: bool = False
    rows: int = 0


@dataclass
class Year:
    policy: str
    months: list[Month] = field(default_factory=list)

    @property
    def trainings(self) -> int:
        return sum(month.trained for month in self.months)

    @property
    def promotions(self) -> int:
        return sum(month.replaced for month in self.months)

    @property
    def rows(self) -> int:
        return sum(month.rows for month in self.months)

    @property
    def cost_usd(self) -> float:
        return self.trainings * GPU_HOURS * USD_PER_HOUR

    def mean(self, name: str) -> float:
        return float(np.mean([getattr(month, name) for month in self.months]))
