"""The columns of a prepared table: brought to fixed width, and counted in figures that merge across shards.

A column of numbers as counts in bins, by which two sets of rows are compared, years apart if need be.

The bins are tenths of the train rows, each closed on the left, and one more for missing values. Their edges and counts
go with the dataset into every model's card, so that nobody needs the old rows to tell whether new ones are like them.
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
    """A column of numbers holds one that is infinite."""

    def __init__(self, column: str):
        super().__init__(f"column {column} holds infinite values; make them missing or bound them.")
        self.column = column


@dataclass
class Sketch:
    """What one column holds, in any number of shards; figures of the train split, values of all splits.

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
        """The column's entry in the manifest."""
        values = classes if self.kind == "label" else category_values(self.counts)
        counted = [str(code) for code in range(len(classes))] if self.kind == "label" else values
        width = 1 if self.kind != "vector" else _width(self.type)
        return Column(
            name=name, kind=self.kind, type=str(self.type), width=width, count=self.count, missing=self.missing,
            mean=self.mean, std=(self.squares / self.count) ** 0.5 if self.squares > 0 else 1.0,
            minimum=self.minimum if self.minimum < np.inf else 0.0,
            maximum=self.maximum if self.maximum > -np.inf else 0.0,
            values=values if self.kind in ("category", "label") else (),
            counts=tuple(self.counts[value] for value in counted) if self.kind in ("category", "label") else (),
        )  # fmt: skip


def require_few_values(name: str, values: Collection[str]) -> None:
    """Raises UserError for a category that cannot be one: free text, or a number that was read as text."""
    if len(values) > MAX_VALUES:
        raise UserError(f"the category {name} has more than {MAX_VALUES:,} values; drop it or group them.")
    if sum(map(len, values)) > MAX_VALUE_BYTES:
        raise UserError(
            f"the values of the category {name} take more than {MAX_VALUE_BYTES >> 20} MiB; drop it or group them."
        )


def category_values(counts: Counter[str]) -> tuple[str, ...]:
    """The values in the order of their codes: "" = missing, then sorted, so that no order of shards shows."""
    return "", *sorted(value for value in counts if value)


def fixed_width(table: pa.Table, label: str, *, regression: bool = False) -> pa.Table:
    """The table with every column in its form on disk, strings still as dictionaries.

    Args:
        regression: Whether the label is a number, float64, and no class.

    Raises:
        UserError: a column has no fixed width or an infinite value, or an id or the label is missing somewhere.
    """
    columns = {
        name: _number(name, column) if regression and name == label else _fixed(name, column)
        for name, column in ((name, table[name].combine_chunks()) for name in table.column_names)
    }
    for name, column in columns.items():
        if column.null_count:
            raise UserError(f"column {name} ({column.type}) may not be missing; {column.null_count} rows are.")
    for name, column in columns.items():
        if not pa.types.is_dictionary(column.type):
            require_finite(name, elements(column))
    if label in columns and pa.types.is_integer(columns[label].type):
        columns[label] = columns[label].cast(pa.int64())
    return pa.table(columns)


def _number(name: str, label: pa.Array) -> pa.Array:
    """The label of a regression; null where it is not known."""
    if not (pa.types.is_floating(label.type) or pa.types.is_integer(label.type) or pa.types.is_boolean(label.type)):
        raise UserError(f"the label {name} is of type {label.type}: a regression predicts a number.")
    number = label.cast(pa.int8() if pa.types.is_boolean(label.type) else label.type).cast(pa.float64(), safe=False)
    return pc.if_else(pc.is_nan(number), None, number)


