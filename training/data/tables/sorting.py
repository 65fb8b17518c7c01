"""Rows that come in any order, given back by split and id: a sort that needs the memory of one bucket.

Ids are bits of a hash, so the first of them deal the rows evenly into buckets, which lie on the disk until each is
sorted in memory. Strings become codes on the way in: they are what makes rows wide.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from training.data.columns import Sketch, category_values
from training.data.identity import BITS as ID_BITS
from training.data.shares import NAMES
from training.data.tables.features import ROW_ID, SPLIT

#: About the size of a bucket, and of the rows that are dealt at once.
BUCKET_BYTES = HELD_BYTES = 32 << 20
#: So that split and bucket fit into 16 bits, which numpy sorts in one pass.
MOST_BITS = 14


class Sorter:
    """Takes rows with `_split` and `row_id`, no id twice in a split; strings come back as codes of `values`.

    Args:
        path: A file on scratch disk, which gets the size of the rows.
        rows: About how many will come.
    """

    def __init__(self, path: Path, rows: int):
        #: Of the rows that come back, and `_split`; of no column before rows have come.
        self.schema = pa.schema([])
        self._rows = rows
        #: Codes in the order in which the values come; `sorted` gives them theirs.
        self._known: dict[str, dict[str, int]] = {}
        self._bits = 0
        #: Of each bucket, where its rows lie in the file: (start, bytes).
        self._pieces: list[list[tuple[int, int]]] = []
        self._held, self._held_bytes = list[pa.RecordBatch](), 0
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115

    def __enter__(self) -> "Sorter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._file.close()

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of each category, in the order of their codes."""
        return {name: category_values(Counter(known)) for name, known in self._known.items()}

    def add(self, batch: pa.RecordBatch) -> None:
        """Raises UserError for a category that has too many values to be one."""
        if not self._pieces:
            self._begin(batch.schema)
        columns = [
            self._coded(field.name, column) if field.name in self._known else column.cast(field.type)
            for field, column in zip(self.schema, batch.columns, strict=True)
        ]
        self._held.append(pa.record_batch(columns, schema=self.schema))
        self._held_bytes += self._held[-1].nbytes
        if self._held_bytes >= HELD_BYTES:
            self._deal()

    def _begin(self, schema: pa.Schema) -> None:
        self._known = {field.name: {"": 0} for field in schema if pa.types.is_string(field.type)}
        self.schema = pa.schema([f.with_type(pa.int32()) if f.name in self._known else f for f in schema])
        width = sum(field.type.bit_width for field in self.schema) // 8 + 1
        self._bits = min(MOST_BITS, (self._rows * width // BUCKET_BYTES).bit_length())
        self._pieces = [[] for _ in range(len(NAMES) << self._bits)]

    def _coded(self, name: str, column: pa.Array) -> pa.Array:
        known, encoded = self._known[name], pc.fill_null(column, "").dictionary_encode()
        size = len(known)
        codes = [known.setdefault(value, len(known)) for value in encoded.dictionary.to_pylist()]
        if len(known) > size:
            Sketch("category", pa.int32(), counts=Counter(known)).require_few_values(name)
        return pa.array(np.array(codes, np.int32)[encoded.indices.to_numpy()])

    def _deal(self) -> None:
        rows = _joined(self._held)
        self._held, self._held_bytes = [], 0
        top = rows[ROW_ID].to_numpy() >> (ID_BITS - self._bits)
        bucket = ((rows[SPLIT].to_numpy().astype(np.int64) << self._bits) | top).astype(np.uint16)
        rows = rows.take(pa.array(np.argsort(bucket, kind="stable")))
        start = 0
        for number, count in enumerate(np.bincount(bucket).tolist()):
            if count:
                piece = rows.slice(start, count).serialize()
                self._pieces[number].append((self._file.tell(), piece.size))
                self._file.write(piece)
                start += count

    def sorted(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """All rows by their split, named, and id, in batches of any size; without `_split`."""
        if self._held:
            self._deal()
        orders = {name: _order(known, self.values[name]) for name, known in self._known.items()}
        for number, pieces in enumerate(self._pieces):
            if pieces:
                rows = _joined([self._piece(start, size) for start, size in pieces])
                rows = rows.take(pa.array(np.argsort(rows[ROW_ID].to_numpy())))
                for name, order in orders.items():
                    codes = pa.array(order[rows[name].to_numpy()])
                    rows = rows.set_column(rows.schema.get_field_index(name), name, codes)
                yield NAMES[number >> self._bits], rows.drop_columns([SPLIT])

    def _piece(self, start: int, size: int) -> pa.RecordBatch:
        self._file.seek(start)
        return pa.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), self.schema)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches)


def _order(known: dict[str, int], values: tuple[str, ...]) -> np.ndarray:
    """[code in the order of coming] is the code in `values`."""
    order = np.empty(len(known), np.int32)
    order[[known[value] for value in values]] = np.arange(len(values), dtype=np.int32)
    return order
