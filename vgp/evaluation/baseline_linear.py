"""The baseline of a regression: a linear model of the mean, and quantiles that lie as far from it as labels did.

Quantiles are the mean plus the quantiles of its residuals on rows that it was not fitted on, as in split conformal
prediction (Lei et al. 2018, https://doi.org/10.1080/01621459.2017.1307116). They are calibrated over all rows, whatever
the label's distribution; that they are as wide everywhere is what a better model improves on. Quantile regression is a
linear programme, which takes minutes where this takes seconds. As of the baseline of classes, penalty and scale are
chosen on held rows; in the robust scale labels far from all others are drawn in as well, for the line: the mean and the
quantiles are those of the labels as they are.
"""

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy import sparse
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from vgp.data.task import Task
from vgp.evaluation import baseline
from vgp.evaluation.baseline import Batch, Setting
from vgp.evaluation.regression import Loss, losses
from vgp.protocol.manifest import Column

FOLDS = 5
#: Rows up to which each fold is left out once; of more, one fold's residuals are many enough.
MOST_CROSSED_ROWS = 20_000
#: Bound on the work of a fit: at 200 steps the mean of the flights' delays is as good to five digits as at 1,000.
ITERATIONS = 200
#: Labels farther from the median than so many robust deviations are drawn in.
LABEL_REACH = 10.0


@dataclass(frozen=True)
class LinearBaseline:
    """A fitted linear model, and how far the mean and each quantile lie from it, float64 (1 + Q,)."""

    columns: tuple[Column, ...]
    coefficients: np.ndarray
    intercept: float
    apart: np.ndarray
    rows: int

    def __call__(self, batch: Batch) -> np.ndarray:
        """Mean and quantiles, float64 (B, 1 + Q)."""
        return np.asarray(self.middle(batch) + self.apart)

    def middle(self, batch: Batch) -> np.ndarray:
        """What the line gives, float64 (B, 1)."""
        return self.intercept + baseline.summed(batch, self.columns, self.coefficients[:, None])


def fit(columns: tuple[Column, ...], sample: Batch, task: Task, held: Batch | None = None) -> LinearBaseline:
    """Fits it on rows of the train split, the same for the same rows.

    Args:
        columns: The inputs: numbers, categories and vectors.
        sample: Some train rows.
        task: Names the label and the quantiles.
        held: Rows of the validation split, by which its setting is chosen; None = a part of the sample.
    """

    def loss(setting: Setting, learn: Batch, rows: Batch) -> float:
        line, label = _line(columns, learn, task, setting), rows[task.label]
        apart = np.r_[line.apart[0], np.quantile(label - line.middle(rows)[:, 0], task.quantiles)]
        predicted = (line.middle(rows) + apart).T
        return float(losses(cast(Loss, task.decided_by), label, predicted, task.quantiles).mean())

    with threadpool_limits(1, "blas"):  # it adds up in another order with other numbers of threads
        setting = baseline.choose(columns, sample, held, task, loss)
        line = _line(columns, sample, task, setting)
        apart = np.quantile(_residuals(line.columns, sample, task, setting), task.quantiles)
    return replace(line, apart=np.r_[line.apart[0], apart])


def _line(columns: tuple[Column, ...], sample: Batch, task: Task, setting: Setting) -> LinearBaseline:
    """A line through the labels, without its quantiles. Where far labels are drawn in, the mean makes up for it."""
    columns, label = setting.columns(columns, sample), sample[task.label]
    near = _drawn_in(label) if setting.robust else label
    model = _fitted(baseline.inputs(sample, columns), near, setting)
    shift = float((label - near).mean())
    return LinearBaseline(columns, np.asarray(model.coef_), float(model.intercept_), np.array([shift]), len(label))


def _drawn_in(label: np.ndarray) -> np.ndarray:
    """The labels, those that lie far from the middle half of them drawn in."""
    lower, middle, upper = np.quantile(label, [0.25, 0.5, 0.75])
    reach = LABEL_REACH * (upper - lower) / baseline.QUARTILES_APART
    return np.asarray(label.clip(middle - reach, middle + reach)) if reach else label


def _residuals(columns: tuple[Column, ...], sample: Batch, task: Task, setting: Setting) -> np.ndarray:
    """Label minus line of rows that the line was not fitted on, float64 (n,): of all rows, or of one fold of many.

    Rows of one group are in one fold.
    """
    inputs, label = baseline.inputs(sample, columns), sample[task.label]
    near = _drawn_in(label) if setting.robust else label
    group = sample.get(task.groups[0]) if task.groups else None
    fold = (np.arange(len(label)) if group is None else np.unique(group, return_inverse=True)[1]) % FOLDS
    residuals = []
    for number in range(FOLDS if len(label) <= MOST_CROSSED_ROWS else 1):
        out = fold == number
        if out.any() and not out.all():
            residuals.append(label[out] - _fitted(inputs[~out], near[~out], setting).predict(inputs[out]))
    return np.concatenate(residuals or [label - label.mean()])


def _fitted(inputs: sparse.csr_matrix, label: np.ndarray, setting: Setting) -> Ridge:
    return Ridge(alpha=setting.penalty, solver="lsqr", max_iter=ITERATIONS).fit(inputs, label)
