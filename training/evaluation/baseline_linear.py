"""The baseline of a regression: a linear model of the mean, and quantiles that lie as far from it as labels did.

Quantiles are the mean plus the quantiles of its residuals on rows that it was not fitted on, as in split conformal
prediction (Lei et al. 2018, https://doi.org/10.1080/01621459.2017.1307116), with every train row left out once. They
are calibrated over all rows, whatever the label's distribution; that they are as wide everywhere is what a better model
improves on. Quantile regression is a linear programme, which takes minutes where this takes seconds.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.linear_model import Ridge

from training.data.manifest import Column
from training.evaluation import baseline
from training.task import Task

FOLDS = 5


@dataclass(frozen=True)
class LinearBaseline:
    """A fitted linear model, and how far each quantile lies from its mean, float64 (Q,)."""

    columns: tuple[Column, ...]
    coefficients: np.ndarray
    intercept: float
    apart: np.ndarray
    rows: int

    def __call__(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        """Mean and quantiles, float64 (B, 1 + Q)."""
        mean = self.intercept + baseline.summed(batch, self.columns, self.coefficients[:, None])
        return np.hstack([mean, mean + self.apart])


def fit(columns: tuple[Column, ...], sample: dict[str, np.ndarray], task: Task) -> LinearBaseline:
    """Fits it on rows of the train split, the same for the same rows.

    Args:
        columns: The inputs: numbers, categories and vectors.
        sample: Some train rows.
        task: Names the label and the quantiles.
    """
    inputs, label = baseline.inputs(sample, columns), sample[task.label]
    fold = np.arange(len(label)) % FOLDS
    residuals = np.zeros(len(label))
    for number in range(FOLDS if len(label) >= 2 * FOLDS else 0):
        out = fold == number
        residuals[out] = label[out] - _fitted(inputs[~out], label[~out]).predict(inputs[out])
    model = _fitted(inputs, label)
    apart = np.quantile(residuals, task.quantiles)
    return LinearBaseline(columns, np.asarray(model.coef_), float(model.intercept_), apart, len(label))


def _fitted(inputs: sparse.csr_matrix, label: np.ndarray) -> Ridge:
    return Ridge().fit(inputs, label)  # its light penalty only keeps rare categories finite
