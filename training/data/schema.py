"""The declared columns of a CSV file, and reading a chunk of one under that declaration."""

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from training.data import records
from training.data.cutting import Chunk
from training.errors import UserError
from training.printable import listed, quoted

#: Column names that a missing one is compared with, and missing ones that get a hint: each comparison takes 10 us.
MOST_COMPARED = 1_000
MOST_HINTS = 10


@dataclass(frozen=True)
class Field:
    """One column of the input."""

    name: str
    type: pa.DataType
    #: May be empty (or NA, NULL, NaN). An empty string column reads as "".
    nullable: bool = False
    #: Is its value known before the outcome, or only after it? `features` never sees the latter.
    known: Literal["before", "after"] = "before"


def check_header(source: str, columns: Sequence[str], fields: Iterable[Field]) -> None:
    """Raises UserError if the file lacks a declared column, with the nearest name that it has."""
    fields, present = list(fields), set(columns)
    missing = [field.name for field in fields if field.name not in present]
    if not missing:
        return
    raise UserError(f"{source} {lacking(columns, missing, {field.name for field in fields})}")


def lacking(columns: Sequence[str], missing: Sequence[str], declared: AbstractSet[str] = frozenset()) -> str:
    """What to say of a header without some of the declared columns, with the nearest names that it has."""
    spare = [column for column in columns[:MOST_COMPARED] if column not in declared]
    plain = {_plain(column): column for column in spare}
    near = [(name, plain.get(_plain(name)) or _nearest(name, spare)) for name in missing[:MOST_HINTS]]
    hints = "".join(f" Is {quoted(column)} meant to be {name!r}?" for name, column in near if column)
    if any(column and column.casefold() == name.casefold() for name, column in near):
        hints += " Upper and lower case differ: declare the names as the file writes them."
    elif not hints and columns and all(re.fullmatch(r"[\d\s.,:/+-]*", column) for column in columns):
        hints = " Its first line must name the columns."
    return f"lacks the column{'s' * (len(missing) > 1)} {listed(missing)}; it has {listed(columns)}.{hints}"


def _plain(name: str) -> str:
    """A name without what people write in one way or another."""
    return re.sub(r"[\s_-]", "", name).casefold()


def _nearest(name: str, columns: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(name, columns, 1)), "")


def read(chunk: Chunk, fields: Sequence[Field]) -> pa.Table:
    """The declared columns of one chunk, in the order of `fields`.

    Raises:
        UserError: a value has the wrong type or is missing, or a row the wrong number of fields;
            names file, line and column.
    """
    data = chunk.read()
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            # One thread: the pool has one process per core, and only so do errors carry the row.
            pyarrow.csv.ReadOptions(column_names=chunk.columns, use_threads=False, block_size=len(data) + 1),
            pyarrow.csv.ParseOptions(newlines_in_values=b'"' in data),
            pyarrow.csv.ConvertOptions(
                column_types={field.name: field.type for field in fields},
                include_columns=[field.name for field in fields],
            ),
        )
    except pa.ArrowInvalid as error:
        raise UserError(_explained(chunk, data, str(error))) from None
    for field in fields:
        _check_present(chunk, data, table, field)
    return table.combine_chunks()


def line_of(chunk: Chunk, record: int, data: bytes | None = None) -> int:
    """The number of the line at which a record of the chunk starts, as an editor shows it."""
    every = records.of(chunk.read() if data is None else data)
    return chunk.first_line + next((line for _, line in islice(every, record, None)), 0)


def _check_present(chunk: Chunk, data: bytes, table: pa.Table, field: Field) -> None:
    if field.nullable:
        return
    column = table[field.name]
    empty = pc.equal(column, "") if pa.types.is_string(field.type) else pc.is_null(column)
    record = pc.index(empty, True).as_py()
    if record >= 0:
        raise UserError(
            f"{chunk.source}, line {line_of(chunk, record, data)}: column {field.name} is empty, "
            "and the schema says that it never is."
        )


def _explained(chunk: Chunk, data: bytes, message: str) -> str:
    """pyarrow's message in terms of the file: its line for the chunk's row, the column's name for its index."""
    row = re.search(r"Row #(\d+): ", message)
    where = f"{chunk.source}, line {line_of(chunk, int(row[1]) - 1, data)}" if row else chunk.source
    reason = message[row.end() :] if row else message
    if width := re.match(r"Expected (\d+) columns, got (\d+)", reason):
        last = row is not None and _is_last_record(chunk, data, int(row[1]))
        count = f"{width[2]} field{'s' * (width[2] != '1')}"
        return (
            f"{where} has {count} where the header has {width[1]}: {quoted(reason.partition(': ')[2])}."
            + " The file seems to be cut off there." * last
        )
    column = re.match(r"In CSV column #(\d+)", message)
    name = f", column {listed([chunk.columns[int(column[1])]])}" if column else ""
    if value := re.match(r"CSV conversion error to (.+?): invalid value '(.*)'", reason, re.DOTALL):
        reason = f"{quoted(value[2])} is not of type {value[1]}."
    elif "UTF8" in reason:
        reason = "the text is not UTF-8; save the file as UTF-8."
    return f"{where}{name}: {reason[:300]}"


def _is_last_record(chunk: Chunk, data: bytes, record: int) -> bool:
    return chunk.end == os.path.getsize(chunk.path) and record == sum(1 for _ in records.of(data))
