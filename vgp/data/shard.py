"""One shard of a prepared dataset: pure functions from a part of the input to rows, statistics and Parquet files.

Two passes, because the codes of a category need the values of all shards: `prepare_shard` writes the rows to scratch
space and returns their statistics, `write_shard` writes the Parquet files of the dataset.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.base.storage import objects, storage
from vgp.data import leaks, split_parts
from vgp.data.columns import Sketch, elements, fixed_width, sketches
from vgp.data.task import Shard, Statistics, Task
from vgp.protocol.manifest import MOST_SHARD_BYTES, ShardFile

# ---- row ids of the task, which must be unique over the dataset: compared part by part in bounded memory


Ids = NDArray[np.int64]
#: The number of a shard, its title, and some of its ids.
ShardIds = tuple[int, str, Ids]

#: About the number of ids that are compared at once.
PART_ROWS = 8 << 20
#: Odd, so that no two ids have one product (Knuth 1998, 6.4); its upper bits choose the part.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def id_parts(ids: Ids, count: int) -> list[Ids]:
    """Cuts the ids into `count` parts; equal ids of all shards go to the same part."""
    number = (ids.astype(np.uint64) * _MULTIPLIER >> np.uint64(32)) % np.uint64(count)
    order = np.argsort(number, kind="stable")
    edges = np.searchsorted(number[order], np.arange(1, count, dtype=np.uint64))
    return np.split(ids[order], edges)


def require_unique_ids(shards: Iterable[ShardIds]) -> None:
    """Raises UserError if an id occurs twice in one part of all shards."""
    parts: Sequence[ShardIds] = sorted(shards, key=lambda shard: shard[0])
    if not parts:
        return
    ids = np.concatenate([shard[2] for shard in parts])
    order = np.argsort(ids, kind="stable")
    repeats = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if not len(repeats):
        return
    owner = np.repeat(np.arange(len(parts)), [len(shard[2]) for shard in parts])
    first, second = (parts[owner[order[repeats[0] + i]]] for i in (0, 1))
    value = ids[order[repeats[0]]]
    where = f"twice in shard {first[0]} ({first[1]})"
    if first is not second:
        where = f"in shard {first[0]} ({first[1]}) and in shard {second[0]} ({second[1]})"
    raise UserError(f"row_id {value} occurs {where}: ids must be unique over the dataset.")


ROW_ID = "row_id"
#: Rows from which `_has_repeats` decides whether the values of a column repeat.
SAMPLE_ROWS = 4096
#: The form of a split's name, which becomes a part of file names.
SPLIT_NAME = re.compile(r"[\w-]{1,100}")


@dataclass
class Prepared:
    """The statistics of one shard."""

    #: The prefix of the scratch files that hold its rows.
    path: str
    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, Sketch] = field(default_factory=dict)
    #: The rows of each class, by split.
    classes: dict[str, Counter[int]] = field(default_factory=dict)
    sample: leaks.Sample = field(default_factory=dict)
    #: Hashes of its groups, by split, if the task names a group.
    groups: dict[str, split_parts.Marks] = field(default_factory=dict)
    #: The ids of its rows, if the task sets them.
    ids: Ids | None = None


@dataclass(frozen=True)
class Order:
    """The input of `write_shard`: the file of each split, and the row id of its first row."""

    source: str
    files: Mapping[str, str]
    first_row_ids: Mapping[str, int]


def prepare_shard(
    task: Task, number: int, shard: Shard, statistics: Statistics, sample_rows: int, scratch: str
) -> Prepared:
    """Makes the rows of one shard, writes them to the folder `scratch` (local or gs://), returns their statistics."""
    prepared = Prepared(f"{scratch}/rows-{number}")
    ids = []
    for split, table in task.rows(shard, statistics).items():
        if not SPLIT_NAME.fullmatch(split):
            raise UserError(f"{type(task).__name__}.rows names a split {split!r}: use letters, digits, _ and - only.")
        rows = fixed_width(table, task.label, regression=task.regression)
        if rows.nbytes > MOST_SHARD_BYTES:
            raise UserError(
                f"the rows of one shard take {rows.nbytes >> 30} GiB; the limit is {MOST_SHARD_BYTES >> 30} GiB. Let "
                f"{type(task).__name__}.shards cut the input into smaller parts."
            )
        prepared.rows[split] = rows.num_rows
        prepared.classes[split] = _count_classes(rows, task.label)
        _merge(prepared, sketches(rows, task.label, split == "train"))
        if split == "train":
            prepared.sample = leaks.sample(rows, number, sample_rows)
        if task.groups and task.groups[0] in rows.column_names:
            prepared.groups[split] = split_parts.group_marks(rows[task.groups[0]])
        if ROW_ID in rows.column_names:
            ids.append(elements(rows[ROW_ID].combine_chunks()))
        if rows.num_rows:
            _write_scratch(_scratch_path(prepared.path, split), rows)
    prepared.ids = np.concatenate(ids).astype(np.int64) if ids else None
    return prepared


def _write_scratch(path: str, rows: pa.Table) -> None:
    sink = pa.BufferOutputStream() if storage.is_remote(path) else pa.OSFile(path, "wb")
    with sink, pa.ipc.new_file(sink, rows.schema) as ipc:
        ipc.write_table(rows)
    if storage.is_remote(path):
        objects.replace(path, sink.getvalue())


def _read_scratch(path: str) -> pa.Table:
    source = pa.py_buffer(objects.read(path)) if storage.is_remote(path) else pa.memory_map(path)
    return pa.ipc.open_file(source).read_all().combine_chunks()


def _merge(prepared: Prepared, columns: dict[str, Sketch]) -> None:
    if prepared.columns and (odd := sorted(prepared.columns.keys() ^ columns.keys())):
        raise UserError(f"the splits differ in their columns: {odd[0]} is not in all of them.")
    if not prepared.columns:
        prepared.columns = columns
        return
    for name, sketch in prepared.columns.items():
        sketch.merge(columns[name])


def _count_classes(rows: pa.Table, label: str) -> Counter[int]:
    if label not in rows.column_names or not pa.types.is_integer(rows[label].type):
        return Counter()
    codes, counts = np.unique(rows[label].to_numpy(), return_counts=True)
    return Counter(dict(zip(codes.tolist(), counts.tolist(), strict=True)))


def write_shard(order: Order, values: Mapping[str, tuple[str, ...]], folder: str) -> dict[str, ShardFile]:
    """Writes a prepared shard's rows as Parquet, one file for each split, with category codes by `values`."""
    return {split: _write(order, split, f"{folder}/{name}", values) for split, name in order.files.items()}


def _write(order: Order, split: str, path: str, values: Mapping[str, tuple[str, ...]]) -> ShardFile:
    rows = _read_scratch(_scratch_path(order.source, split))
    for name, known in values.items():
        position = rows.column_names.index(name)
        rows = rows.set_column(position, name, encode_category(rows[name].combine_chunks(), known))
    if ROW_ID not in rows.column_names:
        ids = np.arange(rows.num_rows, dtype=np.int64) + order.first_row_ids[split]
        rows = rows.add_column(0, ROW_ID, pa.array(ids))
    data = encode_parquet(rows, list(values))
    if storage.is_remote(path):
        objects.replace(path, data)
    else:
        Path(path).write_bytes(data)
    name = path.rpartition("/")[2]
    return ShardFile(path=name, rows=rows.num_rows, bytes=data.size, sha256=hashlib.sha256(data).hexdigest())


def encode_category(column: pa.DictionaryArray, known: tuple[str, ...]) -> pa.Array:
    """Returns a category's codes in the whole dataset, whose values are `known`."""
    code = {value: i for i, value in enumerate(known)}
    codes = np.array([code[value] for value in column.dictionary.to_pylist()], np.int32)
    return pa.array(codes[column.indices.to_numpy()])


def encode_parquet(rows: pa.Table, categories: list[str]) -> pa.Buffer:
    """Encodes rows as a Parquet file in memory, so that its checksum needs no second read.

    Numbers that repeat are stored as dictionaries, which saves a third of a table's bytes.
    """
    sink = pa.BufferOutputStream()
    numbers = [field.name for field in rows.schema if field.name not in categories and _has_repeats(rows[field.name])]
    pq.write_table(
        rows, sink, compression="zstd", use_dictionary=[*categories, *numbers], row_group_size=max(1, rows.num_rows)
    )
    return sink.getvalue()


def _has_repeats(column: pa.ChunkedArray) -> bool:
    """Returns whether at most half of the first values of a column of numbers are distinct."""
    first = column.slice(0, SAMPLE_ROWS)
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return number and 2 * len(first.unique()) <= len(first)


def _scratch_path(path: str, split: str) -> str:
    return f"{path}-{split}.arrow"
