"""Rows that are measured together, and what their groups allow to say: intervals of figures."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vgp.evaluation import comparison
from vgp.evaluation.comparison import Blocks
from vgp.evaluation.predictions import Names, Predictions
from vgp.evaluation.ranked import chosen

#: Values of one slice column that are measured, the most frequent first: a table of thousands helps nobody.
MOST_SLICE_VALUES = 50
#: Each side of a 95% interval.
INTERVAL_CONFIDENCE = 0.975
SLICE_REPLICATES = 1_000

Bounds = tuple[float, float] | None
#: `map`, by several threads: results in the order of what they are of.
Each = Callable[..., Iterable[Any]]


@dataclass(frozen=True)
class Part:
    """Rows that are measured together: all of them, or those with one value of a slice column."""

    #: Their numbers, rising.
    rows: np.ndarray | slice
    #: Of each class, int (C,).
    counts: np.ndarray
    column: str = ""
    value: str = ""

    @property
    def replicates(self) -> int:
        return SLICE_REPLICATES if self.column else comparison.REPLICATES


def everything(data: Predictions) -> Part:
    return Part(slice(None), _class_counts(data, data.label))


def parts(data: Predictions, column: str, names: Names) -> Iterator[Part]:
    """The most frequent values of a column, in the order of their codes."""
    for value, rows in names.rows(MOST_SLICE_VALUES):
        labels = chosen(data.label, rows) if data.header.classes else data.label
        yield Part(rows, _class_counts(data, labels), column, value)


def _class_counts(data: Predictions, label: np.ndarray) -> np.ndarray:
    classes = len(data.header.classes)
    return np.bincount(label, minlength=classes) if classes else np.zeros(0, np.int64)


def mean_interval(
    data: Predictions, part: Part, estimate: float, values: np.ndarray, sizes: np.ndarray | None = None
) -> Bounds:
    """The 95% interval of a mean over the part's rows, float (n,); with `sizes` of a ratio of sums."""
    rows = blocks(data, part, len(values))
    means = comparison.mean_replicates(comparison.resample(rows.count, part.replicates), values, rows, sizes)
    return bounds(estimate, means, rows.count)


def blocks(data: Predictions, part: Part, rows: int) -> Blocks:
    return comparison.blocks(data.group[part.rows] if data.group else None, rows)


def bounds(estimate: float, values: np.ndarray, count: int) -> Bounds:
    """The 95% interval from replicates of an estimate; None where there are too few blocks."""
    found = comparison.interval(estimate, values, count, INTERVAL_CONFIDENCE)
    return (found.low, found.high) if np.isfinite([found.low, found.high]).all() else None
