"""A column of numbers as counts in bins, by which two sets of rows are compared, years apart if need be.

The bins are tenths of the train rows, each closed on the left, and one more for missing values. Their edges and counts
go with the dataset into every model's card, so that nobody needs the old rows to tell whether new ones are like them.
"""

import numpy as np
from numpy.typing import NDArray

BINS = 10


def edges(values: NDArray[np.generic]) -> NDArray[np.float64]:
    """The inner edges of tenths of the known values, rising, float64 (at most 9,); fewer where many are equal."""
    numbers = values.astype(np.float64)
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return np.zeros(0)
    return np.unique(np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1]))


def bins(values: NDArray[np.generic], inner: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each value, int64 (N,), from 0; the last, len(inner) + 1, is for missing ones."""
    numbers = values.astype(np.float64)
    return np.where(np.isnan(numbers), len(inner) + 1, np.searchsorted(inner, numbers, side="right"))


def tally(values: NDArray[np.generic], inner: NDArray[np.float64]) -> NDArray[np.int64]:
    """Values by bin, int64 (len(inner) + 2,)."""
    return np.bincount(bins(values, inner), minlength=len(inner) + 2)