def _fixed(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _fixed(name, column.cast(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    if pa.types.is_floating(kind):
        return pc.fill_null(column.cast(pa.float32()), np.nan)
    if pa.types.is_integer(kind) or pa.types.is_fixed_size_binary(kind):
        return column
    if pa.types.is_fixed_size_list(kind):
        return column
    raise UserError(
        f"column {name} is of type {kind}, which has no fixed width: make numbers, strings or vectors of it."
    )


def require_finite(name: str, values: NDArray[np.generic]) -> None:
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise Infinite(name)


def sketches(table: pa.Table, label: str, train: bool) -> dict[str, Sketch]:
    """Figures of a table of `fixed_width`; of a split other than train only which values occur."""
    return {name: sketch(table[name].combine_chunks(), name == label, train) for name in table.column_names}


def sketch(column: pa.Array, is_label: bool, train: bool, values: Sequence[str] | None = None) -> Sketch:
    """Figures of one column.

    Args:
        values: Of a category that comes as codes.
    """
    if values is not None:
        column = pa.DictionaryArray.from_arrays(column, pa.array(values, pa.string()))
    if pa.types.is_dictionary(column.type):
        counts = Counter(_value_counts(column))
        sketch = Sketch("category", pa.int32(), counts=counts if train else Counter(dict.fromkeys(counts, 0)))
        sketch.count, sketch.missing = (len(column) - counts[""], counts[""]) if train else (0, 0)
        return sketch
    if is_label and pa.types.is_integer(column.type):
        codes, n = np.unique(column.to_numpy(), return_counts=True)
        by_code = dict(zip(map(str, codes.tolist()), n.tolist(), strict=True)) if train else {}
        return Sketch("label", column.type, count=len(column) if train else 0, counts=Counter(by_code))
    if is_label and pa.types.is_float64(column.type):  # other floats are float32 by now
        number = Sketch("label", column.type)
        return _with_moments(number, elements(column)) if train and len(column) else number
    if pa.types.is_integer(column.type):
        return Sketch("id", column.type, count=len(column) if train else 0)
    vector = not pa.types.is_floating(column.type)
    sketch = Sketch("vector" if vector else "number", column.type)
    numbers = elements(column).reshape(-1)
    return _with_moments(sketch, numbers) if train and len(column) else sketch


def _with_moments(sketch: Sketch, values: NDArray[np.generic]) -> Sketch:
    kept = values[~np.isnan(values)] if np.isnan(values.min()) else values
    sketch.count, sketch.missing = len(kept), len(values) - len(kept)
    if len(kept):
        # + 0.0: which of 0.0 and -0.0, that are equal, the least is depends on how many a processor compares at once.
        sketch.minimum, sketch.maximum = float(kept.min()) + 0.0, float(kept.max()) + 0.0
        numbers = kept.astype(np.float64)  # a copy, in which the rest is computed
        sketch.mean = float(numbers.mean())
        numbers -= sketch.mean
        sketch.squares = float(np.square(numbers, out=numbers).sum())
    return sketch


def elements(column: pa.Array) -> NDArray[np.generic]:
    """A fixed-width column as numpy: (rows,), or (rows, width) for vectors; bytes become uint8."""
    if pa.types.is_fixed_size_list(column.type):
        return _numbers(column.flatten()).reshape(len(column), column.type.list_size)
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        start = column.offset * width
        return np.frombuffer(column.buffers()[1], np.uint8)[start : start + len(column) * width].reshape(-1, width)
    return _numbers(column)


def _numbers(column: pa.Array) -> NDArray[np.generic]:
    """`to_numpy` imports pandas wherever it is installed: a third of a second, in each of a machine's processes."""
    plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if plain and not column.null_count:
        return np.from_dlpack(column)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _value_counts(column: pa.Array) -> dict[str, int]:
    n = np.bincount(column.indices.to_numpy(), minlength=len(column.dictionary))
    return dict(zip(column.dictionary.to_pylist(), n.tolist(), strict=True))


def _width(kind: pa.DataType) -> int:
    return int(kind.list_size if pa.types.is_fixed_size_list(kind) else kind.byte_width)


BINS = 10


def bin_edges(values: NDArray[np.generic]) -> NDArray[np.float64]:
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
