"""Rows of this process, such as those of a request, as an engine reads those of files: typed, checked, with places."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.data import schema
from vgp.data.schema import Field
from vgp.data.sources import files, values
from vgp.data.sources.json_lines import JsonLines
from vgp.data.sources.reading import Mistake
from vgp.protocol.manifest import SourceFile

Row = Mapping[str, Any]

#: Every integer below it is a double of its own: https://www.rfc-editor.org/rfc/rfc8259#section-6
EXACT = 2.0**53


@dataclass(frozen=True)
class Given:
    """Some lists of rows, each under a name for messages, in the form of `vgp.data.sources.files.Files`.

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
                table = table.append_column(files.FILE, places[0]).append_column(files.RECORD, places[1])
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
        return table.cast(pa.schema([(field.name, values.held(field.type)) for field in fields]))


def common(rows: Sequence[Row]) -> set[str]:
    """The columns that all rows have; there is one at least."""
    return set.intersection(*map(set, rows))


def require(name: str, rows: Sequence[Row], needed: Sequence[str], declared: Sequence[str]) -> None:
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
