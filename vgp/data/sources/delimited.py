"""CSV text: blocks of whole records as typed columns, and what is wrong with one that cannot be read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from vgp.base.text.printable import listed, quoted
from vgp.data.schema import Field
from vgp.data.sources import records
from vgp.data.sources.records import in_windows
from vgp.data.sources.values import TEXT, Mistake, advice, held

#: What Arrow takes for a missing number unless it is told otherwise.
NULLS = tuple(pyarrow.csv.ConvertOptions().null_values)
#: A missing number may also be so many blanks, as where a column was padded.
MOST_BLANKS = 16
#: The end of a block that is looked at for fields that are filled in.
MOST_BLANK_BYTES = 1 << 12
#: Looked at together: what stays in a processor's cache.
WINDOW_BYTES = 1 << 16
REPEATED = " repeats the header: the file was put together from several; take the line out."


def _nulls(missing: Sequence[str], blanks: bool = True) -> list[str]:
    """What stands for a missing value, also with a blank beside it: Arrow strips numbers, but not these.

    Args:
        blanks: Whether there is a blank: every text more is one that each value is compared with.
    """
    texts = [*NULLS, *missing]
    if not blanks:
        return texts
    padded = [padded for text in texts if text for padded in (f" {text}", f"{text} ", f" {text} ")]
    return [*texts, *padded, *(" " * count for count in range(1, MOST_BLANKS + 1))]


@dataclass(frozen=True)
class Delimited:
    """How the records of a CSV file are laid out."""

    columns: tuple[str, ...]
    separator: str = ","
    quote: str = '"'
    decimal: str = "."
    #: Texts that stand for a missing value of any type but text.
    missing: tuple[str, ...] = ()

    doubt = "is a quote never closed?"

    def last_end(self, block: bytes) -> int:
        return records.last_end(block, self.quote, self.separator)

    def is_open(self, text: bytes) -> bool:
        return records.is_open(text, self.quote, self.separator)

    def count(self, data: bytes) -> int:
        """Records that end in a line end; where blank lines or a CR alone are among them, that many or more."""
        return records.count(data, self.quote, self.separator)

    def filled(self, data: bytes) -> int:
        """Where the records end that have a field filled in: below them a sheet may have thousands of separators alone,
        for the rows that somebody once emptied. 0 if all are so."""
        marks = f"{self.separator}\r\n".encode()
        if len(self.columns) == 1 or data[-1:] not in (b"\n", self.separator.encode()):
            return len(data)
        # Most blocks end in a value: all of one is copied only where its last bytes do not tell.
        end = data[-MOST_BLANK_BYTES:].rstrip(marks)
        known = len(data) - len(data[-MOST_BLANK_BYTES:]) + len(end) if end else len(data.rstrip(marks))
        return data.find(b"\n", known) + 1 or len(data) if known else 0

    def line(self, data: bytes, record: int) -> int:
        """The lines before a record that is not blank; -1 - COUNT if there are only COUNT of them."""
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
            return (line for _, line in records.of(data, self.separator, self.quote))
        return _not_blank(data)

    def read(self, data: bytes, fields: Sequence[Field]) -> pa.Table:
        """Raises pa.ArrowInvalid, with the number of the record, or Mistake."""
        table = self._read(data, {field.name: held(field.type) for field in fields})
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
                null_values=_nulls(self.missing, b" " in data),
            ),
        )

    def _check_text(self, data: bytes) -> None:
        if (at := data.find(b"\0")) >= 0:
            record = -1 - self.line(data[: self.last_end(data[:at])], len(data))
            raise Mistake(record, " holds a NUL byte, which is no text: the file is damaged.")

    def _check_quotes(self, data: bytes) -> None:
        """Arrow would read what follows on a quote behind a backslash as if it stood outside of the field."""
        if not self._quote_in(data) or f"\\{self.quote}".encode() not in data:
            return
        ends = (*f"{self.separator}{self.quote}\r\n".encode(), None)
        for at in records.closing(data, self.quote, self.separator):
            follows = data[at + 1] if at + 1 < len(data) else None
            if data[at - 1 : at] == b"\\" and follows not in ends:
                record = -1 - self.line(data[: self.last_end(data[:at])], len(data))
                twice = self.quote * 2
                raise Mistake(record, f" has a quote behind a backslash: within quotes it is written twice ({twice}).")

    def _check_header(self, data: bytes, table: pa.Table) -> None:
        """Where all that is read is text, the header may occur as a row."""
        if len(self.columns) == 1 or any(kind != TEXT for kind in table.schema.types) or not table.num_rows:
            return
        alike = reduce(pc.and_, (pc.equal(table[name].cast(pa.string()), name) for name in table.column_names))
        if pc.any(alike).as_py():
            rows = (fields for fields, _ in records.of(data, self.separator, self.quote))
            if (record := next((i for i, fields in enumerate(rows) if tuple(fields) == self.columns), -1)) >= 0:
                raise Mistake(record, REPEATED)

    def _check_integers(self, data: bytes, fields: Sequence[Field]) -> None:
        """Arrow would read 0x1F as 31."""
        if not fields or not _has_hexadecimal(data):
            return
        table = self._read(data, {field.name: pa.string() for field in fields})
        for field in fields:
            record = pc.index(pc.match_substring_regex(table[field.name], r"^\s*-?0[xX]"), True).as_py()
            if record >= 0:
                value = quoted(table[field.name][record].as_py())
                raise Mistake(record, f", column {listed([field.name])}: {value} is not of type {field.type}.")

    def mistake(self, data: bytes, message: str, last: bool, fields: Sequence[Field]) -> Mistake:
        """What Arrow says of a block, in terms of the file.

        Args:
            last: Whether nothing follows on the block in its file.
        """
        row = re.search(r"Row #(\d+): ", message)
        record = int(row[1]) - 1 if row else 0
        reason = message[row.end() :] if row else message
        if width := re.match(r"Expected (\d+) columns, got (\d+)", reason):
            count = f"{width[2]} field{'s' * (width[2] != '1')}"
            says = f" has {count} where the header has {width[1]}: {quoted(reason.partition(': ')[2])}."
            if self.quote and f"\\{self.quote}" in reason:
                says += f" Within quotes a quote is written twice ({self.quote * 2}), not behind a backslash."
            cut_off = last and int(width[2]) < int(width[1]) and self.line(data, record + 1) < 0
            return Mistake(record, says + " The file seems to be cut off there." * cut_off)
        if self._fields(data, record) == self.columns:
            return Mistake(record, REPEATED)
        column = re.match(r"In CSV column #(\d+)", message)
        if column and reason.startswith("Rescaling Decimal"):  # the one reason without the value
            value = self._fields(data, record)[int(column[1])]
            reason = f"{quoted(value)} has more decimals than its type, and none is rounded."
        name = f", column {listed([self.columns[int(column[1])]])}" if column else ""
        says = f"{name}: {self._reason(data, record, reason)}"
        field = next((field for field in fields if column and field.name == self.columns[int(column[1])]), None)
        if column and field and (field.declared or "zone offset" not in reason):
            says += advice(self._fields(data, record)[int(column[1])], field)
        return Mistake(record, says)

    def _fields(self, data: bytes, record: int) -> tuple[str, ...]:
        rows = (tuple(fields) for fields, _ in records.of(data, self.separator, self.quote))
        return next(islice(rows, record, None), ())

    def _reason(self, data: bytes, record: int, reason: str) -> str:
        if value := re.match(r"CSV conversion error to (.+?): invalid value '(.*)'", reason, re.DOTALL):
            hint = ""
            if self.decimal == "." and re.fullmatch(r"-?\d+,\d+", value[2]):
                hint = ' If its decimals follow a comma, give task_options={"decimal": ","}.'
            return f"{quoted(value[2])} is not of type {value[1]}.{hint}"
        if value := re.match(r"CSV conversion error to (.+?): expected (a|no) zone offset in '(.*?)'", reason):
            has, other = ("no", 'pa.timestamp("us")') if value[2] == "a" else ("a", 'pa.timestamp("us", tz="UTC")')
            return f"{quoted(value[3])} has {has} zone (as Z or +01:00), and is to be {value[1]}: declare {other}."
        if "UTF8" in reason:
            try:
                data.decode()
            except UnicodeDecodeError as error:
                return f"the text is not UTF-8{in_windows(data, error.start)}"
        return reason[:300]


def _not_blank(data: bytes) -> Iterator[int]:
    """The lines before each one that is not blank; of those that are, a file may hold hundreds of millions."""
    line = end = 0
    for text in re.finditer(rb"[^\r\n]+", data) if data.strip(b"\r\n") else ():
        between = data[end : text.start()]
        line += between.count(b"\n") + between.count(b"\r") - between.count(b"\r\n")
        yield line
        end = text.end()


def _has_hexadecimal(data: bytes) -> bool:
    """Whether 0x begins a word; in numpy, as such a search in `re` takes as long as reading all fields."""
    text = np.frombuffer(data, np.uint8)
    for start in range(1, len(data), WINDOW_BYTES):
        letters = start + np.flatnonzero((text[start : start + WINDOW_BYTES] | 0x20) == ord("x"))
        zeros = letters[text[letters - 1] == ord("0")] - 1
        if any(re.compile(rb"\b0").match(data, at) for at in zeros.tolist()):
            return True
    return False
