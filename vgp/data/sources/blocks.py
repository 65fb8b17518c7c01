"""A file of text in blocks of whole records, with how these are laid out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import pyarrow as pa

from vgp.data.schema import Field
from vgp.data.sources import encoding
from vgp.data.sources.json_lines import JsonLines, require_lines
from vgp.data.sources.layouts import Layouts
from vgp.data.sources.opening import Opened
from vgp.data.sources.reading import Mistake
from vgp.data.sources.resolve import KINDS

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
    encoded, texts = encoding.decoded(opened.blocks(), opened.name, layouts.reading.encoding)
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
