"""Writes the predictions file: the rows of a split with the scores of each model, one row group at a time.

`namers` names the values of slices and groups, `score_batches` joins the rows with the scores of each model, and
`write` writes the file.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vgp.base.exits import UserError
from vgp.base.storage import files
from vgp.data.rows import Shards
from vgp.data.schema import DAY
from vgp.data.task import Task
from vgp.evaluation.predictions import (
    FILE_NAME,
    GROUP_BYTES,
    GROUP_ROWS,
    GROUPS,
    METADATA_KEY,
    MISSING,
    Header,
    Names,
    groups,
)
from vgp.protocol.manifest import Column, Manifest
from vgp.protocol.outcome import PREDICTED

#: A number with more distinct values is sliced by its quintiles.
MOST_DISTINCT_NUMBERS = 20

#: Values of B rows -> their names.
Namer = Callable[[np.ndarray], Names]
#: Columns of the file by name, for B rows.
Columns = dict[str, np.ndarray | Names]
#: Columns of B rows -> class probabilities (B, C), mean and quantiles (B, 1 + Q), or losses (B,).
Scorer = Callable[[dict[str, np.ndarray]], np.ndarray]


def write(directory: str | Path, header: Header, batches: Iterable[Columns]) -> Path:
    """Writes batches of columns atomically, with one row group in memory.

    Args:
        batches: row_id, label, group and slices as `Names`, and for each model float (B, C), or (B, 1 + Q) for a
            regression. For a likelihood, weight instead of label, and float (B,) for each model.

    Raises:
        UserError: there are no rows, or a slice has the name of a column of this file.
    """
    if clash := sorted(set(header.slices) & set(PREDICTED)):
        raise UserError(
            f"a slice cannot be named {clash[0]!r}, because predictions reserve {', '.join(PREDICTED)}: rename it."
        )
    path = Path(directory) / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as scratch:
        _write(scratch, header, batches)
    return path


def _write(path: Path, header: Header, batches: Iterable[Columns]) -> None:
    schema, rows = _build_schema(header), 0
    names = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=names) as writer:
        for table in _row_groups(schema, batches):
            writer.write_table(table)
            rows += len(table)
    if not rows:
        raise UserError(f"the {header.split} split has no rows to evaluate.")


def _row_groups(schema: pa.Schema, batches: Iterable[Columns]) -> Iterator[pa.Table]:
    """Joins batches into row groups, because a file of thousands of small row groups is slow to read."""
    parts: list[pa.Table] = []
    for batch in batches:
        arrays = [_build_array(batch[field.name], field.type) for field in schema]
        parts.append(pa.Table.from_arrays(arrays, schema=schema))
        if sum(map(len, parts)) >= GROUP_ROWS or sum(part.nbytes for part in parts) >= GROUP_BYTES:
            yield _join(parts)
            parts = []
    if parts:
        yield _join(parts)


def _join(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _build_schema(header: Header) -> pa.Schema:
    width, names = len(header.classes), pa.dictionary(pa.int32(), pa.string())
    value = pa.float32() if width == 2 else pa.list_(pa.float32(), width) if width else pa.float64()
    fields = [("row_id", pa.int64()), ("label" if width else "weight", pa.int64())]
    if header.quantiles:
        value, fields[1] = pa.list_(pa.float64(), 1 + len(header.quantiles)), ("label", pa.float64())
    fields += [(column, names) for column in groups(header)]
    fields += [(model, value) for model in header.models]
    fields += [(name, names) for name in header.slices]
    return pa.schema(fields, metadata={METADATA_KEY: header.model_dump_json().encode()})


def _build_array(column: np.ndarray | Names, kind: pa.DataType) -> pa.Array:
    if isinstance(column, Names):
        column = _drop_unused(column) if len(column.values) > len(column.codes) else column
        return pa.DictionaryArray.from_arrays(column.codes.astype(np.int32), pa.array(column.values, pa.string()))
    if pa.types.is_fixed_size_list(kind):
        values = column.astype(kind.value_type.to_pandas_dtype())
        return pa.FixedSizeListArray.from_arrays(values.ravel(), kind.list_size)
    if pa.types.is_float32(kind):
        return pa.array(column[:, 1].astype(np.float32))
    return pa.array(column, type=kind)


def _drop_unused(names: Names) -> Names:
    """Returns the names without values that no row has."""
    used, codes = np.unique(names.codes, return_inverse=True)
    return Names(codes, [names.values[code] for code in used])


# ---- rows of a split with the scores of each model


def namers(rows: Shards, task: Task) -> dict[str, tuple[str, Namer]]:
    """Returns for each slice and group column of the predictions its column of the dataset and the namer of its values.

    Raises:
        UserError: the dataset lacks the column of a slice or group.
    """
    slices = {name: (name, namer(_column(rows.dataset, name), partial(rows.column, name))) for name in task.slices}
    groups = zip(GROUPS, task.groups, strict=False)
    return slices | {column: (name, group_namer(_column(rows.dataset, name))) for column, name in groups}


def _column(dataset: Manifest, name: str) -> Column:
    """Returns the dataset's column of a slice or group."""
    column = next((column for column in dataset.columns if column.name == name), None)
    if column is None and name == DAY:
        raise UserError(
            "the prepared data has no day column, by which rows of a task with a time are grouped. Prepare the data "
            'again, or declare group = "row" for independent rows.'
        )
    if column is None:
        raise UserError(f"the task slices or groups by {name}, but the prepared data has no such column.")
    return column


