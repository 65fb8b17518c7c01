"""A bounded sample of a split's rows: the same rows for the same files, at the same cost for any amount of data."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vgp.data.columns import elements
from vgp.data.rows import Array, read_shard
from vgp.protocol.manifest import Column, ShardFile

#: Files that are read of a split that is larger than the sample.
SAMPLE_SHARDS = 8


def sample(folder: str | Path, files: Sequence[ShardFile], columns: Sequence[Column], rows: int) -> dict[str, Array]:
    """Evenly spaced rows of evenly spaced shards, by column, in their order; all rows where there are no more.

    Args:
        folder: Of the dataset; `files` are the shards of one split, whose checksums are not looked at again.
        columns: What is read.
        rows: At most so many.
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


def at(folder: str | Path, files: Sequence[ShardFile], columns: Sequence[Column], rows: Array) -> dict[str, Array]:
    """The rows with these numbers, int (n,), in any order; only the files that hold one are read."""
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
    back = np.argsort(order, kind="stable")
    return {name: np.concatenate(arrays)[back] for name, arrays in parts.items() if arrays}
