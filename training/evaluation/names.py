"""Columns of a dataset as names that people read, for slices and groups."""

from collections.abc import Callable

import numpy as np

from training.data.manifest import Column
from training.errors import UserError
from training.evaluation.predictions import Names

MISSING = "(missing)"
#: A slice by a number with more distinct values than this is a slice by its quintiles.
MOST_DISTINCT_NUMBERS = 20

#: Values of B rows -> their names; every batch gets the same list of names.
Namer = Callable[[np.ndarray], Names]


def namer(column: Column, values: np.ndarray, *, whole: bool = False) -> Namer:
    """How to name a column's values.

    Args:
        column: Its entry in the manifest.
        values: All its values in the split, shape (N,).
        whole: Every distinct value keeps its own name, as a group needs; else many numbers become five ranges.

    Raises:
        UserError: the column is a vector.
    """
    if column.kind == "vector":
        raise UserError(f"{column.name} is a vector: rows can be sliced or grouped by a single value only.")
    if column.kind in ("category", "label"):
        names = tuple(value or MISSING for value in column.values)
        return lambda codes: Names(codes.astype(np.int32), names)
    distinct = np.unique(values)  # not-a-number is one value, and the last
    if whole or len(distinct) <= MOST_DISTINCT_NUMBERS:
        names = tuple(MISSING if np.isnan(value) else f"{value:.15g}" for value in distinct)
        return lambda batch: Names(np.searchsorted(distinct, batch).astype(np.int32), names)
    return _quintiles(values)


def _quintiles(values: np.ndarray) -> Namer:
    """Five ranges of about equal rows, closed on the left; the last is for missing values."""
    edges = np.unique(np.nanquantile(values, np.linspace(0, 1, 6)))
    inner = edges[1:-1]
    shown = [f"{edge:.3g}" for edge in edges]
    ranges = [f"{low} to {high}" for low, high in zip(shown[:-1], shown[1:], strict=True)]
    names = (*ranges, MISSING)

    def name(batch: np.ndarray) -> Names:
        codes = np.searchsorted(inner, batch, side="right")
        return Names(np.where(np.isnan(batch), len(ranges), codes).astype(np.int32), names)

    return name
