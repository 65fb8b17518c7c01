"""Reads the `predictions.parquet` that a user's script wrote; an error counts the invalid rows.

Only numbers are read, no classes, pickles or module names. The columns have one of these forms:

p_NAME ...       one column for each class, named like the task's classes: p_no, p_yes
probabilities    a list for each row, with a probability for each class, in order
probability      the probability of the second of two classes
challenger       the form of `vgp.evaluation.predictions`: the second of two classes, or a list
nats             the loss of each row, for a likelihood
mean, q_0.1 ...  for a regression, the mean, and a column for each of the task's quantiles"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vgp.base.exits import UserError
from vgp.base.storage import download, files, storage
from vgp.base.text.printable import join_names
from vgp.evaluation.ranked import SUM_TOLERANCE

ROW_ID, LABEL = "row_id", "label"
MOST_CLASSES = 1_000
PREFIX, LIST, SECOND, OURS, NATS = "p_", "probabilities", "probability", "challenger", "nats"
MEAN, QUANTILE = "mean", "q_"


@dataclass(frozen=True)
class Form:
    """The columns to read, and their classes."""

    columns: tuple[str, ...]
    #: Names of the classes; () for losses and numbers; None = the length of the lists gives their number.
    classes: tuple[str, ...] | None

    @property
    def second_only(self) -> bool:
        """Whether one column holds the probability of the second class alone."""
        return self.classes is not None and len(self.classes) == 2 and self.columns in ((SECOND,), (OURS,))


def find_form(
    schema: pa.Schema,
    classes: tuple[str, ...] | None,
    *,
    likelihood: bool = False,
    quantiles: tuple[float, ...] = (),
) -> Form:
    """Finds the form of a file from its schema.

    Args:
        classes: Classes of the task; None = the file determines them.
        likelihood: Whether the task has losses instead of classes.
        quantiles: Quantiles of a regression.

    Raises:
        ValueError: a column is missing, or columns of more than one form are present.
    """
    names = schema.names
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"the column {join_names(doubles)} occurs twice")
    if quantiles:
        return Form(_list_quantile_columns(names, quantiles), ())
    if likelihood:
        return Form(
            (_choose_only([name for name in (NATS, OURS) if name in names], names, _describe_forms(classes, True)),), ()
        )
    by_class = _by_class(names, classes)
    choices = ["p_..."] * bool(by_class) + [name for name in (LIST, SECOND, OURS) if name in names]
    column = _choose_only(choices, names, _describe_forms(classes, False))
    if column == "p_...":
        return Form(by_class, classes or tuple(name.removeprefix(PREFIX) for name in by_class))
    if column == SECOND or (column == OURS and not _is_list(schema.field(OURS).type)):
        if classes is not None and len(classes) != 2:
            forms = _describe_forms(classes, False)
            raise ValueError(f"{column} is one number, and the task has {len(classes)} classes: write {forms}")
        return Form((column,), classes or ("0", "1"))
    return Form((column,), classes)


def _list_quantile_columns(names: Sequence[str], quantiles: tuple[float, ...]) -> tuple[str, ...]:
    wanted = (MEAN, *(f"{QUANTILE}{share:g}" for share in quantiles))
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(f"the column {join_names(missing)} is missing: a regression has {join_names(wanted)}")
    return wanted


def _by_class(names: Sequence[str], classes: tuple[str, ...] | None) -> tuple[str, ...]:
    """Returns the columns p_NAME of the classes, or () if there are none. Raises ValueError if some are missing."""
    present = [name for name in names if name.startswith(PREFIX)]
    if classes is None:
        if len(present) == 1 or len(present) > MOST_CLASSES:
            raise ValueError(
                f"there are {len(present):,} columns p_NAME: write one for each of 2 to {MOST_CLASSES:,} classes"
            )
        return tuple(present)
    wanted = tuple(PREFIX + name for name in classes)
    if not set(wanted) & set(present):
        return ()
    if missing := [name for name in wanted if name not in present]:
        raise ValueError(f"the column {join_names(missing)} is missing: the task has the classes {join_names(classes)}")
    return wanted


def _choose_only(choices: Sequence[str], names: Sequence[str], expected: str) -> str:
    if not choices:
        raise ValueError(f"it has the columns {join_names(names) or 'none'}, and needs {expected}")
    if len(choices) > 1:
        raise ValueError(f"predictions are in more than one form, {join_names(choices)}: leave one of them out")
    return choices[0]


def _describe_forms(classes: tuple[str, ...] | None, likelihood: bool) -> str:
    if likelihood:
        return f"{NATS}: the loss of each row, in nats"
    each = join_names([PREFIX + name for name in classes]) if classes else "p_NAME for each class"
    second = (
        f"; or {SECOND}, of {classes[1] if classes else 'class 1'} only" if not classes or len(classes) == 2 else ""
    )
    return f"{each}; or {LIST}, a list of them for each row{second}"


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def require_type(schema: pa.Schema, name: str) -> None:
    """Raises ValueError unless the column has floating point numbers or lists of them."""
    kind = schema.field(name).type
    values = kind.value_type if _is_list(kind) else kind
    if not pa.types.is_floating(values) or (_is_list(kind) and name not in (LIST, OURS)):
        wanted = "lists of floating point numbers" if name == LIST else "floating point numbers"
        raise ValueError(f"the column {join_names([name])} is of type {kind}, and must be of {wanted}")
    if name == LIST and not _is_list(kind):
        raise ValueError(f"the column {LIST} is of type {kind}, and must be of lists of floating point numbers")


def require_integers(schema: pa.Schema, name: str) -> None:
    """Raises ValueError unless the column has integers."""
    kind = schema.field(name).type
    if not pa.types.is_integer(kind):
        hint = " (pandas makes it floating point where a value is missing)" if pa.types.is_floating(kind) else ""
        raise ValueError(f"the column {name} is of type {kind}, and must be of integers{hint}")


# ---- the predictions

MOST_ROWS = 100_000_000
MOST_SHOWN = 3

Array = np.ndarray


@dataclass(frozen=True)
class Predictions:
    """N rows, C classes. `values` are probabilities, float32 (N, C), each row of sum 1; or losses, float64 (N,)."""

    path: str
    #: int64 (N,), without repetitions; row numbers if the file has no row_id.
    row_id: Array
    values: Array
    #: int64 (N,), in [0, C); None if the file has no labels.
    label: Array | None
    #: () for losses.
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.row_id)


def read(
    path: str,
    classes: tuple[str, ...] | None,
    *,
    likelihood: bool = False,
    labelled: bool = False,
    quantiles: tuple[float, ...] = (),
) -> Predictions:
    """Reads the predictions in a local or gs:// file.

    Args:
        path: The file; with its generation if it is pinned.
        classes: Classes of the task; None = the file determines them.
        likelihood: Whether the file has losses instead of probabilities.
        labelled: Whether the file must have labels, and needs no row_id.
        quantiles: Quantiles of a regression.

    Raises:
        UserError: it is not a Parquet file, lacks a column, or has an invalid value.
    """
    name = storage.plain(path)
    with download.local_copy(path) as local_path:
        try:
            files.open_file(local_path, links=storage.is_remote(path)).close()  # refuses a pipe, which would block
            with pq.ParquetFile(local_path, memory_map=False) as file:
                form = find_form(file.schema_arrow, classes, likelihood=likelihood, quantiles=quantiles)
                return _read(name, file, form, labelled, bool(quantiles))
        except FileNotFoundError:
            raise UserError(f"{name} does not exist.") from None
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"{name} cannot be read as Parquet: {reason}") from None
        except ValueError as error:
            raise UserError(f"{name}: {error}.") from None


def _read(name: str, file: pq.ParquetFile, form: Form, labelled: bool, regression: bool) -> Predictions:
    schema, rows = file.schema_arrow, file.metadata.num_rows
    if not 0 < rows <= MOST_ROWS:
        raise ValueError(f"it has {rows:,} rows" + (f"; the limit is {MOST_ROWS:,}" if rows else ""))
    for column in (ROW_ID, LABEL):
        if column in schema.names and not (regression and column == LABEL):
            require_integers(schema, column)
        elif column not in schema.names and (column == LABEL) == labelled:
            raise ValueError(f"the column {column} is missing: {_explain_column(column)}")
    for column in form.columns:
        require_type(schema, column)
    _require_lengths(file, form)
    present = [column for column in (ROW_ID, LABEL) if column in schema.names]
    table = file.read(columns=[*present, *form.columns], use_threads=True)
    row_id = _read_integers(table, ROW_ID) if ROW_ID in present else np.arange(rows)
    shown = _RowNames(row_id, ROW_ID if ROW_ID in present else "row")
    if labelled:
        shown.refuse(_is_repeated(row_id), "row_id is that of an earlier row")
    values, names = _quantiles(table, form, shown) if regression else _read_values(table, form, shown)
    label = _label(table, names, shown) if LABEL in present and names else None
    if regression and LABEL in present:
        label = _numbers(table[LABEL], LABEL, shown)
    return Predictions(name, row_id, values, label, names)


def _explain_column(column: str) -> str:
    if column == LABEL:
        return "without prepared rows, the file must have the class of each row, counted from 0"
    return "it must have the row_id of each predicted row, from the test shards"


def _require_lengths(file: pq.ParquetFile, form: Form) -> None:
    """Raises ValueError if the lists are too long for the classes, before they are decompressed."""
    metadata, longest = file.metadata, max(MOST_CLASSES if form.classes is None else len(form.classes), 1)
    count = sum(
        metadata.row_group(group).column(i).num_values
        for group in range(metadata.num_row_groups)
        for i in range(metadata.num_columns)
        if metadata.row_group(group).column(i).path_in_schema.startswith(f"{form.columns[0]}.list.")
    )
    if count > metadata.num_rows * longest:
        raise ValueError(f"{form.columns[0]} has {count:,} numbers in {metadata.num_rows:,} rows: too many")


@dataclass(frozen=True)
class _RowNames:
    """Names of rows for messages."""

    row_id: Array
    noun: str

    def refuse(self, wrong: Array, problem: str, value: Callable[[int], object] | None = None) -> None:
        """Raises ValueError with the number of wrong rows and examples, if there are any."""
        places = np.flatnonzero(wrong)
        if not len(places):
            return
        examples = [
            f"{self.noun} {self.row_id[place]}" + (f": {value(int(place))}" if value else "")
            for place in places[:MOST_SHOWN]
        ]
        more = ", ..." if len(places) > MOST_SHOWN else ""
        raise ValueError(f"{problem} in {len(places):,} of {len(wrong):,} rows ({', '.join(examples)}{more})")


def _is_repeated(row_id: Array) -> Array:
    """Returns whether each row has the row_id of an earlier row, bool (N,)."""
    repeated = np.ones(len(row_id), bool)
    repeated[np.unique(row_id, return_index=True)[1]] = False
    return repeated


def _read_integers(table: pa.Table, column: str) -> Array:
    array = table[column]
    if array.null_count:
        raise ValueError(f"{column} is empty in {array.null_count:,} of {len(array):,} rows")
    return np.asarray(array.cast(pa.int64()).to_numpy())


def _label(table: pa.Table, classes: tuple[str, ...], row_names: _RowNames) -> Array:
    label = _read_integers(table, LABEL)
    rule = f"label is not a class, 0 to {len(classes) - 1},"
    row_names.refuse((label < 0) | (label >= len(classes)), rule, lambda i: label[i])
    return label


def _quantiles(table: pa.Table, form: Form, row_names: _RowNames) -> tuple[Array, tuple[str, ...]]:
    """Returns mean and quantiles, float64 (N, 1 + Q)."""
    matrix = np.stack([_numbers(table[column], column, row_names) for column in form.columns], axis=1)
    falls = np.asarray((np.diff(matrix[:, 1:], axis=1) < 0).any(axis=1))
    row_names.refuse(falls, "the quantiles do not rise", lambda i: matrix[i, 1:].tolist()[:5])
    return matrix, ()


def _read_values(table: pa.Table, form: Form, row_names: _RowNames) -> tuple[Array, tuple[str, ...]]:
    if form.classes == ():
        return _numbers(table[form.columns[0]], form.columns[0], row_names), ()
    if len(form.columns) > 1 or form.second_only:
        parts = [_numbers(table[column], column, row_names) for column in form.columns]
        matrix = np.stack([1 - parts[0], parts[0]] if form.second_only else parts, axis=1)
    else:
        matrix = _lists(table[form.columns[0]], form, row_names)
    names = form.classes or tuple(map(str, range(matrix.shape[1])))
    for code, name in enumerate(names):
        part = matrix[:, code]
        what = f"the probability of {name} is outside [0, 1]"
        row_names.refuse((part < 0) | (part > 1), what, lambda i, part=part: f"{part[i]:.6g}")  # type: ignore[misc]
    sums = matrix.sum(axis=1)
    row_names.refuse(np.abs(sums - 1) > SUM_TOLERANCE, "the probabilities do not sum to 1", lambda i: f"{sums[i]:.6g}")
    return (matrix / sums[:, None]).astype(np.float32), names


def _numbers(column: pa.ChunkedArray, name: str, row_names: _RowNames) -> Array:
    """Returns finite numbers, float64 (N,)."""
    if column.null_count:
        row_names.refuse(column.is_null().to_numpy(), f"{name} is empty")
    values = column.cast(pa.float64()).to_numpy()
    row_names.refuse(~np.isfinite(values), f"{name} is not a finite number", lambda i: values[i])
    return np.asarray(values)


def _lists(column: pa.ChunkedArray, form: Form, row_names: _RowNames) -> Array:
    """Returns the lists as a matrix, float64 (N, C)."""
    name = form.columns[0]
    if column.null_count:
        row_names.refuse(column.is_null().to_numpy(), f"{name} is empty")
    lengths = pc.list_value_length(column).to_numpy()
    width = len(form.classes) if form.classes else int(lengths[0])
    row_names.refuse(
        lengths != width, f"{name} does not have {width} numbers, one for each class,", lambda i: lengths[i]
    )
    if width < 2:
        raise ValueError(f"{name} has {width} number for each row: at least two classes are needed")
    flat = pc.list_flatten(column)
    if flat.null_count:
        row_names.refuse(flat.is_null().to_numpy().reshape(-1, width).any(axis=1), f"{name} has an empty value")
    matrix = flat.cast(pa.float64()).to_numpy().reshape(-1, width)
    row_names.refuse(~np.isfinite(matrix).all(axis=1), f"{name} is not finite", lambda i: matrix[i].tolist()[:5])
    return np.asarray(matrix)
