"""Sorted rows into Parquet shards of a fixed number of rows, and their figures.

The figures of the train split are added up shard by shard, in order: the same bytes whatever computed the rows.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa

from vgp.data.columns import Sketch, sketch
from vgp.data.shard import parquet
from vgp.data.shares import NAMES
from vgp.protocol.manifest import Column, ShardFile

#: Bytes of a shard's rows in memory, about: enough for a good compression, few enough for many processes at once.
SHARD_BYTES = 32 << 20

#: A split, a file of it, and the figures of its columns.
Written = tuple[str, ShardFile, dict[str, Sketch]]


class Shards:
    """Writes shards into a folder and counts what they hold.

    Args:
        values: Of each category, in the order of its codes.
    """

    def __init__(self, folder: Path, label: str, values: Mapping[str, tuple[str, ...]]):
        self._folder, self._label, self._values = folder, label, values
        self.files: dict[str, tuple[ShardFile, ...]] = {}
        self._figures: dict[str, Sketch] = {}

    def write(self, tables: Iterable[tuple[int, pa.Table]], threads: int) -> Iterator[ShardFile]:
        """Gives each file when it is written."""
        with ThreadPoolExecutor(threads) as pool:
            work = (partial(self._written, *numbered) for numbered in _numbered(_cut(tables)))
            for split, file, figures in _in_order(pool, work, threads):
                self.files[split] = (*self.files.get(split, ()), file)
                for name, figure in figures.items():
                    if name in self._figures:
                        self._figures[name].merge(figure)
                    else:
                        self._figures[name] = figure
                yield file

    def columns(self, classes: tuple[str, ...]) -> tuple[Column, ...]:
        """The manifest's entries."""
        for name, values in self._values.items():
            self._figures[name].counts.update(dict.fromkeys(values, 0))
        return tuple(figure.column(name, classes) for name, figure in self._figures.items())

    def _written(self, split: str, number: int, rows: pa.Table) -> Written:
        columns = zip(rows.column_names, rows.combine_chunks().columns, strict=True)
        figures = {
            name: sketch(column.chunk(0), name == self._label, split == "train", self._values.get(name))
            for name, column in columns
        }
        data, path = parquet(rows, list(self._values)), self._folder / f"{split}-{number:05}.parquet"
        path.write_bytes(data)
        checksum = hashlib.sha256(data).hexdigest()
        return split, ShardFile(path=path.name, rows=rows.num_rows, bytes=data.size, sha256=checksum), figures


def rows_per_shard(schema: pa.Schema) -> int:
    """A power of two that follows from the columns alone."""
    width: int = sum(field.type.bit_width // 8 for field in schema)
    return 1 << max(10, (SHARD_BYTES // width).bit_length() - 1)


def _cut(tables: Iterable[tuple[int, pa.Table]]) -> Iterator[tuple[str, pa.Table]]:
    """Tables of equally many rows with the names of their splits; the last of a split has fewer."""
    held, rows, of = list[pa.Table](), 0, -1
    for split, table in tables:
        if held and split != of:
            yield NAMES[of], pa.concat_tables(held)
            held, rows = [], 0
        of, most, start = split, rows_per_shard(table.schema), 0
        while start < table.num_rows:
            part = table.slice(start, most - rows)
            held, rows, start = [*held, part], rows + part.num_rows, start + part.num_rows
            if rows == most:
                yield NAMES[of], pa.concat_tables(held)
                held, rows = [], 0
    if held:
        yield NAMES[of], pa.concat_tables(held)


def _numbered(tables: Iterable[tuple[str, pa.Table]]) -> Iterator[tuple[str, int, pa.Table]]:
    counts = defaultdict[str, int](int)
    for split, table in tables:
        yield split, counts[split], table
        counts[split] += 1


def _in_order(pool: ThreadPoolExecutor, work: Iterable[Callable[[], Written]], ahead: int) -> Iterator[Written]:
    """The results in the order of the work, of which few pieces are held at a time."""
    running = deque[Future[Written]]()
    for call in work:
        running.append(pool.submit(call))
        if len(running) > ahead:
            yield running.popleft().result()
    for future in running:
        yield future.result()
