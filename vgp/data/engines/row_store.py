"""Writes the rows of files as one Parquet file on the scratch disk, for an engine to read several times.

The file is not compressed, because it is soon read on this machine. Strings are stored as dictionaries, which an engine
uses directly; for numbers they cost more time than they save. Columns without missing values are declared as such,
which saves three quarters of the work.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vgp.data.sources.values import TEXT, is_text

#: The most rows and bytes of a row group, which must fit in memory: DuckDB's own rows, or fewer if they are wide.
GROUP_ROWS, GROUP_BYTES = 122_880, 32 << 20
#: The most bytes of a column's dictionary in a row group; a larger one is not stored.
DICTIONARY_BYTES = 256 << 10


def store(
    batches: Iterable[pa.RecordBatch],
    path: Path,
    computed: Callable[[pa.RecordBatch], pa.Table] | None = None,
    present: Collection[str] = (),
) -> None:
    """Writes the batches, at least one.

    Args:
        computed: Computes additional columns of a batch.
        present: Columns without missing values.
    """
    writer = None
    try:
        for batch in _group_batches(map(_simplify_types, batches)):
            rows = pa.table(batch)
            more = computed(batch) if computed else pa.table({})
            for name, values in zip(more.column_names, more.columns, strict=True):
                rows = rows.append_column(name, values)
            schema = pa.schema([field.with_nullable(field.name not in present) for field in rows.schema])
            writer = writer or _open_writer(path, schema)
            writer.write_table(pa.Table.from_arrays(rows.columns, schema=schema), row_group_size=GROUP_ROWS)
    finally:
        if writer:
            writer.close()


def _open_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path,
        schema,
        compression="none",
        use_dictionary=[field.name for field in schema if field.type == TEXT],
        dictionary_pagesize_limit=DICTIONARY_BYTES,
        write_statistics=False,
    )


def _group_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merges the batches into batches of a row group."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > GROUP_ROWS or size + batch.nbytes > GROUP_BYTES):
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    yield pa.concat_batches(waiting)


def _simplify_types(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts the batch to types that DuckDB reads without a conversion, and text to dictionaries without nulls."""
    columns = [_simplify_column(column) for column in batch.columns]
    return pa.record_batch(columns, names=batch.schema.names)


def _simplify_column(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us"), safe=False)
    if kind == TEXT and not column.null_count:
        return column
    if pa.types.is_dictionary(kind):
        return _simplify_column(column.cast(kind.value_type))
    if is_text(kind):
        return pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    return column.cast(pa.date32()) if pa.types.is_date64(kind) else column
