"""The rows of a prepared dataset by number, decoded once, so that each access costs only a memory access.

Small splits are held in memory. Large ones are decoded into scratch files (TMPDIR) that all processes of this machine
map into memory and share. Evaluation, which needs the rows once and in order, reads them shard by shard (`Shards`).
"""

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.base.storage import files, inflate
from vgp.base.text.printable import quote
from vgp.data.columns import elements
from vgp.protocol import manifest
from vgp.protocol.manifest import MOST_SHARD_BYTES, Column, Manifest, ShardFile

IN_MEMORY_BYTES = 1 << 30
#: The type of the label of a regression; a class label holds integer codes.
NUMBER_LABEL = "double"

#: Values of one column, of its type in the manifest.
Array = NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """The rows of one split. `columns[name]` is (rows,), or (rows, width) for a vector."""

    columns: dict[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def take(self, index: Array) -> dict[str, Array]:
        """Returns the rows with these numbers: index is int (n,), each column (n,) or (n, width)."""
        # A third faster than column[index], because "clip" skips the check of the numbers, which are always valid.
        return {name: np.asarray(column).take(index, axis=0, mode="clip") for name, column in self.columns.items()}


@dataclass(frozen=True)
class Shards:
    """The rows of one split in their order, read from the files on demand, so memory holds one shard."""

    folder: Path
    dataset: Manifest
    split: str

    def __len__(self) -> int:
        return self.dataset.rows(self.split)

    def take(self, index: Array) -> dict[str, Array]:
        """Returns the rows with these numbers, int (n,), which must be sorted."""
        parts, start = [], 0
        for shard, values in self._read(self.dataset.columns):
            first, last = np.searchsorted(index, [start, start + shard.rows])
            parts.append({name: column[index[first:last] - start] for name, column in values.items()})
            start += shard.rows
        return {column.name: np.concatenate([part[column.name] for part in parts]) for column in self.dataset.columns}

    def batches(self, rows: int) -> Iterator[dict[str, Array]]:
        """Yields all rows, `rows` at a time."""
        rest: dict[str, Array] = {}
        for _, values in self._read(self.dataset.columns):
            if rest:
                values = {name: np.concatenate([rest[name], column]) for name, column in values.items()}
            count = len(next(iter(values.values())))
            for start in range(0, count - count % rows, rows):
                yield _copy(values, slice(start, start + rows))
            rest = _copy(values, slice(count - count % rows, count)) if count % rows else {}
        if rest:
            yield rest

    def column(self, name: str) -> Array:
        """Returns all values of one column, without the check of the files' checksums."""
        return np.concatenate([part[name] for _, part in self._read([self.dataset.column(name)], verify=False)])

    def _read(self, columns: Sequence[Column], *, verify: bool = True) -> Iterator[tuple[ShardFile, dict[str, Array]]]:
        for shard in self.dataset.splits[self.split]:
            table = read_shard(self.folder, shard, columns, verify=verify)
            yield shard, {column.name: elements(table[column.name].combine_chunks()) for column in columns}


def _copy(values: Mapping[str, Array], rows: slice) -> dict[str, Array]:
    return {name: column[rows].copy() for name, column in values.items()}


def open_rows(directory: str | Path, split: str) -> Rows:
    """Opens a split of a prepared dataset and verifies the sizes and checksums of its files.

    Raises:
        UserError: The dataset or split does not exist, or a file is missing or does not match the manifest.
    """
    folder = Path(directory)
    dataset = manifest.load(folder)
    if split not in dataset.splits:
        raise UserError(f"{folder} has no split {split!r}; it has {', '.join(dataset.splits)}.")
    shards, rows = dataset.splits[split], dataset.rows(split)
    if rows * _count_row_bytes(dataset.columns) <= IN_MEMORY_BYTES:
        arrays: dict[str, Array] = {c.name: np.empty(_find_shape(c, rows), dtype(c)) for c in dataset.columns}
        return Rows(_decode(folder, shards, dataset, arrays))
    return Rows(_map_files(folder, shards, dataset, rows))


def recode(codes: Array, data: Column, model: Column) -> Array:
    """Translates category codes of a dataset to those of a model, by value; int32, the shape of `codes`.

    A value without train rows of the model becomes 0.
    """
    code = {value: i for i, value in enumerate(model.values) if model.counts[i]}
    mapping = np.array([code.get(value, 0) for value in data.values], np.int32)
    return mapping[codes]


def _map_files(folder: Path, shards: tuple[ShardFile, ...], dataset: Manifest, rows: int) -> dict[str, Array]:
    """Decodes into scratch files once per machine, while other processes wait, and maps them into memory."""
    key = hashlib.sha256("".join(shard.sha256 for shard in shards).encode()).hexdigest()[:32]
    home = Path(tempfile.gettempdir()) / f"prepared-rows-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    ready = home / key
    with open(home / f"{key}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.is_dir():
            inflate.require_space(home, 0, rows * _count_row_bytes(dataset.columns), str(folder))
            _build(folder, shards, dataset, rows, ready)
    return {column.name: np.load(ready / f"{i}.npy", mmap_mode="r") for i, column in enumerate(dataset.columns)}


def _build(folder: Path, shards: tuple[ShardFile, ...], dataset: Manifest, rows: int, ready: Path) -> None:
    building = ready.with_suffix(".partial")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    try:
        arrays: dict[str, Array] = {
            column.name: np.lib.format.open_memmap(
                building / f"{i}.npy", mode="w+", dtype=dtype(column), shape=_find_shape(column, rows)
            )
            for i, column in enumerate(dataset.columns)
        }
        _decode(folder, shards, dataset, arrays)
        del arrays
        os.rename(building, ready)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _decode(
    folder: Path, shards: tuple[ShardFile, ...], dataset: Manifest, arrays: dict[str, Array]
) -> dict[str, Array]:
    start = 0
    for shard in shards:
        table = read_shard(folder, shard, dataset.columns)
        for column in dataset.columns:
            arrays[column.name][start : start + shard.rows] = elements(table[column.name].combine_chunks())
        start += shard.rows
    return arrays


def read_shard(folder: Path, shard: ShardFile, columns: Sequence[Column], *, verify: bool = True) -> pa.Table:
    """Reads columns of a shard's file, and checks the file against the manifest.

    Args:
        verify: Whether to read the whole file for its checksum.

    Raises:
        UserError: The file is missing, not a regular file, or does not match the manifest.
    """
    path = folder / shard.path
    try:
        with files.open_file(path, links=False) as stream:
            _check_size(path, stream, shard)
            source = pa.BufferReader(_read_verified(path, stream, shard)) if verify else stream
            parquet = pq.ParquetFile(source)
            _check_columns(path, parquet, shard, columns)
            table = parquet.read([column.name for column in columns])
            _check_values(path, table, columns)
            return table
    except UserError:
        raise
    except Exception as error:  # with a damaged footer the reader may raise any error
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise UserError(f"{path} cannot be read: {reason}. Prepare the data again.") from None


def _check_size(path: Path, stream: BufferedReader, shard: ShardFile) -> None:
    size = files.version(stream).bytes
    if size != shard.bytes:
        raise UserError(f"{path} has {size} bytes, but the manifest has {shard.bytes}: prepare the data again.")


def _read_verified(path: Path, stream: BufferedReader, shard: ShardFile) -> bytes:
    data = stream.read(shard.bytes)
    if hashlib.sha256(data).hexdigest() != shard.sha256:
        raise UserError(f"{path} does not have the checksum of the manifest: prepare the data again.")
    return data


def _check_columns(path: Path, parquet: pq.ParquetFile, shard: ShardFile, columns: Sequence[Column]) -> None:
    """Checks the footer against the manifest, because the footer decides how much memory decoding takes."""
    if parquet.metadata.num_rows != shard.rows:
        raise UserError(
            f"{path} has {parquet.metadata.num_rows} rows, but the manifest has {shard.rows}: prepare the data again."
        )
    schema = parquet.schema_arrow
    for column in columns:
        written = schema.field(column.name).type if column.name in schema.names else None
        if written is None or not _fits_column(written, column):
            raise UserError(
                f"{path} has {column.name} as {written}, but the manifest has {column.type}: prepare the data again."
            )
    decoded = shard.rows * _count_row_bytes(columns)
    if decoded > MOST_SHARD_BYTES:
        raise UserError(f"{path} needs {decoded >> 20} MiB of memory; the limit is {MOST_SHARD_BYTES >> 20} MiB.")


def _check_values(path: Path, table: pa.Table, columns: Sequence[Column]) -> None:
    for column in columns:
        if table[column.name].null_count:
            raise UserError(f"{path} lacks values of {column.name}, which a shard must have: prepare the data again.")
        if column.kind in ("category", "label") and column.type != NUMBER_LABEL and len(table):
            codes = pc.min_max(table[column.name])
            if codes["min"].as_py() < 0 or codes["max"].as_py() >= len(column.values):
                raise UserError(f"{path} holds codes of {column.name} beyond its {len(column.values)} values.")


def _fits_column(written: pa.DataType, column: Column) -> bool:
    if pa.types.is_fixed_size_list(written):
        return written.list_size == column.width and _parse_element_type(str(written.value_type)) == dtype(column)
    if pa.types.is_fixed_size_binary(written):
        return written.byte_width == column.width and dtype(column) == np.uint8
    return pa.types.is_primitive(written) and str(written) == column.type


def _count_row_bytes(columns: Sequence[Column]) -> int:
    return sum(column.width * dtype(column).itemsize for column in columns)


def _find_shape(column: Column, rows: int) -> tuple[int, ...]:
    return (rows, column.width) if column.kind == "vector" else (rows,)


#: numpy's names for Arrow types whose names differ.
NUMPY_NAMES: Mapping[str, str] = {"float": "float32", "double": "float64", "halffloat": "float16"}
NUMBERS = re.compile(r"u?int(8|16|32|64)|float(16|32|64)|bool")


def dtype(column: Column) -> np.dtype[np.generic]:
    """Returns the type of an element, from Arrow's text: `int32`, `fixed_size_list<item: float>[64]`..."""
    text = column.type
    if text.startswith("fixed_size_binary"):
        return np.dtype(np.uint8)
    if text.startswith("fixed_size_list"):
        text = text.partition(": ")[2].partition(">")[0].partition(" not null")[0]
    return _parse_element_type(text)


def _parse_element_type(text: str) -> np.dtype[np.generic]:
    name = NUMPY_NAMES.get(text, text)
    if not NUMBERS.fullmatch(name):
        raise UserError(f"the manifest names the type {quote(text)}, which is not a type of numbers.")
    return np.dtype(name)


# ---- a bounded sample: equal rows for equal files, at a cost that does not grow with the data


#: Files to read of a split that is larger than the sample.
SAMPLE_SHARDS = 8


def read_sample(
    folder: str | Path, files: Sequence[ShardFile], columns: Sequence[Column], rows: int
) -> dict[str, Array]:
    """Returns evenly spaced rows of evenly spaced shards, by column, in their order.

    Args:
        folder: The folder of the dataset.
        files: The shards of one split; their checksums are not verified.
        columns: The columns to read.
        rows: The most rows; a smaller split is returned whole.
    """
    files = [file for file in files if file.rows]
    if not files or not columns:
        return {}
    if sum(file.rows for file in files) > rows:
        files = [files[i] for i in np.unique(np.linspace(0, len(files) - 1, SAMPLE_SHARDS).astype(int))]
    spaced = [rows // len(files)] * len(files)
    whole = sum(file.rows for file in files) <= rows
    parts: dict[str, list[Array]] = {column.name: [] for column in columns}
    for file, most in zip(files, spaced, strict=True):
        table = read_shard(Path(folder), file, columns, verify=False)
        index = np.linspace(0, len(table) - 1, len(table) if whole else min(most, len(table))).astype(np.int64)
        for name in parts:
            parts[name].append(elements(table[name].combine_chunks())[index])
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def read_rows(
    folder: str | Path, files: Sequence[ShardFile], columns: Sequence[Column], rows: Array
) -> dict[str, Array]:
    """Returns the rows with these numbers, int (n,), in any order; reads only files that hold one of them."""
    order = np.argsort(rows, kind="stable")
    rising, start = rows[order], 0
    parts: dict[str, list[Array]] = {column.name: [] for column in columns}
    for file in files:
        first, last = np.searchsorted(rising, [start, start + file.rows])
        if first < last:
            table = read_shard(Path(folder), file, columns, verify=False)
            for name in parts:
                parts[name].append(elements(table[name].combine_chunks())[rising[first:last] - start])
        start += file.rows
    inverse = np.argsort(order, kind="stable")
    return {name: np.concatenate(arrays)[inverse] for name, arrays in parts.items() if arrays}
