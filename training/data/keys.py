"""Duplicate keys across any number of shards in bounded memory: sorted hash files, merged range by range."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

#: Hashes held in memory at once while merging: 16 bytes each, and as much again to sort them.
MERGE_ROWS = 2_000_000

#: Stands for a missing value: no count or date is likely to be this number.
MISSING = np.uint64(0x9D39247E33776D41)

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class KeyFile:
    """The sorted key hashes of one shard, uint64 (rows,), and beside them the row of each, uint32 (rows,)."""

    path: str
    rows: int

    @classmethod
    def write(cls, path: Path, hashes: Hashes) -> "KeyFile":
        order = np.argsort(hashes, kind="stable")
        np.save(path.with_suffix(".hashes.npy"), hashes[order])
        np.save(path.with_suffix(".rows.npy"), order.astype(np.uint32))
        return cls(str(path), len(hashes))

    def hashes(self) -> Hashes:
        return np.asarray(np.load(Path(self.path).with_suffix(".hashes.npy"), mmap_mode="r"))

    def row(self, position: int) -> int:
        return int(np.load(Path(self.path).with_suffix(".rows.npy"), mmap_mode="r")[position])


@dataclass(frozen=True)
class Row:
    """A row of a shard."""

    shard: int
    row: int


class Sorted(Protocol):
    """A file of so many sorted hashes."""

    @property
    def rows(self) -> int: ...

    def hashes(self) -> Hashes: ...


def ranges(files: Sequence[Sorted]) -> Iterator[list[slice]]:
    """Where in each file the hashes of one range lie, range by range; about MERGE_ROWS in all files together."""
    if not files:
        return
    number = max(1, -(-sum(file.rows for file in files) // MERGE_ROWS))
    bounds = [round(2**64 * i / number) for i in range(1, number)]
    cuts = [
        [0, *(int(np.searchsorted(file.hashes(), np.uint64(bound))) for bound in bounds), file.rows] for file in files
    ]
    for i in range(number):
        yield [slice(cut[i], cut[i + 1]) for cut in cuts]


def duplicates(files: Sequence[KeyFile]) -> Iterator[tuple[Row, Row]]:
    """Pairs of rows whose hashes are equal: candidates, since two keys may share a 64-bit hash."""
    for slices in ranges(files):
        yield from _equal_neighbours(files, [span.start for span in slices], [span.stop for span in slices])


def _equal_neighbours(files: Sequence[KeyFile], starts: list[int], ends: list[int]) -> Iterator[tuple[Row, Row]]:
    spans = zip(files, starts, ends, strict=True)
    hashes = np.concatenate([np.asarray(file.hashes()[start:end]) for file, start, end in spans])
    ordered = np.sort(hashes)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    order = np.argsort(hashes, kind="stable")
    offsets = np.cumsum([0, *(end - start for start, end in zip(starts, ends, strict=True))])
    for position in np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]]):
        first, second = (_row(files, starts, offsets, int(order[p])) for p in (position, position + 1))
        yield first, second


def _row(files: Sequence[KeyFile], starts: list[int], offsets: NDArray[np.int64], position: int) -> Row:
    shard = int(np.searchsorted(offsets, position, side="right")) - 1
    return Row(shard, files[shard].row(starts[shard] + position - int(offsets[shard])))


def hashed(columns: Sequence[pa.Array]) -> Hashes:
    """One 64-bit hash per row over all columns, uint64 (rows,); the same on every machine.

    A missing value is one of its own, other than 0, "" or false.
    """
    result = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        result = mixed(result * np.uint64(31) + _present(column))
    return result


def mixed(values: Hashes) -> Hashes:
    """The output function of SplitMix64 (Steele, Lea, Flood 2014, https://doi.org/10.1145/2714064.2660195)."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _present(column: pa.Array) -> Hashes:
    if not column.null_count:
        return _numbers(column)
    known = column.is_valid().to_numpy(zero_copy_only=False)
    result = np.full(len(column), MISSING, np.uint64)
    result[known] = _numbers(column.drop_null())
    return result


def _numbers(column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_floating(kind):
        numbers = column.to_numpy().astype(np.float64) + 0.0  # -0.0 is 0.0
        numbers[np.isnan(numbers)] = np.nan  # of its many forms one
        return np.asarray(numbers.view(np.uint64))
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    if kind == pa.uint64():
        return np.asarray(column.to_numpy())
    if pa.types.is_boolean(kind) or pa.types.is_integer(column.type):
        return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))
    return _digests(column)


def _digests(column: pa.Array) -> Hashes:
    """Of strings and of all that can be written as one: decimals, bytes, dictionaries."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    text = column if binary or pa.types.is_string(kind) else column.cast(pa.string())
    encoded = text.dictionary_encode()
    values = (value if isinstance(value, bytes) else value.encode() for value in encoded.dictionary.to_pylist())
    digests = (blake2b(value, digest_size=8).digest() for value in values)
    return np.asarray(np.frombuffer(b"".join(digests), "<u8")[encoded.indices.to_numpy()])
