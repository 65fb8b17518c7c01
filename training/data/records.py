"""Records of CSV text: where they end, what the first one says, and on which line one of them starts."""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from training.errors import UserError
from training.printable import listed, quoted

UTF8_BOM = b"\xef\xbb\xbf"
#: Tables of 100,000 columns have a header of a megabyte.
MAX_HEADER_BYTES = 16 << 20
MAX_NAME_LETTERS = 10_000
#: Looked at together, from the end of a block.
WINDOW_BYTES = 1 << 16


def last_end(block: bytes) -> int:
    """Where the last whole record ends; 0 if none does. A line break between quotes ends no record."""
    quotes, end = block.count(b'"'), len(block)
    while end:
        start = max(0, end - WINDOW_BYTES)
        quotes -= block.count(b'"', start, end)
        if len(ends := _ends(block[start:end], quotes)):
            return start + int(ends[-1])
        end = start
    return 0


def header(name: str, stream: BinaryIO) -> tuple[tuple[str, ...], int, int]:
    """The names of the columns, the lines that they take, and the byte at which the rows begin.

    Raises:
        UserError: the first record names no columns, or names one twice; or is no text, or does not end.
    """
    text = _first_record(name, stream)
    return _names(name, text.removeprefix(UTF8_BOM)), text.count(b"\n"), len(text)


def of(data: bytes) -> Iterator[tuple[list[str], int]]:
    """Each record that is not blank: its fields, and the lines before it."""
    csv.field_size_limit(1 << 30)  # by default 128 kB, for the whole process
    reader = csv.reader(io.StringIO(data.decode(errors="replace"), newline=""))
    line = 0
    for fields in reader:
        if fields:
            yield fields, line
        line = reader.line_num


def _first_record(name: str, stream: BinaryIO) -> bytes:
    text, size = b"", 1 << 16
    while True:
        block = stream.read(size)
        text += block
        ends = _ends(text)
        if len(ends) or len(text) > MAX_HEADER_BYTES or not block:
            break
        size = len(text)
    if not len(ends):
        _require_end(name, text)
    record = text[: int(ends[0])] if len(ends) else text
    if len(record) > MAX_HEADER_BYTES:
        raise UserError(f"{name}, line 1: the names of the columns are longer than {MAX_HEADER_BYTES >> 20} MiB.")
    return record


def _require_end(name: str, text: bytes) -> None:
    """Raises UserError if text without the end of a record is more than a last line."""
    if b"\r" in text and b"\n" not in text:
        raise UserError(_old_mac(name))
    if text.count(b'"') % 2:
        raise UserError(f"{name}, line 1: a quote in the names of the columns is never closed.")


def _names(name: str, text: bytes) -> tuple[str, ...]:
    try:
        written = text.decode()
    except UnicodeDecodeError:
        hint = " It looks like UTF-16: save it as UTF-8." if text[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise UserError(f"{name} is not UTF-8 text.{hint}") from None
    if "\0" in written:
        raise UserError(f"{name} holds NUL bytes: it is UTF-16 (save it as UTF-8), or no text at all.")
    csv.field_size_limit(1 << 30)
    try:
        columns = next(csv.reader([written]), [])
    except csv.Error:  # a CR outside of quotes
        raise UserError(_old_mac(name)) from None
    if not any(column.strip() for column in columns):
        raise UserError(f"{name} is empty: the first line must name the columns.")
    _check_names(name, columns)
    return tuple(columns)


def _check_names(name: str, columns: list[str]) -> None:
    longest = max(columns, key=len)
    if len(longest) > MAX_NAME_LETTERS:
        raise UserError(f"{name}, line 1: the name of the column {quoted(longest)} is too long.")
    repeated = sorted(column for column, count in Counter(columns).items() if count > 1)
    if repeated:
        what = f"column {listed(repeated)} occurs" if len(repeated) == 1 else f"columns {listed(repeated)} occur"
        raise UserError(f"{name}, line 1: the {what} twice.")


def _ends(block: bytes, quotes_before: int = 0) -> np.ndarray:
    """Where records end in a part of a file, int64 (records,)."""
    characters = np.frombuffer(block, np.uint8)
    newlines = np.flatnonzero(characters == ord("\n"))
    quotes = np.flatnonzero(characters == ord('"'))
    return np.asarray(newlines[(quotes_before + np.searchsorted(quotes, newlines)) % 2 == 0] + 1)


def _old_mac(name: str) -> str:
    return (
        f"{name} ends its lines with CR alone, as Excel for Mac does in 'CSV (Macintosh)': save it as 'CSV UTF-8', "
        "or convert it: tr '\\r' '\\n' < OLD > NEW."
    )
