"""Sorts finished rows by split and id in bounded memory.

Ids are hashes, so equal ranges of ids hold about equally many rows: each row is written to the scratch file of its
range, and one range at a time is sorted in memory. Categories become codes, and numbers float32 with nan for missing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.data.columns import require_few_values, require_finite
from vgp.data.identity import BITS
from vgp.data.tables.features import ROW_ID, SPLIT

#: The approximate bytes of a range.
RANGE_BYTES = 64 << 20
#: Bytes collected before they are written to the ranges: long writes take half the time of short ones.
DEALT_BYTES = 32 << 20
#: Limits the open files: one for each range of each split.
MOST_RANGE_BITS = 8

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


class Sorting:
    """A sorter of rows by split and id.

    Args:
        regression: Whether the label is a float64 number instead of a class code.
        carried: Columns that are kept unchanged, including texts.
    """

    def __init__(self, folder: Path, label: str, *, regression: bool = False, carried: Collection[str] = ()):
        folder.mkdir()
        self._folder, self._label, self._regression, self._carried = folder, label, regression, carried
        #: The approximate number of rows to come.
        self.expected = 0
        self._stored_type: pa.Schema | None = None
        self._bits = 0
        self._waiting, self._waiting_bytes = list[pa.RecordBatch](), 0
        self._files = dict[int, pa.ipc.RecordBatchStreamWriter]()
        #: The provisional code of each value of each category, in order of arrival.
        self._codes = dict[str, dict[str, int]]()
        #: The number of rows by split and label code; a regression counts all rows under 0.
        self.labels: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))

    def __enter__(self) -> "Sorting":
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def rows(self, split: int) -> int:
        return sum(self.labels[split].values())

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows. Raises UserError for an infinite number, and for a category with too many values."""
        if not self._stored_type:
            self._begin(batch.schema)
        columns = {
            name: self._encode_column(name, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        splits, labels = (columns[name].to_numpy() for name in (SPLIT, self._label))
        for split in np.unique(splits).tolist():
            own = labels[splits == split]
            values, counts = np.unique(np.zeros(len(own), int) if self._regression else own, return_counts=True)
            for label, count in zip(values.tolist(), counts.tolist(), strict=True):
                self.labels[split][label] += count
        rows = pa.record_batch(list(columns.values()), schema=self._stored_type)
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= DEALT_BYTES:
            self._deal()

    def values(self) -> dict[str, tuple[str, ...]]:
        """Returns the values of each category in the order of their codes: "" for missing, then sorted."""
        return {name: ("", *sorted(value for value in codes if value)) for name, codes in self._codes.items()}

    def tables(self, most: int | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Yields the code of a split and rows of it, in order.

        Args:
            most: The most rows of each range; None = all.
        """
        if self._waiting:
            self._deal()
        self._close()
        final = {name: self._final_codes(name, values) for name, values in self.values().items()}
        for number in sorted(self._files):
            with pa.memory_map(str(self._folder / str(number))) as stored:
                rows = pa.ipc.open_stream(stored).read_all().combine_chunks()
            rows = _take_rows(rows, _order(rows)[:most])
            for name, codes in final.items():
                position = rows.column_names.index(name)
                rows = rows.set_column(position, name, pa.array(codes[rows[name].to_numpy()]))
            yield number >> self._bits, rows.drop_columns([SPLIT])

    def first(self, most: int) -> pa.Table:
        """Returns the first rows of the first split: a random sample, since ids are hashes."""
        held, rows = list[pa.Table](), 0
        for split, table in self.tables(most):
            if split > 0 or rows >= most:
                break
            held, rows = [*held, table], rows + table.num_rows
        return pa.concat_tables(held).slice(0, most)

    def _begin(self, schema: pa.Schema) -> None:
        number = pa.float64() if self._regression else None
        stored = {f.name: f.type if f.name in self._carried else _choose_scratch_type(f.type) for f in schema}
        self._stored_type = pa.schema({**stored, **({self._label: number} if number else {})})
        words = [field.name for field in schema if pa.types.is_string(field.type)]
        self._codes = {name: {} for name in words if name not in self._carried}
        width = sum(width_of(field.type) for field in self._stored_type)
        self._bits = min(MOST_RANGE_BITS, (self.expected * width // RANGE_BYTES).bit_length())

    def _deal(self) -> None:
        """Writes the collected rows to the files of their ranges."""
        rows = pa.concat_batches(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        ids, splits = (rows[name].to_numpy() for name in (ROW_ID, SPLIT))
        ranges = ((splits.astype(np.int64) << self._bits) | (ids >> (BITS - self._bits))).astype(np.uint16)
        order = np.argsort(ranges, kind="stable")  # linear time for 16-bit numbers
        rows, ranges = _take_rows(rows, order), ranges[order]
        starts = [0, *(np.flatnonzero(np.diff(ranges)) + 1).tolist(), len(ranges)]
        for start, end in pairwise(starts):
            self._open_range_file(int(ranges[start])).write_batch(rows.slice(start, end - start))

    def _close(self) -> None:
        for file in self._files.values():
            file.close()

    def _open_range_file(self, number: int) -> pa.ipc.RecordBatchStreamWriter:
        if number not in self._files:
            self._files[number] = pa.ipc.new_stream(str(self._folder / str(number)), self._stored_type)
        return self._files[number]

    def _encode_column(self, name: str, column: pa.Array) -> pa.Array:
        if name in self._carried:
            return column
        if name in self._codes:
            return self._encode(name, column)
        if pa.types.is_floating(column.type) and name != self._label:
            values = pc.fill_null(column.cast(pa.float32()), np.nan)
            require_finite(name, values.to_numpy())
            return values
        if column.null_count:
            raise UserError(f"column {name} ({column.type}) may not be missing; {column.null_count} rows are.")
        return column

    def _encode(self, name: str, column: pa.Array) -> pa.Array:
        known, encoded = self._codes[name], pc.fill_null(column, "").dictionary_encode()
        codes = np.array([known.setdefault(v, len(known)) for v in encoded.dictionary.to_pylist()], np.int32)
        require_few_values(name, known)
        return pa.array(codes[encoded.indices.to_numpy()])

    def _final_codes(self, name: str, values: Sequence[str]) -> NDArray[np.int32]:
        """Returns the final code of each provisional one."""
        code = {value: i for i, value in enumerate(values)}
        return np.array([code[value] for value in self._codes[name]], np.int32)


def width_of(kind: pa.DataType) -> int:
    """Returns the bytes of a value, or 16 for one of any length, such as a text."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * width_of(kind.value_type)
    try:
        return int(kind.bit_width) // 8
    except ValueError:  # PyArrow: "Non-fixed width type"
        return 16


def _choose_scratch_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.int32()
    return pa.float32() if pa.types.is_floating(kind) else kind


def _take_rows(rows: Rows, order: NDArray[np.int64]) -> Rows:
    """Returns rows by their indices, without a check of bounds, which would take a quarter of the time."""
    return cast(Rows, pc.take(rows, pa.array(order), boundscheck=False))


def _order(rows: pa.Table) -> NDArray[np.int64]:
    """Returns the order of rows by id, then by all their values, so that it does not depend on the order of arrival."""
    ids = rows[ROW_ID].to_numpy()
    order = np.argsort(ids)
    ranked = ids[order]
    if (ranked[1:] > ranked[:-1]).all():
        return order
    others = [rows[name].to_numpy() for name in reversed(rows.column_names) if name != ROW_ID]
    return np.lexsort([*others, ids])
