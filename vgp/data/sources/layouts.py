"""How the records of each CSV file are laid out: as it was said, or found in its first bytes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.text.printable import listed, quoted
from vgp.data.schema import Field
from vgp.data.sources import header, records
from vgp.data.sources.delimited import Delimited
from vgp.data.sources.reading import Reading

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
            end, head = header.end(name, head, rest, self.reading.quote or '"')
            columns = header.columns(name, head[:end], self.fields, self.reading, usual)
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