def score_batches(
    rows: Shards,
    task: Task,
    header: Header,
    namers: dict[str, tuple[str, Namer]],
    scorers: dict[str, Scorer],
    batch_rows: int,
) -> Iterator[Columns]:
    """Yields batches of columns for `write`, in the order of the split.

    Raises:
        UserError: the label of a row is not a class of the task.
    """
    for place, batch in enumerate(rows.batches(batch_rows)):
        yield {
            "row_id": batch["row_id"],
            **_outcome(batch, task, header, place * batch_rows),
            **{column: name(batch[source]) for column, (source, name) in namers.items()},
            **{model: scorer(batch) for model, scorer in scorers.items()},
        }


def _outcome(batch: dict[str, np.ndarray], task: Task, header: Header, start: int) -> dict[str, np.ndarray]:
    """Returns the rows' labels, or their weights."""
    if task.likelihood:
        rows = len(batch["row_id"])
        return {"weight": batch[task.weight].astype(np.int64) if task.weight else np.ones(rows, np.int64)}
    if task.regression:
        return {"label": batch[task.label]}
    label = batch[task.label].astype(np.int64)
    _check_labels(label, header, start)
    return {"label": label}


def _check_labels(label: np.ndarray, header: Header, start: int) -> None:
    wrong = np.flatnonzero((label < 0) | (label >= len(header.classes)))
    if len(wrong):
        raise UserError(
            f"row {start + wrong[0]} of the {header.split} split has label {label[wrong[0]]}; "
            f"{header.task} has the classes 0 to {len(header.classes) - 1}."
        )


# ---- readable names for the values of a dataset's columns


def namer(column: Column, values: Callable[[], np.ndarray]) -> Namer:
    """Returns a namer of a column's values for slices; a number with many values gets five ranges.

    Args:
        column: The column of the manifest.
        values: Reads the column's values in the split, shape (N,); called only for a number.

    Raises:
        UserError: the column is a vector.
    """
    _require_single(column)
    if column.kind in ("category", "label"):
        names = tuple(value or MISSING for value in column.values)
        return lambda codes: Names(codes.astype(np.int32), names)
    numbers = values()
    distinct = np.unique(numbers)  # NaN is one value, the last
    if len(distinct) > MOST_DISTINCT_NUMBERS:
        return _quintiles(numbers)
    names = _format_values(distinct)
    return lambda batch: Names(np.searchsorted(distinct, batch).astype(np.int32), names)


def group_namer(column: Column) -> Namer:
    """Returns a namer of a group column's values, with one name for each value.

    Each batch names only its own values, because there may be as many groups as rows.

    Raises:
        UserError: the column is a vector.
    """
    _require_single(column)
    if column.kind in ("category", "label"):
        return lambda codes: Names(codes.astype(np.int32), column.values)
    return _name_distinct


def _name_distinct(batch: np.ndarray) -> Names:
    distinct, codes = np.unique(batch, return_inverse=True)
    return Names(codes, _format_values(distinct))


def _format_values(distinct: np.ndarray) -> tuple[str, ...]:
    """Formats numbers with the fewest digits that distinguish them."""
    if distinct.dtype.kind in "iu":
        return tuple(map(str, distinct.tolist()))
    return tuple(MISSING if np.isnan(value) else str(value).removesuffix(".0") for value in distinct)


def _require_single(column: Column) -> None:
    if column.kind == "vector":
        raise UserError(f"{column.name} is a vector: slice and group rows by a number or a category.")


def _quintiles(values: np.ndarray) -> Namer:
    """Returns a namer with five ranges of about equal size, closed on the left, and one for missing values."""
    edges = np.unique(np.nanquantile(values, np.linspace(0, 1, 6)))
    inner = edges[1:-1]
    texts = [f"{edge:.3g}" for edge in edges]
    ranges = [f"{low} to {high}" for low, high in zip(texts[:-1], texts[1:], strict=True)]
    names = (*ranges, MISSING)

    def name(batch: np.ndarray) -> Names:
        codes = np.searchsorted(inner, batch, side="right")
        return Names(np.where(np.isnan(batch), len(ranges), codes).astype(np.int32), names)

    return name
