"""A file of text in blocks of whole records, and their layout: as the options state it, or found in the first bytes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.text.printable import listed, quoted
from vgp.data.schema import Field
from vgp.data.sources import records
from vgp.data.sources.delimited import Delimited
from vgp.data.sources.json_lines import JsonLines, require_lines
from vgp.data.sources.opening import Opened, decoded
from vgp.data.sources.records import find_header_end, read_header
from vgp.data.sources.resolve import KINDS, Reading
from vgp.data.sources.values import Mistake

SAID = re.compile(rb'"?sep=[,;\t|]"?\r?\n')


class Layouts:
    """The layouts of CSV files. Equal headers are told once, since there may be thousands of files.

    Args:
        fields: The declared columns, all of them.
    """

    def __init__(self, fields: Sequence[Field], reading: Reading):
        self.fields, self.reading = fields, reading
        self.known: dict[tuple[str, bytes], Delimited] = {}
        #: What was found and is not usual, and in which files.
        self.unusual: dict[str, list[str]] = {}

    def of(self, name: str, suffix: str, head: bytes, rest: Iterator[bytes]) -> tuple[Delimited, int, bytes]:
        """The layout of a text, the bytes of its header, and its first bytes: more of them if these were too few.

        Args:
            suffix: The ending of the file's name, which promises a separator.
            head: The first bytes; `rest` gives those that follow.

        Raises:
            UserError: the header names no columns, lacks one, or can be understood in two ways.
        """
        usual = "\t" if suffix.startswith(".tsv") else ","
        if said := SAID.match(head):  # as Excel writes it above the header
            below = self.of(name, suffix, head[said.end() :], rest)
            return below[0], below[1] + said.end(), head[: said.end()] + below[2]
        end = head.find(b"\n") + 1
        layout = self.known.get((usual, head[:end]))
        if layout is None:
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

    def encoded(self, name: str, encoding: str) -> None:
        """Notes an encoding that was found."""
        if encoding != "utf-8":
            self.unusual.setdefault(f"text is {encoding}", []).append(name)

    def left_out(self, name: str) -> None:
        """Notes rows at the end of a file that have no field filled in."""
        self.unusual.setdefault("rows at its end have no field filled in, and are left out", []).append(name)

    def notes(self) -> tuple[str, ...]:
        """What was found and is not usual, one sentence each. A path is told whole: its end says which file it is."""
        return tuple(
            f"{first if first.isprintable() else repr(first)}{f' and {len(more):,} more' if more else ''}: {what}."
            for what, (first, *more) in self.unusual.items()
        )

    def _note(self, name: str, usual: str, layout: Delimited) -> None:
        if layout.separator not in (usual, self.reading.separator):
            self.unusual.setdefault(f"fields are separated by {quoted(layout.separator)}", []).append(name)
        if layout.quote not in ('"', "") and not self.reading.quote:
            self.unusual.setdefault(f"fields are quoted by {quoted(layout.quote)}", []).append(name)
        if layout.decimal != "." and not self.reading.decimal:
            self.unusual.setdefault("decimals follow a comma", []).append(name)


# ---- which mark the decimals of a CSV file follow: told by its first numbers


SAMPLE_BYTES = 8 << 10
WITH_COMMA = re.compile(r"[+-]?\d+,\d+")
WITH_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
WITH_POINT = re.compile(r"[+-]?\d*\.\d+")


def decimal_mark(name: str, text: bytes, layout: Delimited, fields: Sequence[Field]) -> str:
    """The decimal mark of a text that begins so, behind its header.

    Raises:
        UserError: a comma may also part thousands.
    """
    text = text[:SAMPLE_BYTES]
    broken = [field.name for field in fields if pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)]
    if not broken or not _may_have_commas(text, layout):
        return "."
    shown = dict(_numbers(text, layout, broken))
    commas = [value for value in shown if WITH_COMMA.fullmatch(value)]
    if not commas or any(WITH_POINT.fullmatch(value) for value in shown):
        return "."
    if all(WITH_THOUSANDS.fullmatch(value) for value in commas):
        whole, parted = commas[0].replace(",", ""), commas[0].replace(",", ".", 1)
        raise UserError(
            f"{name}, column {listed([shown[commas[0]]])}: {quoted(commas[0])} may be {whole} or {parted}. For the "
            'latter give task_options={"decimal": ","}; for the former write thousands without a comma.'
        )
    return ","


def _may_have_commas(text: bytes, layout: Delimited) -> bool:
    """Whether a field may be such a number. Between commas it stands in quotes; of thousands of files that have other
    quotes, none is then parted into fields for it."""
    quote = re.escape(layout.quote.encode())
    if layout.separator != ",":
        return re.search(rb"\d,\d", text) is not None
    return bool(quote) and re.search(quote + rb"\s*[+-]?\d+,\d+\s*" + quote, text) is not None


def _numbers(text: bytes, layout: Delimited, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is written in the columns, and in which one."""
    places = {layout.columns.index(name): name for name in columns}
    for row, _ in records.of(text[: layout.last_end(text)] or text, layout.separator, layout.quote):
        yield from ((row[place].strip(), name) for place, name in places.items() if place < len(row))


