"""Predictions as `predictions.py` reads them, written a row group at a time."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vgp.base.exits import UserError
from vgp.base.storage import files
from vgp.evaluation.predictions import FILE_NAME, GROUP_BYTES, GROUP_ROWS, METADATA_KEY, Header, Names, groups
from vgp.protocol.outcome import PREDICTED


def write(directory: str | Path, header: Header, batches: Iterable[dict[str, Any]]) -> Path:
    """Writes batches of columns (row_id, label, group and slices as `Names`, float (B, C) per model), atomically.

    A regression has float (B, 1 + Q) per model. Without classes and quantiles there is weight in place of label, and
    float (B,) per model. Memory holds one row group.

    Raises:
        UserError: no batch holds a row, or a slice is called like a column of this file.
    """
    if clash := sorted(set(header.slices) & set(PREDICTED)):
        raise UserError(f"a slice may not be called {clash[0]!r}: predictions keep {', '.join(PREDICTED)}.")
    path = Path(directory) / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as scratch:
        _write(scratch, header, batches)
    return path


def _write(path: Path, header: Header, batches: Iterable[dict[str, Any]]) -> None:
    schema, rows = _schema(header), 0
    names = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=names) as writer:
        for table in _row_groups(schema, batches):
            writer.write_table(table)
            rows += len(table)
    if not rows:
        raise UserError(f"the {header.split} split has no rows: there is nothing to evaluate on.")


def _row_groups(schema: pa.Schema, batches: Iterable[dict[str, Any]]) -> Iterator[pa.Table]:
    """Batches put together: a row group for each of thousands would make the file slow to read."""
    parts: list[pa.Table] = []
    for batch in batches:
        arrays = [_array(batch[field.name], field.type) for field in schema]
        parts.append(pa.Table.from_arrays(arrays, schema=schema))
        if sum(map(len, parts)) >= GROUP_ROWS or sum(part.nbytes for part in parts) >= GROUP_BYTES:
            yield _joined(parts)
            parts = []
    if parts:
        yield _joined(parts)


def _joined(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _schema(header: Header) -> pa.Schema:
    width, names = len(header.classes), pa.dictionary(pa.int32(), pa.string())
    value = pa.float32() if width == 2 else pa.list_(pa.float32(), width) if width else pa.float64()
    fields = [("row_id", pa.int64()), ("label" if width else "weight", pa.int64())]
    if header.quantiles:
        value, fields[1] = pa.list_(pa.float64(), 1 + len(header.quantiles)), ("label", pa.float64())
    fields += [(column, names) for column in groups(header)]
    fields += [(model, value) for model in header.models]
    fields += [(name, names) for name in header.slices]
    return pa.schema(fields, metadata={METADATA_KEY: header.model_dump_json().encode()})


def _array(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, Names):
        column = _occurring(column) if len(column.values) > len(column.codes) else column
        return pa.DictionaryArray.from_arrays(column.codes.astype(np.int32), pa.array(column.values, pa.string()))
    if pa.types.is_fixed_size_list(kind):
        values = column.astype(kind.value_type.to_pandas_dtype())
        return pa.FixedSizeListArray.from_arrays(values.ravel(), kind.list_size)
    if pa.types.is_float32(kind):
        return pa.array(column[:, 1].astype(np.float32))
    return pa.array(column, type=kind)


def _occurring(names: Names) -> Names:
    """The same names of rows, out of a list without the others."""
    used, codes = np.unique(names.codes, return_inverse=True)
    return Names(codes, [names.values[code] for code in used])
