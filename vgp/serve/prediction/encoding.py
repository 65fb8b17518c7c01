"""Raw rows -> the columns that a model takes, by its task's own expressions and its card's vocabularies.

Of a table these are the expressions that prepared its training rows, on the same engine. Another task says it in
`Task.inputs`; without that a row has the columns that training saw, by their names.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.base.printable import listed
from vgp.data.bundle import ModelCard
from vgp.data.columns import elements, fixed_width, require_finite
from vgp.data.rows import dtype
from vgp.data.sources.files import FILE, RECORD
from vgp.data.tables import blame, features
from vgp.data.tabular import TabularTask
from vgp.data.task import Task
from vgp.protocol.manifest import Column
from vgp.serve.prediction import columns
from vgp.serve.prediction.database import Database
from vgp.serve.prediction.given import Given, Row, common, require
from vgp.serve.prediction.shards import Arrays, learned

ROWS, HISTORY = "rows", "history"


def encoded(
    task: Task, card: ModelCard, rows: Sequence[Row], history: Sequence[Row] | None, database: Database
) -> Arrays:
    """The model's columns for B raw rows: (B,), of a vector (B, width).

    Args:
        history: Of a table: earlier rows, which `events` and windows look back on. None = there are none to be had.
        database: Where the expressions of a table are computed.

    Raises:
        UserError: a row lacks a column that the model needs, or holds a value of another type; or a feature is made of
            other rows, and no history is given.
    """
    taken = learned(task, card)
    if isinstance(task, TabularTask):
        return arrays(_of_table(type(task)(card.options), taken, rows, history, database), taken)
    if history:
        raise UserError(f"{type(task).__name__} is no task over a table: its rows look back on nothing.")
    if type(task).inputs is not Task.inputs:
        return arrays(fixed_width(task.inputs(rows, card.statistics), task.label), taken)
    return arrays(_as_prepared(rows, taken), taken)


def arrays(table: pa.Table, taken: Sequence[Column]) -> Arrays:
    """The columns of rows in the codes of the model's vocabularies; a value that it never saw is as one that is
    missing.

    Raises:
        UserError: a column is not there, is of another kind, or holds an infinite number.
    """
    made: Arrays = {}
    for column in taken:
        if column.name not in table.column_names:
            raise UserError(
                f"the rows have no {column.name}, which the model takes; they have {listed(table.column_names)}."
            )
        values = table[column.name].combine_chunks()
        coded = _codes(values, column) if column.kind == "category" else _numbers(values, column)
        made[column.name] = coded if coded.flags.writeable else coded.copy()  # PyTorch warns of what it may not write
    return made


def _codes(values: pa.Array, column: Column) -> NDArray[np.int32]:
    encoded = values if pa.types.is_dictionary(values.type) else values.cast(pa.string()).dictionary_encode()
    known = {value: code for code, value in enumerate(column.values)}
    codes = np.array([known.get(value, 0) for value in encoded.dictionary.to_pylist()] or [0], np.int32)
    taken: NDArray[np.int32] = codes[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return taken


def _numbers(values: pa.Array, column: Column) -> NDArray[Any]:
    if column.kind == "number":
        numbers = np.asarray(values.cast(pa.float32()).fill_null(np.nan).to_numpy(zero_copy_only=False))
    else:
        numbers = elements(values)
        if numbers.ndim != 2 or numbers.shape[1] != column.width:
            raise UserError(f"{column.name} is a vector of {column.width:,} elements; it is {values.type}.")
    require_finite(column.name, numbers)
    return numbers


# ---- tables


def _of_table(
    task: TabularTask, taken: Sequence[Column], rows: Sequence[Row], history: Sequence[Row] | None, database: Database
) -> pa.Table:
    """The features of raw rows, in their order."""
    names = [column.name for column in taken]
    if history is None and (others := columns.looks_back(task)):
        raise UserError(
            f"{type(task).__name__} makes {listed(others)} of other rows than a row itself: give the rows before it as "
            "its history. Of a whole table: python -m vgp.steps predict, vgp run batch_prediction."
        )
    columns.keep(task, _columns(task, names, rows, history or ()))
    with database.engine() as engine:
        given = Given({ROWS: rows, HISTORY: history or ()}, task.schema)
        engine.read_files(given, task.schema)
        with blame.named(task, engine):
            joined = features.looking_back(task, engine, engine.named(features.ROWS, engine.source()))
            asked = joined.select(FILE, RECORD, **features.values_of(task, joined))
            return engine.read(asked.filter(asked[FILE] == 0).order_by(RECORD))


def _columns(task: TabularTask, names: Sequence[str], rows: Sequence[Row], history: Sequence[Row]) -> set[str]:
    """The declared columns that there are. What is known only after the outcome, a row to be predicted may lack."""
    declared = [field.name for field in task.schema]
    after = {field.name for field in task.schema if field.known == "after"}
    in_history = common(history) if history else set(declared)
    there = {name for name in declared if name in in_history and (name in after or name in common(rows))}
    required = columns.needed(task, names, (name for name in declared if name not in there))
    require(ROWS, rows, [name for name in required if name not in after], declared)
    require(HISTORY, history, required, declared)
    return there


# ---- other tasks


def _as_prepared(rows: Sequence[Row], taken: Sequence[Column]) -> pa.Table:
    """Rows that have the model's columns themselves: numbers, text, and lists of numbers."""
    names = [column.name for column in taken]
    require(ROWS, rows, names, names)
    return pa.table({column.name: _column(column, [row[column.name] for row in rows]) for column in taken})


def _column(column: Column, values: Sequence[Any]) -> pa.Array:
    kinds: Mapping[str, Any] = {"number": pa.float32(), "category": pa.string()}
    try:
        if column.kind != "vector":
            return pa.array(values, kinds[column.kind])
        table = np.array(values, dtype(column))
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError, OverflowError) as error:
        what = f"a list of {column.width:,} numbers" if column.kind == "vector" else f"a {column.kind}"
        raise UserError(f"the column {column.name} is {what} in each row: {error}") from None
    if table.shape != (len(values), column.width):
        raise UserError(f"the column {column.name} is a list of {column.width:,} numbers in each row.")
    return pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), column.width)
