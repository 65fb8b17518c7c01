"""The loss of single rows that the decision tests, from what a model says of them."""

from collections.abc import Mapping

import numpy as np

from training.evaluation.probabilities import scored
from training.task import Task


def of_batch(task: Task, predicted: np.ndarray, batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """Losses, float64 (B,).

    Args:
        predicted: What a scorer gives for the rows: probabilities (B, C).
        batch: Columns of the rows, with the label.
    """
    return scored(batch[task.label].astype(np.int64), predicted.astype(np.float32)).losses()


def unit(task: Task) -> str:
    """What the mean of the losses is, in words."""
    return "log loss in nats"
