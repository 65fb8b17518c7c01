"""The rows of a prepared dataset, by number: decoded once, then any row at the cost of a memory access.

Small splits are held in memory. Large ones are decoded into files of the scratch folder (TMPDIR) that all
processes of this machine map into memory and share.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from training.data import manifest as manifests
from training.data.columns import elements
from training.data.manifest import Column, Manifest, ShardFile
from training.errors import UserError

IN_MEMORY_BYTES = 1 << 30

Array = NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """The rows of one split. `columns[name]` is (rows,), or (rows, width) for a vector."""

    columns: dict[str, Array]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def take(self, index: Array) -> dict[str, Array]:
        """The rows with these numbers: index is int (n,), each column (n,) or (n, width)."""
        # A third faster than column[index], since the numbers are not checked: they are ours, and always good.
        return {name: np.asarray(column).take(index, axis=0, mode="clip") for name, column in self.columns.items()}


def open_rows(directory: str | Path, split: str) -> Rows:
    """Opens a split of a prepared dataset, after its files' sizes and checksums have been verified.

    Raises:
        UserError: no such dataset or split, or a file is missing or not as the manifest says.
    """
    folder = Path(directory)
    manifest = manifests.load(folder)
    if split not in manifest.splits:
        raise UserError(f"{folder} has no split {split!r}; it has {', '.join(manifest.splits)}.")
    files, rows = manifest.splits[split], manifest.rows(split)
    if rows * _row_bytes(manifest) <= IN_MEMORY_BYTES:
        return Rows(_decoded(folder, files, manifest, _empty_arrays(manifest, rows)))
    return Rows(_mapped(folder, files, manifest, rows))


def recode(codes: Array, data: Column, model: Column) -> Array:
    """Category codes of one dataset as codes of another, by value; int32, the shape of `codes`.

    For a model that was trained on other data: a value that it never saw in training becomes 0.
    """
    learnt = {value: i for i, value in enumerate(model.values) if model.counts[i]}
    mapping = np.array([learnt.get(value, 0) for value in data.values], np.int32)
    return mapping[codes]


def _mapped(folder: Path, files: tuple[ShardFile, ...], manifest: Manifest, rows: int) -> dict[str, Array]:
    """Decodes into scratch files, once per machine: the first process builds, the others wait for it."""
    key = hashlib.sha256("".join(file.sha256 for file in files).encode()).hexdigest()[:32]
    home = Path(tempfile.gettempdir()) / f"prepared-rows-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    ready = home / key
    with open(home / f"{key}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.is_dir():
            _build(folder, files, manifest, rows, ready)
    return {column.name: np.load(ready / f"{i}.npy", mmap_mode="r") for i, column in enumerate(manifest.columns)}


def _build(folder: Path, files: tuple[ShardFile, ...], manifest: Manifest, rows: int, ready: Path) -> None:
    building = ready.with_suffix(".partial")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    try:
        arrays: dict[str, Array] = {
            column.name: np.lib.format.open_memmap(
                building / f"{i}.npy", mode="w+", dtype=_dtype(column), shape=_shape(column, rows)
            )
            for i, column in enumerate(manifest.columns)
        }
        _decoded(folder, files, manifest, arrays)
        del arrays
        os.rename(building, ready)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _decoded(
    folder: Path, files: tuple[ShardFile, ...], manifest: Manifest, arrays: dict[str, Array]
) -> dict[str, Array]:
    start = 0
    for file, table in _tables(folder, files):
        for column in manifest.columns:
            arrays[column.name][start : start + file.rows] = elements(table[column.name].combine_chunks())
        start += file.rows
    return arrays


def _tables(folder: Path, files: tuple[ShardFile, ...]) -> Iterator[tuple[ShardFile, pa.Table]]:
    for file in files:
        path = folder / file.path
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}. Prepare the data again.") from None
        if len(data) != file.bytes:
            raise UserError(f"{path} has {len(data)} bytes, the manifest says {file.bytes}: prepare the data again.")
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise UserError(f"{path} is not the file that was prepared (other checksum): prepare the data again.")
        yield file, pq.read_table(pa.BufferReader(data))


def _empty_arrays(manifest: Manifest, rows: int) -> dict[str, Array]:
    return {column.name: np.empty(_shape(column, rows), _dtype(column)) for column in manifest.columns}


def _row_bytes(manifest: Manifest) -> int:
    return sum(column.width * _dtype(column).itemsize for column in manifest.columns)


def _shape(column: Column, rows: int) -> tuple[int, ...]:
    return (rows, column.width) if column.kind == "vector" else (rows,)


#: numpy's names for the types that Arrow calls otherwise.
NUMPY_NAMES: Mapping[str, str] = {"float": "float32", "double": "float64", "halffloat": "float16"}


def _dtype(column: Column) -> np.dtype[Any]:
    """The type of an element, from Arrow's text: `int32`, `fixed_size_list<item: float>[64]`..."""
    text = column.type
    if text.startswith("fixed_size_binary"):
        return np.dtype(np.uint8)
    if text.startswith("fixed_size_list"):
        text = text.partition(": ")[2].partition(">")[0].partition(" not null")[0]
    return np.dtype(NUMPY_NAMES.get(text, text))
