"""Finds the ends of CSV records, their line numbers, and the header.

As in RFC 4180 and in Arrow's reader, a quote opens a field only at the start of the field: the inches in `5" pipe` are
an ordinary character. If all quotes are at the edges of fields they are counted, otherwise examined one by one.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names, quote
from vgp.data import schema
from vgp.data.schema import Field
from vgp.data.sources.data_files import NO_QUOTE, Reading

#: Separators to try if the options give none.
SEPARATORS = ",;\t|"
#: Bytes examined at once, from the end of a block.
WINDOW_BYTES = 1 << 16

Positions = NDArray[np.int64]


def find_last_end(block: bytes, quote: str = '"', separators: str = SEPARATORS) -> int:
    """Returns where the last whole record ends in a block that begins with a record; 0 if none ends."""
    if not quote or quote.encode() not in block:
        return block.rfind(b"\n") + 1
    edges, end = _find_edges(block, quote, separators), len(block)
    while end:
        before = int(np.searchsorted(edges, end))
        if before % 2:  # inside quotes: continue before the opening quote
            end = int(edges[before - 1])
            continue
        start = max(0, end - WINDOW_BYTES)
        newlines = start + np.flatnonzero(np.frombuffer(block, np.uint8, end - start, start) == ord("\n"))
        if len(ends := newlines[np.searchsorted(edges, newlines) % 2 == 0]):
            return int(ends[-1]) + 1
        end = start
    return 0


def find_first_end(block: bytes, quote: str = '"', separators: str = SEPARATORS) -> int:
    """Returns where the first record ends; 0 if it does not."""
    edges = _find_edges(block, quote, separators)
    end = block.find(b"\n")
    while end >= 0:
        before = int(np.searchsorted(edges, end))
        if before % 2 == 0:
            return end + 1
        if before == len(edges):
            break
        end = block.find(b"\n", int(edges[before]))
    return 0


def count(block: bytes, quote: str = '"', separators: str = SEPARATORS) -> int:
    """Counts the records that end in a block, including blank lines."""
    if not quote or quote.encode() not in block:
        return block.count(b"\n")
    newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    return int(np.count_nonzero(np.searchsorted(_find_edges(block, quote, separators), newlines) % 2 == 0))


def is_open(text: bytes, quote: str = '"', separators: str = SEPARATORS) -> bool:
    """Whether a text that starts with a record ends inside a quoted field."""
    return len(_find_edges(text, quote, separators)) % 2 == 1


def find_closing_quotes(text: bytes, quote: str, separators: str) -> list[int]:
    """Returns the positions of closing quotes; the first of a doubled quote may be among them."""
    return list(_find_edges(text, quote, separators)[1::2].tolist())


def read_records(data: bytes, separator: str = ",", quote: str = '"') -> Iterator[tuple[list[str], int]]:
    """Yields the fields of each non-blank record, and the number of lines before it."""
    csv.field_size_limit(1 << 30)  # by default 128 kB, for the whole process
    text = io.StringIO(data.decode(errors="replace"), newline="")
    reader = csv.reader(text, **dialect(separator, quote))
    line = 0
    for fields in reader:
        if fields:
            yield fields, line
        line = reader.line_num


def dialect(separator: str, quote: str) -> Any:
    """Returns the options of `csv.reader`."""
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    return {"delimiter": separator, "quotechar": quote or None, "quoting": quoting}


def _find_edges(block: bytes, quote: str, separators: str) -> Positions:
    """Returns the positions where quoted fields begin and end, alternately; a doubled quote may end and begin one."""
    if not quote or quote.encode() not in block:
        return np.zeros(0, np.int64)
    characters = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(characters == ord(quote))
    edge = np.zeros(256, bool)
    edge[np.frombuffer(f"{separators}\r\n".encode(), np.uint8)] = True
    starts = (quotes == 0) | edge[characters[quotes - 1]]
    doubled = np.append(False, np.diff(quotes) == 1)
    if (starts | doubled)[::2].all():
        return quotes
    return _alternate_edges(quotes.tolist(), starts.tolist())


def _alternate_edges(quotes: list[int], starts: list[bool]) -> Positions:
    edges: list[int] = []
    inside, skip = False, -1
    for place, (mark, start) in enumerate(zip(quotes, starts, strict=True)):
        if mark == skip:
            continue
        if not inside:
            inside = start
            edges += [mark] * start
        elif place + 1 < len(quotes) and quotes[place + 1] == mark + 1:
            skip = mark + 1  # a doubled quote
        else:
            inside = False
            edges.append(mark)
    return np.array(edges, np.int64)


# ---- the header: the names of the columns, the separator and the quote


#: The header of 100,000 columns is about 1 MB.
MAX_HEADER_BYTES = 16 << 20
MAX_NAME_LETTERS = 10_000
_EDGES = re.compile("[,;\t|\"'\r\n]")


def find_header_end(name: str, head: bytes, rest: Iterator[bytes], quote: str) -> tuple[int, bytes]:
    """Returns where the header ends, and the head of the text, extended from `rest` if it was too short.

    Raises:
        UserError: the header does not end.
    """
    at = 0
    while not (at := find_first_end(head, quote)) and len(head) <= MAX_HEADER_BYTES and (more := next(rest, b"")):
        head += more
    if (at or len(head)) > MAX_HEADER_BYTES:
        raise UserError(f"{name}, line 1: the names of the columns are longer than {MAX_HEADER_BYTES >> 20} MiB.")
    if not at and b"\r" in head and b"\n" not in head:
        raise UserError(_old_mac_message(name))
    if not at and is_open(head, quote):
        raise UserError(f"{name}, line 1: a quote in the names of the columns is never closed.")
    return at or len(head), head


def read_header(
    name: str, text: bytes, fields: Sequence[Field], reading: Reading, usual: str
) -> tuple[tuple[str, ...], str, str]:
    """Returns the names of the columns, the separator and the quote.

    A separator or quote that the options do not give is the usual one, unless only another yields all declared names.

    Args:
        usual: The usual separator for the ending of the file's name.

    Raises:
        UserError: the header is empty, lacks a declared column, or repeats a name; or two separators fit.
    """
    written = _decode(name, text)
    separators = [reading.separator] if reading.separator else sorted(SEPARATORS, key=lambda s: s != usual)
    quotes = [_mark(reading.quote)] if reading.quote else ['"', "'"]
    usual_names = _split(written, separators[0], quotes[0])
    if "\r" in written.rstrip("\r\n") and not usual_names:
        raise UserError(_old_mac_message(name))
    if not any(column.strip() for column in usual_names):
        raise UserError(f"{name} is empty: the first line must name the columns. Write it again, or move it away.")
    declared = {field.name for field in fields}
    separator, quote = separators[0], quotes[0]
    if not declared <= set(usual_names):
        separator, quote = _find_marks(name, written, declared, separators, quotes)
    names = _split(written, separator, quote)
    check_names(f"{name}, line 1", names)
    schema.check_header(name, names, fields)
    return names, separator, quote


def _find_marks(
    name: str, written: str, declared: set[str], separators: Sequence[str], quotes: Sequence[str]
) -> tuple[str, str]:
    """Returns the separator and quote that yield the most declared names; the first pair if none yields any."""
    marks = [(separator, quote) for quote in quotes for separator in separators]
    shares = [len(declared & set(_split(written, *pair))) for pair in marks]
    fitting = [pair for pair, share in zip(marks, shares, strict=True) if share == len(declared)]
    fitting = [pair for pair in fitting if pair[1] == fitting[0][1]]
    if len(fitting) > 1:
        choices = " or at ".join(repr(separator) for separator, _ in fitting)
        fix = f'task_options={{"separator": "{fitting[0][0]}"}}'
        raise UserError(f"{name}, line 1 can be split at {choices}: set the separator, such as {fix}.")
    return marks[shares.index(max(shares))]


def _mark(quote: str) -> str:
    return "" if quote == NO_QUOTE else quote


def _decode(name: str, text: bytes) -> str:
    try:
        written = text.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8 text{suggest_windows(text, error.start)}") from None
    if "\0" in written:
        raise UserError(f"{name} has NUL bytes, so it is not a text file.")
    return written


def suggest_windows(text: bytes, at: int) -> str:
    """Returns the end of a message about text that is not UTF-8: the word at byte `at` in Windows-1252, and the fix."""
    before, after = (re.split(_EDGES, part.decode("windows-1252", errors="replace"))
                     for part in (text[max(0, at - 20) : at], text[at : at + 20]))  # fmt: skip
    word = before[-1] + after[0]
    if not word.isprintable() or "\ufffd" in word:
        return ": if it is a table, save it as UTF-8, or give its encoding in task_options."
    return (
        f"; in Windows-1252 the word is {quote(word)}. If that is right, set "
        'task_options={"encoding": "windows-1252"}, or save it as UTF-8.'
    )


def _split(written: str, separator: str, quote: str) -> tuple[str, ...]:
    csv.field_size_limit(1 << 30)
    try:
        return tuple(next(csv.reader([written], **dialect(separator, quote)), []))
    except csv.Error:  # a line end outside of quotes
        return ()


def check_names(where: str, names: Sequence[str]) -> None:
    """Raises UserError for a repeated or very long name. Blank names may repeat, as at the end of a spreadsheet."""
    longest = max(names, key=len)
    if len(longest) > MAX_NAME_LETTERS:
        raise UserError(f"{where}: the name of the column {quote(longest)} is too long.")
    repeated = sorted(column for column, count in Counter(names).items() if count > 1 and column.strip())
    if repeated:
        what = (
            f"column {join_names(repeated)} occurs" if len(repeated) == 1 else f"columns {join_names(repeated)} occur"
        )
        raise UserError(
            f"{where}: the {what} twice. Give each column a name of its own in the file. If this line holds values, "
            "add a line with the names of the columns above it."
        )


def _old_mac_message(name: str) -> str:
    return (
        f"{name} ends its lines with CR alone, as Excel for Mac does in 'CSV (Macintosh)': save it as 'CSV UTF-8', "
        "or convert it: tr '\\r' '\\n' < OLD > NEW."
    )
