"""Columns of a dataset as names that people read, for slices and groups."""

from collections.abc import Callable

import numpy as np

from vgp.base.exits import UserError
from vgp.evaluation.predictions import Names
from vgp.protocol.manifest import Column

MISSING = "(missing)"
#: A slice by a number with more distinct values than this is a slice by its quintiles.
MOST_DISTINCT_NUMBERS = 20

#: Values of B rows -> their names.
Namer = Callable[[np.ndarray], Names]


def namer(column: Column, values: Callable[[], np.ndarray]) -> Namer:
    """How to name a column's values for slices, where many numbers become five ranges.

    Args:
        column: Its entry in the manifest.
        values: Gives all its values in the split, shape (N,): asked only where the names depend on them.

    Raises:
        UserError: the column is a vector.
    """
    _require_single(column)
    if column.kind in ("category", "label"):
        names = tuple(value or MISSING for value in column.values)
        return lambda codes: Names(codes.astype(np.int32), names)
    numbers = values()
    distinct = np.unique(numbers)  # not-a-number is one value, and the last
    if len(distinct) > MOST_DISTINCT_NUMBERS:
        return _quintiles(numbers)
    names = _written(distinct)
    return lambda batch: Names(np.searchsorted(distinct, batch).astype(np.int32), names)


def group_namer(column: Column) -> Namer:
    """How to name the values of the column that groups rows: every one has a name of its own, in every batch.

    A batch lists the names of its own values only: groups may be as many as rows.

    Raises:
        UserError: the column is a vector.
    """
    _require_single(column)
    if column.kind in ("category", "label"):
        return lambda codes: Names(codes.astype(np.int32), column.values)
    return _distinct


def _distinct(batch: np.ndarray) -> Names:
    distinct, codes = np.unique(batch, return_inverse=True)
    return Names(codes, _written(distinct))


def _written(distinct: np.ndarray) -> tuple[str, ...]:
    """Numbers as text, in as few digits as tell them apart."""
    if distinct.dtype.kind in "iu":
        return tuple(map(str, distinct.tolist()))
    return tuple(MISSING if np.isnan(value) else str(value).removesuffix(".0") for value in distinct)


def _require_single(column: Column) -> None:
    if column.kind == "vector":
        raise UserError(f"{column.name} is a vector: rows can be sliced or grouped by a single value only.")


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
