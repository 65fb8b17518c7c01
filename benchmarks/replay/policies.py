"""What is replayed, and what comes of it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vgp.decision.decision import Decision

TASK, OPTIONS = "flights", {"train": "3 months", "test": "1 month"}
#: The first month in which a model beats the baseline; that of April does not.
FIRST, LAST = 5, 12
CONFIG: dict[str, Any] = {"epochs": 3.0, "learning_rate": 1e-3, "seed": 0}
#: The decisions of the gate share the error of a year: one a month.
NIGHTS = 12
POLICIES: dict[str, dict[str, Any]] = {
    "every month": {"when": "always"},
    "on drift": {"when": "drift", "retrain_every": ""},
    "never": {"when": "never"},
}
#: For comparison: a model a month, and no test.
UNGATED = "every month, no gate"
#: What a training is taken to cost: an hour of g2-standard-24, on demand in us-central1 (`vgp machines`).
USD_PER_HOUR, GPU_HOURS = 2.30, 1.0


@dataclass(frozen=True)
class Released:
    """What came of a training."""

    words: str
    #: Rows that training went over.
    rows: int
    decision: Decision


@dataclass
class Month:
    """One month under one policy."""

    month: int
    #: The version that reigned when it began, and its scores on the month's rows.
    champion: int
    loss: float
    auc: float
    #: What was decided at its end, why, and what came of it.
    trained: bool = False
    why: str = ""
    released: Released | None = None
    #: Whether a new champion reigns from its end on.
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
