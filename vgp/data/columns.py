"""The columns of a prepared table: conversion to fixed width, statistics that merge across shards, and histograms.

A histogram has a bin for each tenth of the train rows, closed on the left, and one for missing values. Edges and counts
are in the manifest and in every model's card, so new rows can be compared with the train rows without reading them.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.protocol.manifest import Column

Kind = Literal["number", "category", "vector", "id", "label"]
#: More values than this would swell the manifest and every embedding.
MAX_VALUES = 200_000
MAX_VALUE_BYTES = 16 << 20


class Infinite(UserError):
    """An infinite value in a column of numbers."""

    def __init__(self, column: str):
        super().__init__(f"column {column} holds infinite values: replace them with missing values, or clip them.")
        self.column = column


@dataclass
class Sketch:
    """The statistics of one column over any number of shards: moments of the train split, categories of all splits.

    Means and variances merge by Chan, Golub, LeVeque 1983 (https://doi.org/10.1080/00031305.1983.10483115).
    """

    kind: Kind
    type: pa.DataType
    count: int = 0
    missing: int = 0
    mean: float = 0.0
    squares: float = 0.0
    minimum: float = np.inf
    maximum: float = -np.inf
    counts: Counter[str] = field(default_factory=Counter)

    def merge(self, other: "Sketch") -> None:
        total = self.count + other.count
        if other.count:
            delta = other.mean - self.mean
            self.mean += delta * other.count / total
            self.squares += other.squares + delta**2 * self.count * other.count / total
        self.count, self.missing = total, self.missing + other.missing
        self.minimum, self.maximum = min(self.minimum, other.minimum), max(self.maximum, other.maximum)
        self.counts.update(other.counts)

    def require_few_values(self, name: str) -> None:
        if self.kind == "category":
            require_few_values(name, self.counts)

    def column(self, name: str, classes: tuple[str, ...]) -> Column:
        """Returns the column's entry in the manifest."""
        values = classes if self.kind == "label" else category_values(self.counts)
        keys = [str(code) for code in range(len(classes))] if self.kind == "label" else values
        width = 1 if self.kind != "vector" else _find_width(self.type)
        return Column(
            name=name, kind=self.kind, type=str(self.type), width=width, count=self.count, missing=self.missing,
            mean=self.mean, std=(self.squares / self.count) ** 0.5 if self.squares > 0 else 1.0,
            minimum=self.minimum if self.minimum < np.inf else 0.0,
            maximum=self.maximum if self.maximum > -np.inf else 0.0,
            values=values if self.kind in ("category", "label") else (),
            counts=tuple(self.counts[key] for key in keys) if self.kind in ("category", "label") else (),
        )  # fmt: skip


def require_few_values(name: str, values: Collection[str]) -> None:
    """Raises UserError for a category with too many values, such as free text or a number that was read as text."""
    if len(values) > MAX_VALUES:
        raise UserError(
            f"the category {name} has more than {MAX_VALUES:,} values: drop the column, or group its values."
        )
    if sum(map(len, values)) > MAX_VALUE_BYTES:
        raise UserError(
            f"the values of the category {name} take more than {MAX_VALUE_BYTES >> 20} MiB: drop the column, or group "
            "its values."
        )


def category_values(counts: Counter[str]) -> tuple[str, ...]:
    """Returns the values in the order of their codes: "" (missing) first, then sorted, so shard order is irrelevant."""
    return "", *sorted(value for value in counts if value)


def fixed_width(table: pa.Table, label: str, *, regression: bool = False) -> pa.Table:
    """Converts every column to its type on disk; strings become dictionaries.

    Args:
        regression: Whether the label is a number, stored as float64, and not a class.

    Raises:
        UserError: A column has no fixed width or holds an infinite value, or an id or the label is missing in a row.
    """
    columns = {
        name: _convert_target(name, column) if regression and name == label else _convert(name, column)
        for name, column in ((name, table[name].combine_chunks()) for name in table.column_names)
    }
    for name, column in columns.items():
        if column.null_count:
            raise UserError(
                f"column {name} ({column.type}) must have a value; it is missing in {column.null_count} rows."
            )
    for name, column in columns.items():
        if not pa.types.is_dictionary(column.type):
            require_finite(name, elements(column))
    if label in columns and pa.types.is_integer(columns[label].type):
        columns[label] = columns[label].cast(pa.int64())
    return pa.table(columns)


def _convert_target(name: str, label: pa.Array) -> pa.Array:
    """Converts the label of a regression to float64; null = unknown."""
    if not (pa.types.is_floating(label.type) or pa.types.is_integer(label.type) or pa.types.is_boolean(label.type)):
        raise UserError(f"the label {name} has the type {label.type}: a regression predicts a number.")
    number = label.cast(pa.int8() if pa.types.is_boolean(label.type) else label.type).cast(pa.float64(), safe=False)
    return pc.if_else(pc.is_nan(number), None, number)


def _convert(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _convert(name, column.cast(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    if pa.types.is_floating(kind):
        return pc.fill_null(column.cast(pa.float32()), np.nan)
    if pa.types.is_integer(kind) or pa.types.is_fixed_size_binary(kind):
        return column
    if pa.types.is_fixed_size_list(kind):
        return column
    raise UserError(
        f"column {name} has the type {kind}, which has no fixed width: convert it to numbers, strings or vectors."
    )


def require_finite(name: str, values: NDArray[np.generic]) -> None:
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise Infinite(name)


def sketches(table: pa.Table, label: str, train: bool) -> dict[str, Sketch]:
    """Returns the statistics of each column of a `fixed_width` table; outside the train split only the categories."""
    return {name: sketch(table[name].combine_chunks(), name == label, train) for name in table.column_names}


def sketch(column: pa.Array, is_label: bool, train: bool, values: Sequence[str] | None = None) -> Sketch:
    """Returns the statistics of one column.

    Args:
        values: The values of a category that is given as codes.
    """
    if values is not None:
        column = pa.DictionaryArray.from_arrays(column, pa.array(values, pa.string()))
    if pa.types.is_dictionary(column.type):
        counts = Counter(_count_values(column))
        sketch = Sketch("category", pa.int32(), counts=counts if train else Counter(dict.fromkeys(counts, 0)))
        sketch.count, sketch.missing = (len(column) - counts[""], counts[""]) if train else (0, 0)
        return sketch
    if is_label and pa.types.is_integer(column.type):
        codes, n = np.unique(column.to_numpy(), return_counts=True)
        by_code = dict(zip(map(str, codes.tolist()), n.tolist(), strict=True)) if train else {}
        return Sketch("label", column.type, count=len(column) if train else 0, counts=Counter(by_code))
    if is_label and pa.types.is_float64(column.type):  # fixed_width makes all other floats float32
        number = Sketch("label", column.type)
        return _with_moments(number, elements(column)) if train and len(column) else number
    if pa.types.is_integer(column.type):
        return Sketch("id", column.type, count=len(column) if train else 0)
    vector = not pa.types.is_floating(column.type)
    sketch = Sketch("vector" if vector else "number", column.type)
    numbers = elements(column).reshape(-1)
    return _with_moments(sketch, numbers) if train and len(column) else sketch


def _with_moments(sketch: Sketch, values: NDArray[np.generic]) -> Sketch:
    known = values[~np.isnan(values)] if np.isnan(values.min()) else values
    sketch.count, sketch.missing = len(known), len(values) - len(known)
    if len(known):
        # + 0.0 turns -0.0 into 0.0: which of the two `min` returns depends on the processor's vector width.
        sketch.minimum, sketch.maximum = float(known.min()) + 0.0, float(known.max()) + 0.0
        numbers = known.astype(np.float64)  # a copy, changed in place below
        sketch.mean = float(numbers.mean())
        numbers -= sketch.mean
        sketch.squares = float(np.square(numbers, out=numbers).sum())
    return sketch


def elements(column: pa.Array) -> NDArray[np.generic]:
    """Returns a fixed-width column as numpy: (rows,), or (rows, width) for vectors; bytes become uint8."""
    if pa.types.is_fixed_size_list(column.type):
        return _to_numpy(column.flatten()).reshape(len(column), column.type.list_size)
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        start = column.offset * width
        return np.frombuffer(column.buffers()[1], np.uint8)[start : start + len(column) * width].reshape(-1, width)
    return _to_numpy(column)


def _to_numpy(column: pa.Array) -> NDArray[np.generic]:
    """Converts to numpy without `to_numpy` where possible, which imports pandas (0.3 s in each process)."""
    plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if plain and not column.null_count:
        return np.from_dlpack(column)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _count_values(column: pa.Array) -> dict[str, int]:
    n = np.bincount(column.indices.to_numpy(), minlength=len(column.dictionary))
    return dict(zip(column.dictionary.to_pylist(), n.tolist(), strict=True))


def _find_width(kind: pa.DataType) -> int:
    return int(kind.list_size if pa.types.is_fixed_size_list(kind) else kind.byte_width)


BINS = 10


def bin_edges(values: NDArray[np.generic]) -> NDArray[np.float64]:
    """Returns the inner edges of the tenths of the known values, rising, float64 (at most 9,); equal edges once."""
    numbers = values.astype(np.float64)
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return np.zeros(0)
    return np.unique(np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1]))


def assign_bins(values: NDArray[np.generic], inner: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the bin of each value, int64 (N,), from 0; bin len(inner) + 1 is for missing values."""
    numbers = values.astype(np.float64)
    return np.where(np.isnan(numbers), len(inner) + 1, np.searchsorted(inner, numbers, side="right"))


def tally(values: NDArray[np.generic], inner: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the number of values in each bin, int64 (len(inner) + 2,)."""
    return np.bincount(assign_bins(values, inner), minlength=len(inner) + 2)
