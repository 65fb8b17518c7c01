"""The baseline: logistic regression on one-hot categories and standardised numbers, fitted in seconds.

What a careful analyst would try first. A network that does not beat it has not earned its GPUs.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from training.data.manifest import Column, Manifest
from training.data.rows import Rows
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
        table = np.zeros((len(batch[self.columns[0].name]), self.width))
        table[:, self.model.classes_] = self.model.predict_proba(_inputs(batch, self.columns))
        return table


def fit(data: Manifest, rows: Rows, task: Task) -> Baseline:
    """Fits the baseline on rows of the train split, the same for the same rows.

    Args:
        data: Manifest, for the kinds of the columns and their means and deviations.
        rows: The train split; above the bounds, evenly spaced rows of it are taken.
        task: Names the label, the classes and the group, which is no input.

    Raises:
        ValueError: there is nothing to learn from.
    """
    kinds, spare = ("number", "category", "vector"), (task.label, task.group)
    columns = tuple(c for c in data.columns if c.kind in kinds and c.name not in spare)
    if not columns:
        raise ValueError("the data has no number, category or vector column")
    count = min(len(rows), MOST_ROWS, max(1, MOST_ELEMENTS // sum(_elements(column) for column in columns)))
    sample = rows.take(np.linspace(0, len(rows) - 1, count).astype(np.int64))
    if len(np.unique(sample[task.label])) < 2:
        raise ValueError("the train split has rows of one class only")
    model = LogisticRegression(max_iter=ITERATIONS)  # its light penalty only keeps rare categories finite
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bound on the work is meant
        model.fit(_inputs(sample, columns), sample[task.label])
    return Baseline(columns, len(task.classes), model, count)


def _elements(column: Column) -> int:
    """Non-zero inputs that the column makes of one row."""
    return 1 if column.kind == "category" else 2 * column.width


def _inputs(batch: dict[str, np.ndarray], columns: tuple[Column, ...]) -> sparse.csr_matrix:
    return sparse.hstack([_encoded(batch[column.name], column) for column in columns], format="csr")


def _encoded(values: np.ndarray, column: Column) -> sparse.csr_matrix:
    return _one_hot(values, column) if column.kind == "category" else _standardised(values, column)


def _one_hot(codes: np.ndarray, column: Column) -> sparse.csr_matrix:
    """One column per value, float64 (B, values)."""
    frequent = np.argsort(-np.asarray(column.counts), kind="stable")[:MOST_VALUES]
    positions = np.zeros(len(column.values), np.int64)
    positions[frequent] = 1 + np.arange(len(frequent))
    hot = positions[codes]
    ones = np.ones(len(hot))
    return sparse.csr_matrix((ones, hot, np.arange(len(hot) + 1)), shape=(len(hot), 1 + len(frequent)))


def _standardised(values: np.ndarray, column: Column) -> sparse.csr_matrix:
    """Mean 0, deviation 1 over the train split; a missing number is the mean and has a column that says so."""
    table = values.reshape(len(values), -1).astype(np.float64)
    missing = np.isnan(table)
    scaled = np.where(missing, 0.0, (table - column.mean) / (column.std or 1.0))
    return sparse.csr_matrix(np.hstack([scaled, missing]) if column.missing else scaled)
