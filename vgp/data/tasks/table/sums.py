"""Columns that make up a target together: the parts of a sum, which are known when the sum is."""

from collections.abc import Mapping

import numpy as np

from vgp.data.tasks.table.guess import Guess
from vgp.data.tasks.table.kinds import NUMBERS
from vgp.data.tasks.table.target import Target

#: Rows for each column that could be a part, and columns at most: with too few rows anything adds up.
ROWS_PER_COLUMN, MOST_COLUMNS = 10, 200
#: What is left of the target's spread where it is a sum, as rounding leaves it.
EXACT = 1e-4


def parts(columns: Mapping[str, Guess], target: Target) -> list[str]:
    """The numbers whose weighted sum is the target in every row that has them all; none if there is no such sum.

    Least squares of the standardized columns: what is nearly exact is no relation that was learned, it is arithmetic.
    """
    numbers = [c for n, c in columns.items() if n != target.name and c.word in NUMBERS and not c.missing]
    numbers = [c for c in numbers if c.distinct > 1]
    if not target.regression or not 1 <= len(numbers) <= MOST_COLUMNS:
        return []
    inputs = np.column_stack([c.numbers for c in numbers])
    known = ~np.isnan(target.values) & ~np.isnan(inputs).any(axis=1)
    if known.sum() < ROWS_PER_COLUMN * (len(numbers) + 1):
        return []
    inputs, goal = _standardized(inputs[known]), _standardized(target.values[known])
    weights, *_ = np.linalg.lstsq(inputs, goal, rcond=None)
    if (inputs @ weights - goal).std() > EXACT:
        return []
    return [c.name for c, weight in zip(numbers, weights, strict=True) if abs(weight) > 10 * EXACT]


def _standardized(values: np.ndarray) -> np.ndarray:
    """Mean 0 and standard deviation 1 in each column."""
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1))
