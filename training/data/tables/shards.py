"""Finished rows, sorted by split and id, into Parquet shards of a fixed number of rows, and their figures.

The figures of the train split are added up shard by shard: the same bytes whatever computed the rows.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa

from training.data.columns import Sketch, fixed_width, sketches
from training.data.manifest import ShardFile
from training.data.shard import parquet

#: Bytes of a shard's rows in memory, about: enough for a good compression, few enough for many processes at once.
SHARD_BYTES = 32 << 20


def rows_per_shard(schema: pa.Schema) -> int:
    """A power of two that follows from the columns alone."""
    width = sum(field.type.bit_width for field in schema) // 8 + 1
    return 1 << max(10, (SHARD_BYTES // width).bit_length() - 1)


def cut(batches: Iterable[tuple[str, pa.RecordBatch]], rows: int) -> Iterator[tuple[str, pa.Table]]:
    """The shards of sorted rows with their splits: `rows` each, but for the last of a split."""
    for split, same in groupby(batches, itemgetter(0)):
        held: list[pa.RecordBatch] = []
        for _, batch in same:
            while batch.num_rows:
                part = batch.slice(0, rows - sum(part.num_rows for part in held))
                batch = batch.slice(part.num_rows)
                held.append(part)
                if sum(part.num_rows for part in held) == rows:
                    yield split, pa.Table.from_batches(held)
                    held = []
        if held:
            yield split, pa.Table.from_batches(held)


class Writer:
    """Writes shards into a folder, in the background, and counts what they hold.

    Args:
        label: The column of the label.
        values: The values of each category, whose columns hold codes.
        threads: Shards that are encoded at the same time.
    """

    def __init__(self, folder: Path, label: str, values: Mapping[str, tuple[str, ...]], threads: int):
        self.folder, self.label, self.values, self.threads = folder, label, values, threads
        self._figures: dict[str, Sketch] = {}
        self._counts = {name: np.zeros(len(known), np.int64) for name, known in values.items()}
        self._splits: dict[str, tuple[ShardFile, ...]] = {}
        self._numbers = Counter[str]()
        self._encoding = deque[tuple[str, Future[ShardFile]]]()
        self._pool = ThreadPoolExecutor(threads)

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)

    def write(self, split: str, table: pa.Table) -> None:
        rows = fixed_width(table, self.label)
        self._count(rows, split == "train")
        path = self.folder / f"{split}-{self._numbers[split]:05}.parquet"
        self._numbers[split] += 1
        self._encoding.append((split, self._pool.submit(_written, path, rows, list(self.values))))
        if len(self._encoding) > self.threads:
            self._finish()

    def _count(self, rows: pa.Table, train: bool) -> None:
        figures = sketches(rows.drop_columns(list(self.values)), self.label, train)
        for name in rows.column_names:
            if name in self.values:
                codes = rows[name].combine_chunks().to_numpy() if train else np.zeros(0, np.int32)
                self._counts[name] += np.bincount(codes, minlength=len(self.values[name]))
                self._figures.setdefault(name, Sketch("category", pa.int32()))
            else:
                self._figures.setdefault(name, Sketch(figures[name].kind, figures[name].type)).merge(figures[name])

    def _finish(self) -> None:
        split, file = self._encoding.popleft()
        self._splits[split] = (*self._splits.get(split, ()), file.result())

    def splits(self) -> dict[str, tuple[ShardFile, ...]]:
        """The files that were written, once they all are."""
        while self._encoding:
            self._finish()
        return self._splits

    def figures(self) -> dict[str, Sketch]:
        """What each column holds."""
        for name, counts in self._counts.items():
            sketch = self._figures[name]
            sketch.counts = Counter(dict(zip(self.values[name], counts.tolist(), strict=True)))
            sketch.count, sketch.missing = int(counts[1:].sum()), int(counts[0])
        return self._figures


def _written(path: Path, rows: pa.Table, categories: list[str]) -> ShardFile:
    data = parquet(rows, categories)
    path.write_bytes(data)
    return ShardFile(path=path.name, rows=rows.num_rows, bytes=data.size, sha256=hashlib.sha256(data).hexdigest())
