"""Encodes raw rows as the columns that a model takes, with its task's expressions and its card's vocabularies.

Tabular tasks use the expressions and engine that prepared the training rows. Other tasks define `Task.inputs`; without
it, a row must have the columns of the training rows by name.
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
from vgp.base.text.printable import join_names
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
from vgp.serve.prediction import row_shards
from vgp.serve.prediction.database import Database
from vgp.serve.prediction.row_shards import Arrays, feature_columns

# ---- rows in memory, such as those of a request, as a source that an engine reads like a file


Row = Mapping[str, Any]

#: Every integer below this has an exact double: https://www.rfc-editor.org/rfc/rfc8259#section-6
EXACT = 2.0**53


@dataclass(frozen=True)
class RowLists:
    """Lists of rows, each with a name for messages; has the interface of `vgp.data.sources.table_files.Files`.

    Values are numbers, text, true, false and null; dates and times are text or Python objects.
    """

    lists: Mapping[str, Sequence[Row]]
    fields: Sequence[Field]
    #: Always empty; part of the interface of `Files`.
    sources: tuple[SourceFile, ...] = ()
    notes: tuple[str, ...] = ()

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of each list, with `_file`, the position of the list, and `_record`, the position in it.

        Raises:
            UserError: A value has another type than declared, or a required value is missing.
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
        values_of_rows = ({field.name: _plain(row.get(field.name), field.type) for field in fields} for row in rows)
        text = "\n".join(map(json.dumps, values_of_rows)).encode()
        layout = JsonLines()
        try:
            try:
                table = layout.read(text, fields)
            except pa.ArrowInvalid as error:
                raise layout.mistake(text, str(error), True, fields) from None
            values.check(table, fields)
        except Mistake as mistake:
            raise UserError(f"{self.place(number, mistake.record)}{mistake.text}") from None
        return table.cast(pa.schema([(field.name, values.choose_memory_type(field.type)) for field in fields]))


def common_columns(rows: Sequence[Row]) -> set[str]:
    """Returns the columns that all rows have; `rows` must not be empty."""
    return set.intersection(*map(set, rows))


def require_columns(name: str, rows: Sequence[Row], needed: Sequence[str], declared: Sequence[str]) -> None:
    """Raises UserError for the first row that lacks a required column."""
    for number, row in enumerate(rows, 1):
        if missing := [column for column in needed if column not in row]:
            raise UserError(
                f"{name}, row {number:,} {schema.missing_columns_message(list(row), missing, set(declared))}"
            )


def _plain(value: Any, type: pa.DataType) -> Any:
    """Returns the value as a JSON value; NaN becomes null.

    An integer may come as 7.0, because Google's clients send every number as a double. From 2**53 on, a double may not
    be the original integer, so it stays a float, which an integer column refuses.
    """
    if isinstance(value, date):
        return value.isoformat()
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, list | tuple) and (pa.types.is_list(type) or pa.types.is_fixed_size_list(type)):
        return [_plain(element, type.value_type) for element in value]
    if isinstance(value, float) and pa.types.is_integer(type) and value.is_integer() and abs(value) < EXACT:
        return int(value)
    return None if isinstance(value, float) and value != value else value


ROWS, HISTORY = "rows", "history"


def encode_rows(
    task: Task, card: ModelCard, rows: Sequence[Row], history: Sequence[Row] | None, database: Database
) -> Arrays:
    """Returns the model's columns for B raw rows: (B,), or (B, width) for a vector.

    Args:
        history: Earlier rows for the events and windows of a tabular task; None if there are none.
        database: Computes the expressions of a tabular task.

    Raises:
        UserError: A row lacks a required column or holds a value of another type; or a feature uses other rows and
            there is no history.
    """
    taken = feature_columns(task, card)
    if isinstance(task, TabularTask):
        return arrays(_of_table(type(task)(card.options), taken, rows, history, database), taken)
    if history:
        raise UserError(f"{type(task).__name__} is not a tabular task, so it takes no history. Remove the history.")
    if type(task).inputs is not Task.inputs:
        return arrays(fixed_width(task.inputs(rows, card.statistics), task.label), taken)
    return arrays(_as_prepared(rows, taken), taken)


def arrays(table: pa.Table, taken: Sequence[Column]) -> Arrays:
    """Returns the columns of rows, with categories as codes of the model's vocabularies; unknown values count as
    missing.

    Raises:
        UserError: A column is missing, has another kind, or holds an infinite number.
    """
    result: Arrays = {}
    for column in taken:
        if column.name not in table.column_names:
            raise UserError(
                f"the rows lack {column.name}, which the model needs; they have {join_names(table.column_names)}."
            )
        values = table[column.name].combine_chunks()
        coded = _encode_codes(values, column) if column.kind == "category" else _encode_numbers(values, column)
        result[column.name] = coded if coded.flags.writeable else coded.copy()  # PyTorch warns of read-only memory
    return result


def _encode_codes(values: pa.Array, column: Column) -> NDArray[np.int32]:
    encoded = values if pa.types.is_dictionary(values.type) else values.cast(pa.string()).dictionary_encode()
    known = {value: code for code, value in enumerate(column.values)}
    codes = np.array([known.get(value, 0) for value in encoded.dictionary.to_pylist()] or [0], np.int32)
    taken: NDArray[np.int32] = codes[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return taken


def _encode_numbers(values: pa.Array, column: Column) -> NDArray[Any]:
    if column.kind == "number":
        numbers = np.asarray(values.cast(pa.float32()).fill_null(np.nan).to_numpy(zero_copy_only=False))
    else:
        numbers = elements(values)
        if numbers.ndim != 2 or numbers.shape[1] != column.width:
            raise UserError(f"{column.name} must be a vector of {column.width:,} elements, but is {values.type}.")
    require_finite(column.name, numbers)
    return numbers


# ---- tables


def _of_table(
    task: TabularTask, taken: Sequence[Column], rows: Sequence[Row], history: Sequence[Row] | None, database: Database
) -> pa.Table:
    """Returns the features of raw rows, in their order."""
    names = [column.name for column in taken]
    if history is None and (others := row_shards.looks_back(task)):
        raise UserError(
            f"{type(task).__name__} computes {join_names(others)} from other rows: give the earlier rows as history. "
            "For a whole table, run python -m vgp.steps predict or vgp run batch_prediction."
        )
    row_shards.keep(task, _columns(task, names, rows, history or ()))
    with database.engine() as engine:
        lists = RowLists({ROWS: rows, HISTORY: history or ()}, task.schema)
        engine.read_files(lists, task.schema)
        with failed_rows.name_errors(task, engine):
            joined = features.join_events(task, engine, engine.create_view(features.ROWS, engine.source()))
            selected = joined.select(FILE, RECORD, **features.compute_values(task, joined))
            return engine.read(selected.filter(selected[FILE] == 0).order_by(RECORD))


def _columns(task: TabularTask, names: Sequence[str], rows: Sequence[Row], history: Sequence[Row]) -> set[str]:
    """Returns the declared columns that are present. New rows may lack columns known only after the outcome."""
    declared = [field.name for field in task.schema]
    after = {field.name for field in task.schema if field.known == "after"}
    in_history = common_columns(history) if history else set(declared)
    there = {name for name in declared if name in in_history and (name in after or name in common_columns(rows))}
    required = row_shards.list_needed_columns(task, names, (name for name in declared if name not in there))
    require_columns(ROWS, rows, [name for name in required if name not in after], declared)
    require_columns(HISTORY, history, required, declared)
    return there


# ---- other tasks


def _as_prepared(rows: Sequence[Row], taken: Sequence[Column]) -> pa.Table:
    """Returns the table of rows that already have the model's columns: numbers, text, and lists of numbers."""
    names = [column.name for column in taken]
    require_columns(ROWS, rows, names, names)
    return pa.table({column.name: _build_column(column, [row[column.name] for row in rows]) for column in taken})


def _build_column(column: Column, values: Sequence[Any]) -> pa.Array:
    kinds: Mapping[str, Any] = {"number": pa.float32(), "category": pa.string()}
    try:
        if column.kind != "vector":
            return pa.array(values, kinds[column.kind])
        table = np.array(values, dtype(column))
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError, OverflowError) as error:
        kind = f"a list of {column.width:,} numbers" if column.kind == "vector" else f"a {column.kind}"
        raise UserError(f"the column {column.name} must be {kind} in each row: {error}") from None
    if table.shape != (len(values), column.width):
        raise UserError(f"the column {column.name} must be a list of {column.width:,} numbers in each row.")
    return pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), column.width)
