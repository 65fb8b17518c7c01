"""The loss of single rows that the decision tests, from what a model says of them."""

from collections.abc import Mapping
from typing import cast

import numpy as np

from vgp.data.task import Task
from vgp.evaluation import residuals
from vgp.evaluation.probabilities import scored
from vgp.evaluation.regression import LOSSES, Loss
from vgp.protocol import outcome


def of_batch(task: Task, predicted: np.ndarray, batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """Losses, float64 (B,).

    Args:
        predicted: What a scorer gives for the rows: probabilities (B, C), or mean and quantiles (B, 1 + Q).
        batch: Columns of the rows, with the label.
    """
    if task.regression:
        kind = cast(Loss, task.decided_by)
        return residuals.losses(kind, batch[task.label].astype(np.float64), predicted.T, task.quantiles)
    return scored(batch[task.label].astype(np.int64), predicted.astype(np.float32)).losses()


def unit(task: Task) -> str:
    """What the mean of the losses is, in words."""
    return f"{LOSSES[task.decided_by]} in {outcome.unit(task)}" if task.regression else "log loss in nats"
