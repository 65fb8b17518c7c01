"""Raw rows -> the columns that a model takes, by its task's own expressions and its card's vocabularies.

Of a table these are the expressions that prepared its training rows, on the same engine. Another task says it in
`Task.inputs`; without that a row has the columns that training saw, by their names.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.base.text.printable import listed
from vgp.data import schema
from vgp.data.bundle import ModelCard
from vgp.data.columns import elements, fixed_width, require_finite
from vgp.data.rows import dtype
from vgp.data.schema import Field
from vgp.data.sources import table_files, values
from vgp.data.sources.json_lines import JsonLines
from vgp.data.sources.table_files import FILE, RECORD
from vgp.data.sources.values import Mistake
from vgp.data.tables import failed_rows, features
from vgp.data.tabular import TabularTask
from vgp.data.task import Task
from vgp.protocol.manifest import Column, SourceFile
from vgp.serve.prediction import cutting
from vgp.serve.prediction.cutting import Arrays, learned
from vgp.serve.prediction.database import Database

# ---- rows of this process, such as those of a request, as an engine reads those of files: typed, checked, with places


Row = Mapping[str, Any]

#: Every integer below it is a double of its own: https://www.rfc-editor.org/rfc/rfc8259#section-6
EXACT = 2.0**53


@dataclass(frozen=True)
class Given:
    """Some lists of rows, each under a name for messages, in the form of `vgp.data.sources.table_files.Files`.

    Values are as JSON has them: numbers, text, true, false and null; dates and times are text, or Python's own.
    """

    lists: Mapping[str, Sequence[Row]]
    fields: Sequence[Field]
    #: As of files.
    sources: tuple[SourceFile, ...] = ()
    notes: tuple[str, ...] = ()

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of each list, with `_file`, the position of their list, and `_record`, theirs in it.

        Raises:
            UserError: a value is of another type than is declared, or is missing where none may be.
        """
        fields = [field for field in self.fields if columns is None or field.name in columns]
        for number, rows in enumerate(self.lists.values()):
            if rows or not number:
                table = self._table(number, rows, fields)
                places = [pa.array([number] * len(rows), pa.int32()), pa.array(range(len(rows)), pa.int64())]
                table = table.append_column(table_files.FILE, places[0]).append_column(table_files.RECORD, places[1])
                yield from table.combine_chunks().to_batches(max(1, len(rows)))

    def place(self, file: int, record: int) -> str:
        return f"{list(self.lists)[file]}, row {record + 1:,}"

    def _table(self, number: int, rows: Sequence[Row], fields: Sequence[Field]) -> pa.Table:
        told = ({field.name: _plain(row.get(field.name), field.type) for field in fields} for row in rows)
        text = "\n".join(map(json.dumps, told)).encode()
        layout = JsonLines()
        try:
            try:
                table = layout.read(text, fields)
            except pa.ArrowInvalid as error:
                raise layout.mistake(text, str(error), True, fields) from None
            values.check(table, fields)
        except Mistake as mistake:
            raise UserError(f"{self.place(number, mistake.record)}{mistake.says}") from None
        return table.cast(pa.schema([(field.name, values.held_type(field.type)) for field in fields]))


def common_columns(rows: Sequence[Row]) -> set[str]:
    """The columns that all rows have; there is one at least."""
    return set.intersection(*map(set, rows))


def require_columns(name: str, rows: Sequence[Row], needed: Sequence[str], declared: Sequence[str]) -> None:
    """Raises UserError for the first row that lacks a column which is needed."""
    for number, row in enumerate(rows, 1):
        if missing := [column for column in needed if column not in row]:
            raise UserError(f"{name}, row {number:,} {schema.lacking(list(row), missing, set(declared))}")


def _plain(value: Any, type: pa.DataType) -> Any:
    """The value as JSON has it; what is no number is missing.

    A whole number may come as 7.0: Google's clients send every number as a double. From 2**53 on a double may have been
    another integer before, and is refused as one.
    """
    if isinstance(value, date):
        return value.isoformat()
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, list | tuple) and (pa.types.is_list(type) or pa.types.is_fixed_size_list(type)):
        return [_plain(one, type.value_type) for one in value]
    if isinstance(value, float) and pa.types.is_integer(type) and value.is_integer() and abs(value) < EXACT:
        return int(value)
    return None if isinstance(value, float) and value != value else value


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
    if history is None and (others := cutting.looks_back(task)):
        raise UserError(
            f"{type(task).__name__} makes {listed(others)} of other rows than a row itself: give the rows before it as "
            "its history. Of a whole table: python -m vgp.steps predict, vgp run batch_prediction."
        )
    cutting.keep(task, _columns(task, names, rows, history or ()))
    with database.engine() as engine:
        given = Given({ROWS: rows, HISTORY: history or ()}, task.schema)
        engine.read_files(given, task.schema)
        with failed_rows.name_errors(task, engine):
            joined = features.join_events(task, engine, engine.named(features.ROWS, engine.source()))
            asked = joined.select(FILE, RECORD, **features.values_of(task, joined))
            return engine.read(asked.filter(asked[FILE] == 0).order_by(RECORD))


def _columns(task: TabularTask, names: Sequence[str], rows: Sequence[Row], history: Sequence[Row]) -> set[str]:
    """The declared columns that there are. What is known only after the outcome, a row to be predicted may lack."""
    declared = [field.name for field in task.schema]
    after = {field.name for field in task.schema if field.known == "after"}
    in_history = common_columns(history) if history else set(declared)
    there = {name for name in declared if name in in_history and (name in after or name in common_columns(rows))}
    required = cutting.needed(task, names, (name for name in declared if name not in there))
    require_columns(ROWS, rows, [name for name in required if name not in after], declared)
    require_columns(HISTORY, history, required, declared)
    return there


# ---- other tasks


def _as_prepared(rows: Sequence[Row], taken: Sequence[Column]) -> pa.Table:
    """Rows that have the model's columns themselves: numbers, text, and lists of numbers."""
    names = [column.name for column in taken]
    require_columns(ROWS, rows, names, names)
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
