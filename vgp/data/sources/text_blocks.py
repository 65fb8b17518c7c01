"""Cuts a text file into blocks of whole records, and finds its layout in the options or in the first bytes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names, quote
from vgp.data.schema import Field
from vgp.data.sources import records
from vgp.data.sources.data_files import KINDS, Reading
from vgp.data.sources.delimited import Delimited
from vgp.data.sources.file_bytes import OpenedFile, decode_text
from vgp.data.sources.json_lines import JsonLines, require_lines
from vgp.data.sources.records import find_header_end, read_header
from vgp.data.sources.values import Mistake

SEPARATOR_LINE = re.compile(rb'"?sep=[,;\t|]"?\r?\n')


class Layouts:
    """The layouts of CSV files, cached by their headers because there may be thousands of files.

    Args:
        fields: The declared columns, all of them.
    """

    def __init__(self, fields: Sequence[Field], reading: Reading):
        self.fields, self.reading = fields, reading
        self.known: dict[tuple[str, bytes], Delimited] = {}
        #: Unusual things, and the files that have them.
        self.unusual: dict[str, list[str]] = {}

    def of(self, name: str, suffix: str, head: bytes, rest: Iterator[bytes]) -> tuple[Delimited, int, bytes]:
        """Returns the layout of a text, the length of its header in bytes, and the head, extended if it was too short.

        Args:
            suffix: The ending of the file's name, which implies the usual separator.
            head: The first bytes; `rest` yields the following ones.

        Raises:
            UserError: the header is empty, lacks a column, or is ambiguous.
        """
        usual = "\t" if suffix.startswith(".tsv") else ","
        if separator_line := SEPARATOR_LINE.match(head):  # Excel writes it above the header
            layout, end, below = self.of(name, suffix, head[separator_line.end() :], rest)
            return layout, end + separator_line.end(), head[: separator_line.end()] + below
        end = head.find(b"\n") + 1
        if (usual, head[:end]) in self.known:
            layout = self.known[usual, head[:end]]
        else:
            end, head = find_header_end(name, head, rest, self.reading.quote or '"')
            columns = read_header(name, head[:end], self.fields, self.reading, usual)
            layout = Delimited(*columns, missing=self.reading.missing)
            if end == head.find(b"\n") + 1:
                self.known[usual, head[:end]] = layout
        decimal = self.reading.decimal or decimal_mark(name, head[end:], layout, self.fields)
        if decimal != layout.decimal:
            layout = replace(layout, decimal=decimal)
        self._note(name, usual, layout)
        return layout, end, head

    def note_encoding(self, name: str, encoding: str) -> None:
        """Notes a detected encoding other than UTF-8."""
        if encoding != "utf-8":
            self.unusual.setdefault(f"text is {encoding}", []).append(name)

    def note_empty_rows(self, name: str) -> None:
        """Notes empty rows at the end of a file."""
        self.unusual.setdefault("rows at its end have no field filled in, and are left out", []).append(name)

    def notes(self) -> tuple[str, ...]:
        """Returns one sentence for each unusual thing, with the full path of the first file."""
        return tuple(
            f"{first if first.isprintable() else repr(first)}{f' and {len(more):,} more' if more else ''}: {what}."
            for what, (first, *more) in self.unusual.items()
        )

    def _note(self, name: str, usual: str, layout: Delimited) -> None:
        if layout.separator not in (usual, self.reading.separator):
            self.unusual.setdefault(f"fields are separated by {quote(layout.separator)}", []).append(name)
        if layout.quote not in ('"', "") and not self.reading.quote:
            self.unusual.setdefault(f"fields are quoted by {quote(layout.quote)}", []).append(name)
        if layout.decimal != "." and not self.reading.decimal:
            self.unusual.setdefault("decimals follow a comma", []).append(name)


# ---- the decimal mark of a CSV file, from its first numbers


SAMPLE_BYTES = 8 << 10
WITH_COMMA = re.compile(r"[+-]?\d+,\d+")
WITH_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
WITH_POINT = re.compile(r"[+-]?\d*\.\d+")


def decimal_mark(name: str, text: bytes, layout: Delimited, fields: Sequence[Field]) -> str:
    """Returns the decimal mark of a text, from its first bytes after the header.

    Raises:
        UserError: the commas may also separate thousands.
    """
    text = text[:SAMPLE_BYTES]
    broken = [field.name for field in fields if pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)]
    if not broken or not _may_have_commas(text, layout):
        return "."
    shown = dict(_list_numbers(text, layout, broken))
    commas = [value for value in shown if WITH_COMMA.fullmatch(value)]
    if not commas or any(WITH_POINT.fullmatch(value) for value in shown):
        return "."
    if all(WITH_THOUSANDS.fullmatch(value) for value in commas):
        whole, parted = commas[0].replace(",", ""), commas[0].replace(",", ".", 1)
        raise UserError(
            f"{name}, column {join_names([shown[commas[0]]])}: {quote(commas[0])} may be {whole} or {parted}. For the "
            'latter give task_options={"decimal": ","}; for the former write thousands without a comma.'
        )
    return ","


def _may_have_commas(text: bytes, layout: Delimited) -> bool:
    """Whether a number may have a comma, by a quick search; in a file separated by commas such a number is quoted."""
    quote = re.escape(layout.quote.encode())
    if layout.separator != ",":
        return re.search(rb"\d,\d", text) is not None
    return bool(quote) and re.search(quote + rb"\s*[+-]?\d+,\d+\s*" + quote, text) is not None


def _list_numbers(text: bytes, layout: Delimited, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the texts in the columns, with the names of the columns."""
    places = {layout.columns.index(name): name for name in columns}
    for row, _ in records.read_records(text[: layout.last_end(text)] or text, layout.separator, layout.quote):
        yield from ((row[place].strip(), name) for place, name in places.items() if place < len(row))


