"""The baseline: logistic regression on one-hot categories and standardised numbers, fitted in seconds.

What a careful analyst would try first. A network that does not beat it has not earned its GPUs.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse, special
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from training.data.manifest import Column, Manifest
from training.data.rows import Rows, Shards
from training.task import Task

#: Bounds on the work, so that a baseline never takes longer than seconds: rows, and non-zero inputs over all rows.
MOST_ROWS = 250_000
MOST_ELEMENTS = 20_000_000
#: Values of a category that get a column, the most frequent first; the rest share the column of code 0.
MOST_VALUES = 500
ITERATIONS = 200


@dataclass(frozen=True)
class Baseline:
    """A fitted baseline. `classes` are the label codes that training saw."""

    columns: tuple[Column, ...]
    #: Number of classes of the task.
    width: int
    model: LogisticRegression
    rows: int

    def __call__(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        """Probabilities, float64 (B, C); 0 for a class that was absent in training."""
        odds = self.model.intercept_ + summed(batch, self.columns, self.model.coef_.T)
        table = np.zeros((len(odds), self.width))
        table[:, self.model.classes_] = _probabilities(odds)
        return table


def _probabilities(odds: np.ndarray) -> np.ndarray:
    if odds.shape[1] > 1:
        return np.asarray(special.softmax(odds, axis=1))
    second = special.expit(odds[:, 0])
    return np.stack([1 - second, second], axis=1)


def summed(batch: dict[str, np.ndarray], columns: tuple[Column, ...], coefficients: np.ndarray) -> np.ndarray:
    """What inputs times coefficients (inputs, K) add up to, float64 (B, K).

    The inputs are not laid out as for fitting: a category adds the coefficient of its value.
    """
    total, start = np.zeros((len(batch[columns[0].name]), coefficients.shape[1])), 0
    for column in columns:
        width = _width(column)
        total += _contribution(batch[column.name], column, coefficients[start : start + width])
        start += width
    return total


def _contribution(values: np.ndarray, column: Column, coefficients: np.ndarray) -> np.ndarray:
    """What a column adds to the log odds, (B, K), of coefficients (inputs of the column, K)."""
    if column.kind == "category":
        return np.asarray(coefficients[_positions(column)[values]])
    # Not by BLAS, which adds up in another order with other numbers of threads.
    return np.asarray(np.einsum("bi,ik->bk", _scaled(values, column), coefficients))


def sampled(data: Manifest, rows: Rows | Shards, task: Task) -> tuple[tuple[Column, ...], dict[str, np.ndarray]]:
    """The inputs of simple models, and the rows that they are fitted on: above the bounds evenly spaced ones.

    Args:
        data: Manifest, for the kinds of the columns and their means and deviations.
        rows: The train split.
        task: Names the label and the group, which are no inputs.

    Raises:
        ValueError: there is nothing to learn from.
    """
    kinds, spare = ("number", "category", "vector"), (task.label, *task.groups)
    columns = tuple(c for c in data.columns if c.kind in kinds and c.name not in spare)
    if not columns:
        raise ValueError("the data has no number, category or vector column")
    count = min(len(rows), MOST_ROWS, max(1, MOST_ELEMENTS // sum(_elements(column) for column in columns)))
    return columns, rows.take(np.linspace(0, len(rows) - 1, count).astype(np.int64))


def fit(columns: tuple[Column, ...], sample: dict[str, np.ndarray], task: Task) -> Baseline:
    """Fits the baseline on rows of the train split, the same for the same rows.

    Raises:
        ValueError: they are of one class.
    """
    if len(np.unique(sample[task.label])) < 2:
        raise ValueError("the train split has rows of one class only")
    model = LogisticRegression(max_iter=ITERATIONS)  # its light penalty only keeps rare categories finite
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bound on the work is meant
        model.fit(inputs(sample, columns), sample[task.label])
    return Baseline(columns, len(task.classes), model, len(sample[task.label]))


def _elements(column: Column) -> int:
    """Non-zero inputs that the column makes of one row."""
    return 1 if column.kind == "category" else 2 * column.width


def inputs(batch: dict[str, np.ndarray], columns: tuple[Column, ...]) -> sparse.csr_matrix:
    """One-hot categories and standardised numbers, float64 (B, inputs)."""
    return sparse.hstack([_encoded(batch[column.name], column) for column in columns], format="csr")


def _encoded(values: np.ndarray, column: Column) -> sparse.csr_matrix:
    return _one_hot(values, column) if column.kind == "category" else sparse.csr_matrix(_scaled(values, column))


def _width(column: Column) -> int:
    """How many inputs the column is."""
    if column.kind == "category":
        return 1 + min(MOST_VALUES, len(column.values))
    return column.width * (2 if column.missing else 1)


def _one_hot(codes: np.ndarray, column: Column) -> sparse.csr_matrix:
    """One input per value, float64 (B, values)."""
    hot = _positions(column)[codes]
    ones = np.ones(len(hot))
    return sparse.csr_matrix((ones, hot, np.arange(len(hot) + 1)), shape=(len(hot), _width(column)))


def _positions(column: Column) -> np.ndarray:
    """Which of the column's inputs each code is."""
    frequent = np.argsort(-np.asarray(column.counts), kind="stable")[:MOST_VALUES]
    positions = np.zeros(len(column.values), np.int64)
    positions[frequent] = 1 + np.arange(len(frequent))
    return positions


def _scaled(values: np.ndarray, column: Column) -> np.ndarray:
    """Mean 0, deviation 1 over the train split; a missing number is the mean and has an input that says so."""
    table = values.reshape(len(values), -1).astype(np.float64)
    missing = np.isnan(table)
    scaled = np.where(missing, 0.0, (table - column.mean) / (column.std or 1.0))
    return np.hstack([scaled, missing]) if column.missing else scaled
