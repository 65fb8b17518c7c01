"""Finished rows, sorted by split and id, into Parquet shards of a fixed number of rows, and their figures.

The figures of the train split are added up shard by shard: the same bytes whatever computed the rows.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from training.data.columns import Sketch, category_values, fixed_width, sketches
from training.data.manifest import ShardFile
from training.data.shard import ROW_ID, coded, parquet
from training.data.shares import NAMES
from training.data.tables.features import SPLIT

#: Bytes of a shard's rows in memory, about: enough for a good compression, few enough for many processes at once.
SHARD_BYTES = 32 << 20


def rows_per_shard(schema: pa.Schema) -> int:
    """A power of two that follows from the columns alone."""
    width = sum(4 if pa.types.is_string(field.type) else field.type.bit_width // 8 for field in schema)
    return 1 << max(10, (SHARD_BYTES // width).bit_length() - 1)


def cut(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[tuple[str, pa.Table]]:
    """The shards of sorted rows with their splits: `rows` each, but for the last of a split."""
    held, split = list[pa.Table](), ""
    for batch in batches:
        table = pa.table(batch)
        codes = table[SPLIT].to_numpy()
        ends = [*(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        start = 0
        for end in ends:
            name = NAMES[int(codes[start])]
            if held and name != split:
                yield split, pa.concat_tables(held)
                held = []
            split = name
            while start < end:
                room = rows - sum(part.num_rows for part in held)
                part = table.slice(start, min(room, end - start)).drop_columns([SPLIT])
                held.append(part)
                start += part.num_rows
                if part.num_rows == room:
                    yield split, pa.concat_tables(held)
                    held = []
    if held:
        yield split, pa.concat_tables(held)


class Writer:
    """Writes shards into a folder and counts what they hold."""

    def __init__(self, folder: Path, label: str, values: Mapping[str, tuple[str, ...]]):
        self.folder, self.label, self.values = folder, label, values
        self.splits: dict[str, tuple[ShardFile, ...]] = {}
        self.columns: dict[str, Sketch] = {}

    def write(self, split: str, table: pa.Table) -> None:
        rows = fixed_width(table, self.label)
        figures = sketches(rows, self.label, split == "train")
        for name, sketch in figures.items():
            self.columns.setdefault(name, Sketch(sketch.kind, sketch.type)).merge(sketch)
        for name, known in self.values.items():
            position = rows.column_names.index(name)
            rows = rows.set_column(position, name, coded(rows[name].combine_chunks(), known))
        data = parquet(rows, list(self.values))
        files = self.splits.get(split, ())
        path = self.folder / f"{split}-{len(files):05}.parquet"
        path.write_bytes(data)
        file = ShardFile(path=path.name, rows=rows.num_rows, bytes=data.size, sha256=hashlib.sha256(data).hexdigest())
        self.splits[split] = (*files, file)
