"""Reads blocks of CSV records as typed columns, and explains the mistake in a record that cannot be read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from vgp.base.text.printable import join_names, quote
from vgp.data.schema import Field
from vgp.data.sources import records
from vgp.data.sources.records import suggest_windows
from vgp.data.sources.values import TEXT, Mistake, choose_memory_type, format_advice

#: Arrow's default texts for a missing number.
NULLS = tuple(pyarrow.csv.ConvertOptions().null_values)
#: A missing number may also be up to this many blanks, in a padded column.
MOST_BLANKS = 16
#: The bytes at the end of a block in which to look for filled fields first.
MOST_BLANK_BYTES = 1 << 12
#: Bytes examined at once: they fit into a processor's cache.
WINDOW_BYTES = 1 << 16
REPEATED = (
    " repeats the header: the file was put together from several; take the line out. If line 1 holds values, add a "
    "line with the names of the columns above it."
)


def _list_null_texts(missing: Sequence[str], blanks: bool = True) -> list[str]:
    """Returns the texts for a missing value, with and without blanks around them: Arrow strips numbers but not these.

    Args:
        blanks: Whether the data has blanks; without them fewer texts are compared with each value.
    """
    texts = [*NULLS, *missing]
    if not blanks:
        return texts
    padded = [padded for text in texts if text for padded in (f" {text}", f"{text} ", f" {text} ")]
    return [*texts, *padded, *(" " * count for count in range(1, MOST_BLANKS + 1))]


@dataclass(frozen=True)
class Delimited:
    """The layout of the records in a CSV file."""

    columns: tuple[str, ...]
    separator: str = ","
    quote: str = '"'
    decimal: str = "."
    #: Texts that mean a missing value, in columns that are not text.
    missing: tuple[str, ...] = ()

    doubt = "is a quote never closed?"

    def last_end(self, block: bytes) -> int:
        return records.find_last_end(block, self.quote, self.separator)

    def is_open(self, text: bytes) -> bool:
        return records.is_open(text, self.quote, self.separator)

    def count(self, data: bytes) -> int:
        """Counts the records that end in a line end; an upper bound if there are blank lines or lone CRs."""
        return records.count(data, self.quote, self.separator)

    def find_filled_end(self, data: bytes) -> int:
        """Returns where the records with at least one filled field end; 0 if all fields are empty.

        Spreadsheets may export thousands of emptied rows below the data as lines of separators.
        """
        marks = f"{self.separator}\r\n".encode()
        if len(self.columns) == 1 or data[-1:] not in (b"\n", self.separator.encode()):
            return len(data)
        # Most blocks end in a value, so the whole block is stripped only if its last bytes are all marks.
        end = data[-MOST_BLANK_BYTES:].rstrip(marks)
        known = len(data) - len(data[-MOST_BLANK_BYTES:]) + len(end) if end else len(data.rstrip(marks))
        return data.find(b"\n", known) + 1 or len(data) if known else 0

    def line(self, data: bytes, record: int) -> int:
        """Returns the number of lines before a non-blank record; -1 - COUNT if there are only COUNT records."""
        number = -1
        for number, line in enumerate(self._lines(data)):
            if number == record:
                return line
        return -2 - number

    def _quote_in(self, data: bytes) -> str:
        """The quote, if the data has one."""
        return self.quote if self.quote and self.quote.encode() in data else ""

    def _lines(self, data: bytes) -> Iterator[int]:
        if self._quote_in(data):
            return (line for _, line in records.read_records(data, self.separator, self.quote))
        return _number_lines(data)

    def read(self, data: bytes, fields: Sequence[Field]) -> pa.Table:
        """Reads the fields of all records. Raises pa.ArrowInvalid with the number of the record, or Mistake."""
        table = self._read(data, {field.name: choose_memory_type(field.type) for field in fields})
        self._check_text(data)
        self._check_quotes(data)
        self._check_header(data, table)
        self._check_integers(data, [field for field in fields if pa.types.is_integer(field.type)])
        return table

    def _read(self, data: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
        quote = self._quote_in(data)  # looking for one takes a third longer
        return pyarrow.csv.read_csv(
            pa.BufferReader(data),
            # In one thread: only so do errors carry the record.
            pyarrow.csv.ReadOptions(column_names=self.columns, use_threads=False, block_size=len(data) + 1),
            pyarrow.csv.ParseOptions(
                delimiter=self.separator, quote_char=quote or False, newlines_in_values=bool(quote)
            ),
            pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                include_missing_columns=True,  # those that the header may lack: it was checked
                decimal_point=self.decimal,
                null_values=_list_null_texts(self.missing, b" " in data),
            ),
        )

    def _check_text(self, data: bytes) -> None:
        if (at := data.find(b"\0")) >= 0:
            record = -1 - self.line(data[: self.last_end(data[:at])], len(data))
            raise Mistake(record, " has a NUL byte: the file is damaged.")

    def _check_quotes(self, data: bytes) -> None:
        """Raises Mistake for a quote behind a backslash: Arrow would read the rest of the field as unquoted text."""
        if not self._quote_in(data) or f"\\{self.quote}".encode() not in data:
            return
        ends = (*f"{self.separator}{self.quote}\r\n".encode(), None)
        for at in records.find_closing_quotes(data, self.quote, self.separator):
            follows = data[at + 1] if at + 1 < len(data) else None
            if data[at - 1 : at] == b"\\" and follows not in ends:
                record = -1 - self.line(data[: self.last_end(data[:at])], len(data))
                twice = self.quote * 2
                raise Mistake(record, f" has a quote behind a backslash: within quotes it is written twice ({twice}).")

    def _check_header(self, data: bytes, table: pa.Table) -> None:
        """Raises Mistake for a row that repeats the header, which type errors do not reveal if all columns are text."""
        if len(self.columns) == 1 or any(kind != TEXT for kind in table.schema.types) or not table.num_rows:
            return
        alike = reduce(pc.and_, (pc.equal(table[name].cast(pa.string()), name) for name in table.column_names))
        if pc.any(alike).as_py():
            rows = (fields for fields, _ in records.read_records(data, self.separator, self.quote))
            if (record := next((i for i, fields in enumerate(rows) if tuple(fields) == self.columns), -1)) >= 0:
                raise Mistake(record, REPEATED)

    def _check_integers(self, data: bytes, fields: Sequence[Field]) -> None:
        """Raises Mistake for a hexadecimal number, which Arrow would read as an integer: 0x1F as 31."""
        if not fields or not _has_hexadecimal(data):
            return
        table = self._read(data, {field.name: pa.string() for field in fields})
        for field in fields:
            record = pc.index(pc.match_substring_regex(table[field.name], r"^\s*-?0[xX]"), True).as_py()
            if record >= 0:
                value = quote(table[field.name][record].as_py())
                raise Mistake(record, f", column {join_names([field.name])}: {value} is not of type {field.type}.")

    def mistake(self, data: bytes, message: str, last: bool, fields: Sequence[Field]) -> Mistake:
        """Translates an error of Arrow about a block into a mistake in the file.

        Args:
            last: Whether the block is the last one of its file.
        """
        row = re.search(r"Row #(\d+): ", message)
        record = int(row[1]) - 1 if row else 0
        reason = message[row.end() :] if row else message
        if width := re.match(r"Expected (\d+) columns, got (\d+)", reason):
            count = f"{width[2]} field{'s' * (width[2] != '1')}"
            text = f" has {count} where the header has {width[1]}: {quote(reason.partition(': ')[2])}."
            if self.quote and f"\\{self.quote}" in reason:
                text += f" Within quotes a quote is written twice ({self.quote * 2}), not behind a backslash."
            if int(width[1]) == 1:
                text += " The first line must name the columns: remove a title or comment above it."
            cut_off = last and int(width[2]) < int(width[1]) and self.line(data, record + 1) < 0
            return Mistake(record, text + " The file seems to be cut off there." * cut_off)
        if self._fields(data, record) == self.columns:
            return Mistake(record, REPEATED)
        column = re.match(r"In CSV column #(\d+)", message)
        if column and reason.startswith("Rescaling Decimal"):  # the one reason without the value
            value = self._fields(data, record)[int(column[1])]
            reason = f"{quote(value)} has more decimals than its type, and none is rounded."
        name = f", column {join_names([self.columns[int(column[1])]])}" if column else ""
        text = f"{name}: {self._explain_reason(data, record, reason)}"
        field = next((field for field in fields if column and field.name == self.columns[int(column[1])]), None)
        if column and field and (field.declared or "zone offset" not in reason):
            text += format_advice(self._fields(data, record)[int(column[1])], field)
        return Mistake(record, text)

    def _fields(self, data: bytes, record: int) -> tuple[str, ...]:
        rows = (tuple(fields) for fields, _ in records.read_records(data, self.separator, self.quote))
        return next(islice(rows, record, None), ())

    def _explain_reason(self, data: bytes, record: int, reason: str) -> str:
        if value := re.match(r"CSV conversion error to (.+?): invalid value '(.*)'", reason, re.DOTALL):
            hint = ""
            if self.decimal == "." and re.fullmatch(r"-?\d+,\d+", value[2]):
                hint = ' If its decimals follow a comma, give task_options={"decimal": ","}.'
            return f"{quote(value[2])} is not of type {value[1]}.{hint}"
        if value := re.match(r"CSV conversion error to (.+?): expected (a|no) zone offset in '(.*?)'", reason):
            has, other = ("no", 'pa.timestamp("us")') if value[2] == "a" else ("a", 'pa.timestamp("us", tz="UTC")')
            seen = f"{quote(value[3])} has {has} zone (as Z or +01:00)"
            return f"{seen}, but the column is declared as {value[1]}: declare {other}."
        if "UTF8" in reason:
            try:
                data.decode()
            except UnicodeDecodeError as error:
                return f"the text is not UTF-8{suggest_windows(data, error.start)}"
        return reason[:300]


def _number_lines(data: bytes) -> Iterator[int]:
    """Yields the line number, from 0, of each non-blank line; a file may have hundreds of millions of blank ones."""
    line = end = 0
    for text in re.finditer(rb"[^\r\n]+", data) if data.strip(b"\r\n") else ():
        between = data[end : text.start()]
        line += between.count(b"\n") + between.count(b"\r") - between.count(b"\r\n")
        yield line
        end = text.end()


def _has_hexadecimal(data: bytes) -> bool:
    """Whether a word begins with 0x. Uses numpy, because `re` would take as long as reading all fields."""
    text = np.frombuffer(data, np.uint8)
    for start in range(1, len(data), WINDOW_BYTES):
        letters = start + np.flatnonzero((text[start : start + WINDOW_BYTES] | 0x20) == ord("x"))
        zeros = letters[text[letters - 1] == ord("0")] - 1
        if any(re.compile(rb"\b0").match(data, at) for at in zeros.tolist()):
            return True
    return False
