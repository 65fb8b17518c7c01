"""The baseline of a regression: a linear model of the mean, and quantiles that lie as far from it as labels did.

Quantiles are the mean plus the quantiles of its residuals on rows that it was not fitted on, as in split conformal
prediction (Lei et al. 2018, https://doi.org/10.1080/01621459.2017.1307116). They are calibrated over all rows, whatever
the label's distribution; that they are as wide everywhere is what a better model improves on. Quantile regression is a
linear programme, which takes minutes where this takes seconds.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from training.data.manifest import Column
from training.evaluation import baseline
from training.task import Task

FOLDS = 5
#: Rows up to which each fold is left out once; of more, one fold's residuals are many enough.
MOST_CROSSED_ROWS = 20_000
#: Bound on the work of a fit: at 200 steps the mean of the flights' delays is as good to five digits as at 1,000.
ITERATIONS = 200


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
    with threadpool_limits(1, "blas"):  # it adds up in another order with other numbers of threads
        model = _fitted(inputs, label)
        apart = np.quantile(_residuals(inputs, label), task.quantiles)
    return LinearBaseline(columns, np.asarray(model.coef_), float(model.intercept_), apart, len(label))


def _residuals(inputs: sparse.csr_matrix, label: np.ndarray) -> np.ndarray:
    """Label minus mean of rows that the mean was not fitted on, float64 (n,): of all rows, or of one fold of many."""
    fold = np.arange(len(label)) % FOLDS
    residuals = []
    for number in range(FOLDS if len(label) <= MOST_CROSSED_ROWS else 1):
        out = fold == number
        if out.any() and not out.all():
            residuals.append(label[out] - _fitted(inputs[~out], label[~out]).predict(inputs[out]))
    return np.concatenate(residuals or [label - label.mean()])


def _fitted(inputs: sparse.csr_matrix, label: np.ndarray) -> Ridge:
    """Its light penalty only keeps rare categories finite."""
    return Ridge(solver="lsqr", max_iter=ITERATIONS).fit(inputs, label)