#: A longer record means that a quote is never closed.
MAX_RECORD_BYTES = 64 << 20
JSON = JsonLines()


class Layout(Protocol):
    """The layout of the records in a text. Texts with equal layouts can be read together."""

    @property
    def doubt(self) -> str:
        """A question that helps to fix a record that does not end."""

    def last_end(self, block: bytes) -> int:
        """Returns where the last whole record ends in a block that begins with a record; 0 if none ends."""

    def is_open(self, text: bytes) -> bool:
        """Whether a text that starts with a record ends inside a quoted field."""

    def count(self, data: bytes) -> int:
        """Counts the records that end in a line end; an upper bound if there are blank lines."""

    def line(self, data: bytes, record: int) -> int:
        """Returns the number of lines before a non-blank record; -1 - COUNT if there are only COUNT records."""

    def find_filled_end(self, data: bytes) -> int:
        """Returns where the records with at least one filled field end; 0 if all fields are empty."""

    def read(self, data: bytes, fields: Sequence[Field]) -> pa.Table:
        """Reads the fields of all records. Raises Mistake or pa.ArrowInvalid."""

    def mistake(self, data: bytes, message: str, last: bool, fields: Sequence[Field]) -> Mistake:
        """Translates an error of Arrow; `last` is whether the file ends with the data."""


@dataclass(frozen=True)
class Block:
    """Whole records of one file, in UTF-8.

    Args:
        file: The index of the file.
        lines: The lines before the first block of the file; 0 for later blocks.
        last: Whether the file ends with the block.
    """

    file: int
    data: bytes
    layout: Layout
    lines: int
    last: bool

    @property
    def size(self) -> int:
        return len(self.data)

    def with_line_end(self) -> bytes:
        """Returns the records with a line end after the last one."""
        return self.data if self.data.endswith(b"\n") else self.data + b"\n"


def read_blocks(number: int, opened: OpenedFile, layouts: Layouts) -> Iterator[Block]:
    """Yields the blocks of one text file.

    Raises:
        UserError: the file is not a table, or lacks declared columns.
        Mistake: the record after the last block does not end, or is too long.
    """
    kind = KINDS[opened.suffix]
    encoded, texts = decode_text(opened.blocks(), opened.name, layouts.reading.encoding)
    if not layouts.reading.encoding:
        layouts.note_encoding(opened.name, encoded)
    head, end = next(texts, b""), 0
    layout: Layout = JSON
    if kind == "json":
        require_lines(opened.name, head)
    else:
        layout, end, head = layouts.of(opened.name, opened.suffix, head, texts)
    lines, texts = head.count(b"\n", 0, end), chain([head[end:]], texts)
    held = None
    try:
        for data in _cut_whole_records(texts, layout):
            if held is not None and len(held) < MAX_RECORD_BYTES and not layout.find_filled_end(data):
                held += data  # empty rows, dropped if the file ends with them
                continue
            if held is not None:
                yield Block(number, held, layout, lines, last=False)
                lines = 0
            held = data
    except Mistake as mistake:
        yield Block(number, held or b"", layout, lines, last=False)
        raise mistake.after(0, number) from None
    if held is not None:
        end = layout.find_filled_end(held)
        if held[end:].strip(b"\r\n"):
            layouts.note_empty_rows(opened.name)
        yield Block(number, held[:end], layout, lines, last=True)


def _cut_whole_records(texts: Iterator[bytes], layout: Layout) -> Iterator[bytes]:
    """Yields blocks of whole records. Raises Mistake for a record that does not end, positioned after all blocks."""
    rest = b""
    for text in texts:
        block = rest + text if rest else text
        end = layout.last_end(block)
        rest = block[end:]
        if end:
            yield block[:end] if rest else block
        elif len(rest) > MAX_RECORD_BYTES:
            raise Mistake(0, f": a record of more than {MAX_RECORD_BYTES >> 20} MB; {layout.doubt}")
    if layout.is_open(rest):
        raise Mistake(0, ": the file ends inside a quoted field: it is cut off, or a quote is never closed.")
    if rest:
        yield rest
