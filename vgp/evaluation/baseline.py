"""The baseline: linear models on one-hot categories and standardised numbers, fitted in seconds.

Of classes it is logistic regression (`fit`), of a number a line with quantiles (`fit_regression`).

What a careful analyst would try first. A network that does not beat it has not earned its GPUs. How strong its penalty
is, and whether numbers are scaled by mean and deviation or by median and quartiles with far values drawn in, is chosen
on rows that it is not fitted on: a dozen values far outside would otherwise decide the scale of their column.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

import numpy as np
from scipy import sparse, special
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits

from vgp.data.rows import Rows, Shards
from vgp.data.task import Task
from vgp.evaluation.ranked import SMALLEST_PROBABILITY
from vgp.evaluation.regression import Loss, losses
from vgp.protocol.manifest import Column, Manifest

#: Maximum number of train rows, and of non-zero inputs over all rows, so that a baseline takes seconds.
MOST_ROWS = 250_000
MOST_ELEMENTS = 20_000_000
#: Maximum number of values of a category that get an input, by frequency; the rest share the input of code 0.
MOST_VALUES = 500
ITERATIONS = 200
#: Maximum number of rows, and of non-zero inputs, for choosing the setting.
MOST_CHOOSING_ROWS, MOST_CHOOSING_ELEMENTS = 20_000, 1_000_000
#: Without a validation split one train row in so many is held out; fewer held rows than this are not used.
HELD_OUT, FEWEST_HELD = 10, 20
PENALTIES = (1.0, 30.0, 1_000.0)
#: Numbers farther from the median than this many robust deviations are clipped.
REACH = 5.0
#: Deviations of a normal distribution between its quartiles, and between its first and last percent.
QUARTILES_APART, PERCENTS_APART = 1.349, 4.653

Batch = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Setting:
    """The settings of a linear model's fit."""

    penalty: float = 1.0
    #: Whether inputs are scaled by median and quartiles, and outliers clipped.
    robust: bool = False

    def columns(self, columns: tuple[Column, ...], sample: Batch) -> tuple[Column, ...]:
        """Returns the columns with the centre, scale and bounds of this setting."""
        free = {"minimum": -np.inf, "maximum": np.inf}
        scales = (_robust_scale(c, sample[c.name]) if self.robust and c.kind != "category" else {} for c in columns)
        return tuple(c.model_copy(update=free | scale) for c, scale in zip(columns, scales, strict=True))


SETTINGS = tuple(Setting(penalty, robust) for robust, penalty in product((False, True), PENALTIES))


@dataclass(frozen=True)
class Baseline:
    """A fitted linear classifier. `classes` are the label codes that training saw."""

    columns: tuple[Column, ...]
    #: Number of classes of the task.
    width: int
    model: LogisticRegression
    rows: int

    def __call__(self, batch: Batch) -> np.ndarray:
        """Returns probabilities, float64 (B, C); 0 for a class that was absent in training."""
        odds = self.model.intercept_ + sum_contributions(batch, self.columns, self.model.coef_.T)
        table = np.zeros((len(odds), self.width))
        table[:, self.model.classes_] = _to_probabilities(odds)
        return table


def _to_probabilities(odds: np.ndarray) -> np.ndarray:
    if odds.shape[1] > 1:
        return np.asarray(special.softmax(odds, axis=1))
    second = special.expit(odds[:, 0])
    return np.stack([1 - second, second], axis=1)


def sum_contributions(batch: Batch, columns: tuple[Column, ...], coefficients: np.ndarray) -> np.ndarray:
    """Returns inputs times coefficients (inputs, K), float64 (B, K).

    Avoids the one-hot matrix: a category adds the coefficient of its value.
    """
    total, start = np.zeros((len(batch[columns[0].name]), coefficients.shape[1])), 0
    for column in columns:
        width = _width(column)
        total += _contribution(batch[column.name], column, coefficients[start : start + width])
        start += width
    return total