#: No real record is longer: somewhere a quote is not closed.
MAX_RECORD_BYTES = 64 << 20
JSON = JsonLines()


class Layout(Protocol):
    """How the records of a text are laid out; equal ones can be read together."""

    @property
    def doubt(self) -> str:
        """What a record that does not end makes one ask."""

    def last_end(self, block: bytes) -> int:
        """Where the last whole record of a block ends that begins with one; 0 if none does."""

    def is_open(self, text: bytes) -> bool:
        """Whether the text, from the start of a record, ends where no record can."""

    def count(self, data: bytes) -> int:
        """How many records there are, each with its line end; or more, if there are blank lines."""

    def line(self, data: bytes, record: int) -> int:
        """The lines before a record that is not blank; -1 - COUNT if there are only COUNT of them."""

    def filled(self, data: bytes) -> int:
        """Where the records end that have a field filled in, before those at the end that have none; 0 if all have
        none."""

    def read(self, data: bytes, fields: Sequence[Field]) -> pa.Table:
        """The fields of all records. Raises Mistake or pa.ArrowInvalid."""

    def mistake(self, data: bytes, message: str, last: bool, fields: Sequence[Field]) -> Mistake:
        """What Arrow's message means; `last` says whether the file ends with the data."""


@dataclass(frozen=True)
class Block:
    """Whole records of one file, in UTF-8.

    Args:
        file: The position of the file.
        lines: Those before the first block of the file; 0 where a block came before.
        last: Whether the file ends with it.
    """

    file: int
    data: bytes
    layout: Layout
    lines: int
    last: bool

    @property
    def size(self) -> int:
        return len(self.data)

    def ended(self) -> bytes:
        """The records, the last one with a line end too."""
        return self.data if self.data.endswith(b"\n") else self.data + b"\n"


def of(number: int, opened: Opened, layouts: Layouts) -> Iterator[Block]:
    """The blocks of one file of text.

    Raises:
        UserError: it is no table, or not of the declared columns.
        Mistake: the record after those of all blocks does not end, or is too long.
    """
    kind = KINDS[opened.suffix]
    encoded, texts = decoded(opened.blocks(), opened.name, layouts.reading.encoding)
    if not layouts.reading.encoding:
        layouts.encoded(opened.name, encoded)
    head, end = next(texts, b""), 0
    layout: Layout = JSON
    if kind == "json":
        require_lines(opened.name, head)
    else:
        layout, end, head = layouts.of(opened.name, opened.suffix, head, texts)
    lines, texts = head.count(b"\n", 0, end), chain([head[end:]], texts)
    held = None
    try:
        for data in _whole(texts, layout):
            if held is not None and len(held) < MAX_RECORD_BYTES and not layout.filled(data):
                held += data  # if nothing follows it is left out
                continue
            if held is not None:
                yield Block(number, held, layout, lines, last=False)
                lines = 0
            held = data
    except Mistake as mistake:
        yield Block(number, held or b"", layout, lines, last=False)
        raise mistake.after(0, number) from None
    if held is not None:
        end = layout.filled(held)
        if held[end:].strip(b"\r\n"):
            layouts.left_out(opened.name)
        yield Block(number, held[:end], layout, lines, last=True)


def _whole(texts: Iterator[bytes], layout: Layout) -> Iterator[bytes]:
    """Whole records. Raises Mistake, of the record after all of these, for one that does not end."""
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
