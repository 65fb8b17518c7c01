"""Rows of a split, scored by each model and written as `predictions.py` reads them, a row group at a time.

`namers` gives the slices and groups of the rows their names, `scored_batches` puts the rows beside the scores of every
model, and `write` makes the file of them.
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
from vgp.evaluation.predictions import FILE_NAME, GROUP_BYTES, GROUP_ROWS, GROUPS, METADATA_KEY, Header, Names, groups
from vgp.protocol.manifest import Column, Manifest
from vgp.protocol.outcome import PREDICTED

MISSING = "(missing)"
#: A slice by a number with more distinct values than this is a slice by its quintiles.
MOST_DISTINCT_NUMBERS = 20

#: Values of B rows -> their names.
Namer = Callable[[np.ndarray], Names]
#: Columns of the file by name, for B rows.
Columns = dict[str, np.ndarray | Names]
#: Columns of B rows -> class probabilities (B, C), mean and quantiles (B, 1 + Q), or losses (B,).
Scorer = Callable[[dict[str, np.ndarray]], np.ndarray]


def write(directory: str | Path, header: Header, batches: Iterable[Columns]) -> Path:
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


def _write(path: Path, header: Header, batches: Iterable[Columns]) -> None:
    schema, rows = _schema(header), 0
    names = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=names) as writer:
        for table in _row_groups(schema, batches):
            writer.write_table(table)
            rows += len(table)
    if not rows:
        raise UserError(f"the {header.split} split has no rows: there is nothing to evaluate on.")


def _row_groups(schema: pa.Schema, batches: Iterable[Columns]) -> Iterator[pa.Table]:
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


def _array(column: np.ndarray | Names, kind: pa.DataType) -> pa.Array:
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


# ---- rows of a split beside the scores of every model, a batch at a time


def namers(rows: Shards, task: Task) -> dict[str, tuple[str, Namer]]:
    """Column of the predictions -> column of the dataset, and what names its values: the task's slices and its groups.

    Raises:
        UserError: the task names a column that the dataset does not have.
    """
    slices = {name: (name, namer(_column(rows.dataset, name), partial(rows.column, name))) for name in task.slices}
    groups = zip(GROUPS, task.groups, strict=False)
    return slices | {column: (name, group_namer(_column(rows.dataset, name))) for column, name in groups}


def _column(dataset: Manifest, name: str) -> Column:
    """The dataset's column behind a slice or group."""
    column = next((column for column in dataset.columns if column.name == name), None)
    if column is None and name == DAY:
        raise UserError(
            "the data was prepared without the day of its rows, by which a task with a time groups them unless it says "
            'otherwise: prepare it again, or declare group = "row", with which every row counts by itself.'
        )
    if column is None:
        raise UserError(f"the task slices or groups by {name}, a column that the data does not have.")
    return column


def scored_batches(
    rows: Shards,
    task: Task,
    header: Header,
    namers: dict[str, tuple[str, Namer]],
    scorers: dict[str, Scorer],
    batch_rows: int,
) -> Iterator[Columns]:
    """What `predictions_writer.write` takes, a batch of rows at a time, in the order of the split.

    Raises:
        UserError: a row has a label that is none of the task's classes.
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


# ---- columns of a dataset as names that people read


def namer(column: Column, values: Callable[[], np.ndarray]) -> Namer:
    """How to name a column's values for slices, where many numbers become five ranges.

    Args:
        column: Its entry in the manifest.
        values: Gives all its values in the split, shape (N,): asked only where the names depend on them.

    Raises:
        UserError: the column is a vector.
    """
    _require_single(column)
    if column.kind in ("category", "label"):
        names = tuple(value or MISSING for value in column.values)
        return lambda codes: Names(codes.astype(np.int32), names)
    numbers = values()
    distinct = np.unique(numbers)  # not-a-number is one value, and the last
    if len(distinct) > MOST_DISTINCT_NUMBERS:
        return _quintiles(numbers)
    names = _written(distinct)
    return lambda batch: Names(np.searchsorted(distinct, batch).astype(np.int32), names)


def group_namer(column: Column) -> Namer:
    """How to name the values of the column that groups rows: every one has a name of its own, in every batch.

    A batch lists the names of its own values only: groups may be as many as rows.

    Raises:
        UserError: the column is a vector.
    """
    _require_single(column)
    if column.kind in ("category", "label"):
        return lambda codes: Names(codes.astype(np.int32), column.values)
    return _distinct


def _distinct(batch: np.ndarray) -> Names:
    distinct, codes = np.unique(batch, return_inverse=True)
    return Names(codes, _written(distinct))


def _written(distinct: np.ndarray) -> tuple[str, ...]:
    """Numbers as text, in as few digits as tell them apart."""
    if distinct.dtype.kind in "iu":
        return tuple(map(str, distinct.tolist()))
    return tuple(MISSING if np.isnan(value) else str(value).removesuffix(".0") for value in distinct)


def _require_single(column: Column) -> None:
    if column.kind == "vector":
        raise UserError(f"{column.name} is a vector: rows can be sliced or grouped by a single value only.")


def _quintiles(values: np.ndarray) -> Namer:
    """Five ranges of about equal rows, closed on the left; the last is for missing values."""
    edges = np.unique(np.nanquantile(values, np.linspace(0, 1, 6)))
    inner = edges[1:-1]
    shown = [f"{edge:.3g}" for edge in edges]
    ranges = [f"{low} to {high}" for low, high in zip(shown[:-1], shown[1:], strict=True)]
    names = (*ranges, MISSING)

    def name(batch: np.ndarray) -> Names:
        codes = np.searchsorted(inner, batch, side="right")
        return Names(np.where(np.isnan(batch), len(ranges), codes).astype(np.int32), names)

    return name