def _contribution(values: np.ndarray, column: Column, coefficients: np.ndarray) -> np.ndarray:
    """Returns a column's part of the log odds, (B, K), from its coefficients (inputs of the column, K)."""
    if column.kind == "category":
        return np.asarray(coefficients[_positions(column)[values]])
    # Without BLAS, whose order of summation depends on the number of threads.
    return np.asarray(np.einsum("bi,ik->bk", _scale(values, column), coefficients))


def sample_rows(data: Manifest, rows: Rows | Shards, task: Task) -> tuple[tuple[Column, ...], dict[str, np.ndarray]]:
    """Returns the input columns of simple models, and the rows to fit them on: evenly spaced ones above the bounds.

    Args:
        data: Manifest, for the kinds of the columns and their means and deviations.
        rows: The train split.
        task: Names the label and the group, which are not inputs.

    Raises:
        ValueError: there are no inputs or no rows.
    """
    kinds, spare = ("number", "category", "vector"), (task.label, *task.groups)
    columns = tuple(c for c in data.columns if c.kind in kinds and c.name not in spare)
    if not columns:
        raise ValueError("the data has no number, category or vector column")
    count = min(len(rows), MOST_ROWS, max(1, MOST_ELEMENTS // sum(_elements(column) for column in columns)))
    return columns, rows.take(np.linspace(0, len(rows) - 1, count).astype(np.int64))


def split_sample(sample: Batch, task: Task) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Splits the rows into a part to fit and a held-out part of about a tenth, for tasks without a validation split.

    Holds out whole groups if the task has groups, those with the highest values (the last days). Returns both parts
    even if the second is too small to use.
    """
    rows = len(sample[task.label])
    out = np.arange(rows) % HELD_OUT == HELD_OUT - 1
    if task.groups and task.groups[0] in sample:
        values = np.unique(sample[task.groups[0]])
        out = sample[task.groups[0]] >= values[-max(1, len(values) // HELD_OUT)]
    return {name: v[~out] for name, v in sample.items()}, {name: v[out] for name, v in sample.items()}


def choose(
    columns: tuple[Column, ...], sample: Batch, validation: Batch | None, task: Task,
    loss: Callable[[Setting, Batch, Batch], float],
) -> Setting:  # fmt: skip
    """Returns the setting with the lowest loss on held rows, or the first one if there are too few."""
    learn, validation = split_sample(sample, task) if validation is None else (sample, validation)
    most = max(1, min(MOST_CHOOSING_ROWS, MOST_CHOOSING_ELEMENTS // sum(_elements(column) for column in columns)))
    learn, validation = thin(learn, task, most), thin(validation, task, most)
    if len(validation[task.label]) < FEWEST_HELD or len(np.unique(learn[task.label])) < 2:
        return Setting()
    losses = [loss(setting, learn, validation) for setting in SETTINGS]
    return SETTINGS[int(np.argmin(losses))]


def thin(batch: Batch, task: Task, most: int) -> dict[str, np.ndarray]:
    """Returns at most `most` evenly spaced rows."""
    rows = len(batch[task.label])
    index = np.linspace(0, rows - 1, min(rows, most)).astype(np.int64)
    return {name: values[index] for name, values in batch.items()}


def fit(columns: tuple[Column, ...], sample: Batch, task: Task, validation: Batch | None = None) -> Baseline:
    """Fits the baseline on train rows; deterministic.

    Args:
        validation: Rows of the validation split, by which its setting is chosen; None = a part of the sample.

    Raises:
        ValueError: all rows have one class.
    """
    if len(np.unique(sample[task.label])) < 2:
        raise ValueError("the train split has rows of one class only")

    def loss(setting: Setting, learn: Batch, rows: Batch) -> float:
        of_label = _fit_setting(columns, learn, task, setting)(rows)[np.arange(len(rows[task.label])), rows[task.label]]
        return float(-np.log(np.maximum(of_label, SMALLEST_PROBABILITY)).mean())

    return _fit_setting(columns, sample, task, choose(columns, sample, validation, task, loss))


def _fit_setting(columns: tuple[Column, ...], sample: Batch, task: Task, setting: Setting) -> Baseline:
    columns = setting.columns(columns, sample)
    model = LogisticRegression(C=1 / setting.penalty, max_iter=ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bound on iterations is intended
        model.fit(inputs(sample, columns), sample[task.label])
    return Baseline(columns, len(task.classes), model, len(sample[task.label]))


def _robust_scale(column: Column, values: np.ndarray) -> dict[str, float]:
    """Returns median, robust deviation and bounds of a column's values; {} if most of them are equal."""
    known = values[np.isfinite(values)].astype(np.float64)
    if not len(known):
        return {}
    low, lower, middle, upper, high = np.quantile(known, [0.01, 0.25, 0.5, 0.75, 0.99]).tolist()
    std = (upper - lower) / QUARTILES_APART or (high - low) / PERCENTS_APART
    ends = {"minimum": middle - REACH * std, "maximum": middle + REACH * std}
    return {"mean": middle, "std": std, **ends} if std else {}


def _elements(column: Column) -> int:
    """Returns the number of non-zero inputs of the column per row."""
    return 1 if column.kind == "category" else 2 * column.width


def inputs(batch: Batch, columns: tuple[Column, ...]) -> sparse.csr_matrix:
    """Returns one-hot categories and standardised numbers, float64 (B, inputs)."""
    return sparse.hstack([_encode(batch[column.name], column) for column in columns], format="csr")


def _encode(values: np.ndarray, column: Column) -> sparse.csr_matrix:
    return _one_hot(values, column) if column.kind == "category" else sparse.csr_matrix(_scale(values, column))


def _width(column: Column) -> int:
    """Returns the number of inputs of the column."""
    if column.kind == "category":
        return 1 + min(MOST_VALUES, len(column.values))
    return column.width * (2 if column.missing else 1)


def _one_hot(codes: np.ndarray, column: Column) -> sparse.csr_matrix:
    """Returns one input per value, float64 (B, values)."""
    hot = _positions(column)[codes]
    ones = np.ones(len(hot))
    return sparse.csr_matrix((ones, hot, np.arange(len(hot) + 1)), shape=(len(hot), _width(column)))


def _positions(column: Column) -> np.ndarray:
    """Returns each code's index among the column's inputs."""
    frequent = np.argsort(-np.asarray(column.counts), kind="stable")[:MOST_VALUES]
    positions = np.zeros(len(column.values), np.int64)
    positions[frequent] = 1 + np.arange(len(frequent))
    return positions


def _scale(values: np.ndarray, column: Column) -> np.ndarray:
    """Scales and clips a number column; a missing number becomes the centre and sets an indicator input."""
    table = values.reshape(len(values), -1).astype(np.float64)
    missing = np.isnan(table)
    scaled = np.where(missing, 0.0, (table.clip(column.minimum, column.maximum) - column.mean) / (column.std or 1.0))
    return np.hstack([scaled, missing]) if column.missing else scaled


# ---- the baseline of a regression: a linear model for the mean, and quantiles at constant distances from it
#
# The quantiles are the mean plus quantiles of the residuals on rows that were not fitted, as in split conformal
# prediction (Lei et al. 2018, https://doi.org/10.1080/01621459.2017.1307116): calibrated over all rows for any
# distribution, and equally wide everywhere. Quantile regression is a linear programme that takes minutes. With the
# robust scale, outlying labels are clipped for the fit; mean and quantiles use the original labels.


FOLDS = 5
#: Up to this many rows each fold is left out once; with more rows one fold gives enough residuals.
MOST_CROSSED_ROWS = 20_000
#: Maximum number of steps of a fit; for the delays of the flights task 200 steps agree with 1,000 to five digits.
RIDGE_ITERATIONS = 200
#: Labels farther from the median than this many robust deviations are clipped.
LABEL_REACH = 10.0


@dataclass(frozen=True)
class LinearBaseline:
    """A fitted linear model, with the offsets of the mean and each quantile from it, float64 (1 + Q,)."""

    columns: tuple[Column, ...]
    coefficients: np.ndarray
    intercept: float
    apart: np.ndarray
    rows: int

    def __call__(self, batch: Batch) -> np.ndarray:
        """Returns mean and quantiles, float64 (B, 1 + Q)."""
        return np.asarray(self.middle(batch) + self.apart)

    def middle(self, batch: Batch) -> np.ndarray:
        """Returns the linear model's output, float64 (B, 1)."""
        return self.intercept + sum_contributions(batch, self.columns, self.coefficients[:, None])


def fit_regression(
    columns: tuple[Column, ...], sample: Batch, task: Task, validation: Batch | None = None
) -> LinearBaseline:
    """Fits the model on train rows; deterministic.

    Args:
        columns: The inputs: numbers, categories and vectors.
        sample: Some train rows.
        task: Names the label and the quantiles.
        validation: Rows of the validation split, by which its setting is chosen; None = a part of the sample.
    """

    def loss(setting: Setting, learn: Batch, rows: Batch) -> float:
        line, label = _line(columns, learn, task, setting), rows[task.label]
        apart = np.r_[line.apart[0], np.quantile(label - line.middle(rows)[:, 0], task.quantiles)]
        predicted = (line.middle(rows) + apart).T
        return float(losses(cast(Loss, task.decided_by), label, predicted, task.quantiles).mean())

    with threadpool_limits(1, "blas"):  # the order of summation depends on the number of threads
        setting = choose(columns, sample, validation, task, loss)
        line = _line(columns, sample, task, setting)
        apart = np.quantile(_residuals(line.columns, sample, task, setting), task.quantiles)
    return replace(line, apart=np.r_[line.apart[0], apart])


def _line(columns: tuple[Column, ...], sample: Batch, task: Task, setting: Setting) -> LinearBaseline:
    """Fits the linear model without quantiles; if labels are clipped, the offset of the mean corrects for it."""
    columns, label = setting.columns(columns, sample), sample[task.label]
    near = _clip_outliers(label) if setting.robust else label
    model = _fit_ridge(inputs(sample, columns), near, setting)
    shift = float((label - near).mean())
    return LinearBaseline(columns, np.asarray(model.coef_), float(model.intercept_), np.array([shift]), len(label))


def _clip_outliers(label: np.ndarray) -> np.ndarray:
    """Clips labels that lie far from the middle half."""
    lower, middle, upper = np.quantile(label, [0.25, 0.5, 0.75])
    reach = LABEL_REACH * (upper - lower) / QUARTILES_APART
    return np.asarray(label.clip(middle - reach, middle + reach)) if reach else label


def _residuals(columns: tuple[Column, ...], sample: Batch, task: Task, setting: Setting) -> np.ndarray:
    """Returns residuals of rows that were not fitted, float64 (n,): of all rows, or of one fold if there are many rows.

    Rows of a group are in one fold.
    """
    table, label = inputs(sample, columns), sample[task.label]
    near = _clip_outliers(label) if setting.robust else label
    group = sample.get(task.groups[0]) if task.groups else None
    fold = (np.arange(len(label)) if group is None else np.unique(group, return_inverse=True)[1]) % FOLDS
    residuals = []
    for number in range(FOLDS if len(label) <= MOST_CROSSED_ROWS else 1):
        out = fold == number
        if out.any() and not out.all():
            residuals.append(label[out] - _fit_ridge(table[~out], near[~out], setting).predict(table[out]))
    return np.concatenate(residuals or [label - label.mean()])


def _fit_ridge(table: sparse.csr_matrix, label: np.ndarray, setting: Setting) -> Ridge:
    return Ridge(alpha=setting.penalty, solver="lsqr", max_iter=RIDGE_ITERATIONS).fit(table, label)
