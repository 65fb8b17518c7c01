"""Records of CSV text: where they end, and on which line one of them starts.

A quote opens a field only where the field begins, as RFC 4180 and the reader of Arrow have it: the inches of `5" pipe`
are letters. So quotes are told one by one where some do not stand at the edge of a field, and counted where all do.
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
from vgp.base.text.printable import listed, quoted
from vgp.data import schema
from vgp.data.schema import Field
from vgp.data.sources.resolve import NO_QUOTE, Reading

#: What may separate fields, where it is not known yet.
SEPARATORS = ",;\t|"
#: Looked at together, from the end of a block.
WINDOW_BYTES = 1 << 16

Positions = NDArray[np.int64]


def last_end(block: bytes, quote: str = '"', separators: str = SEPARATORS) -> int:
    """Where the last whole record of a block ends that begins with one; 0 if none does."""
    if not quote or quote.encode() not in block:
        return block.rfind(b"\n") + 1
    edges, end = _edges(block, quote, separators), len(block)
    while end:
        before = int(np.searchsorted(edges, end))
        if before % 2:  # within quotes: on in front of them, however far they reach
            end = int(edges[before - 1])
            continue
        start = max(0, end - WINDOW_BYTES)
        newlines = start + np.flatnonzero(np.frombuffer(block, np.uint8, end - start, start) == ord("\n"))
        if len(ends := newlines[np.searchsorted(edges, newlines) % 2 == 0]):
            return int(ends[-1]) + 1
        end = start
    return 0


def first_end(block: bytes, quote: str = '"', separators: str = SEPARATORS) -> int:
    """Where the first record ends; 0 if it does not."""
    edges = _edges(block, quote, separators)
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
    """How many records end in a block, blank ones included."""
    if not quote or quote.encode() not in block:
        return block.count(b"\n")
    newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    return int(np.count_nonzero(np.searchsorted(_edges(block, quote, separators), newlines) % 2 == 0))


def is_open(text: bytes, quote: str = '"', separators: str = SEPARATORS) -> bool:
    """Whether the text, from the start of a record, ends inside a quoted field."""
    return len(_edges(text, quote, separators)) % 2 == 1


def closing(text: bytes, quote: str, separators: str) -> list[int]:
    """Where quotes close a field, from the start of a record; the first of two that stand for one may be among them."""
    return list(_edges(text, quote, separators)[1::2].tolist())


def of(data: bytes, separator: str = ",", quote: str = '"') -> Iterator[tuple[list[str], int]]:
    """Each record that is not blank: its fields, and the lines before it."""
    csv.field_size_limit(1 << 30)  # by default 128 kB, for the whole process
    text = io.StringIO(data.decode(errors="replace"), newline="")
    reader = csv.reader(text, **dialect(separator, quote))
    line = 0
    for fields in reader:
        if fields:
            yield fields, line
        line = reader.line_num


def dialect(separator: str, quote: str) -> Any:
    """What Python's reader of CSV is told."""
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    return {"delimiter": separator, "quotechar": quote or None, "quoting": quoting}


def _edges(block: bytes, quote: str, separators: str) -> Positions:
    """Where quoted fields begin and end, in turn; a doubled quote inside of one may end and begin it at once."""
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
    return _edges_in_turn(quotes.tolist(), starts.tolist())


def _edges_in_turn(quotes: list[int], starts: list[bool]) -> Positions:
    edges: list[int] = []
    inside, skip = False, -1
    for place, (quote, start) in enumerate(zip(quotes, starts, strict=True)):
        if quote == skip:
            continue
        if not inside:
            inside = start
            edges += [quote] * start
        elif place + 1 < len(quotes) and quotes[place + 1] == quote + 1:
            skip = quote + 1  # two for one
        else:
            inside = False
            edges.append(quote)
    return np.array(edges, np.int64)


# ---- the first record: the names of the columns, and what separates and quotes them


#: Tables of 100,000 columns have a header of a megabyte.
MAX_HEADER_BYTES = 16 << 20
MAX_NAME_LETTERS = 10_000
_EDGES = re.compile("[,;\t|\"'\r\n]")


def find_header_end(name: str, head: bytes, rest: Iterator[bytes], quote: str) -> tuple[int, bytes]:
    """Where the header of a text ends, and the text's first bytes: more of them if these were too few.

    Raises:
        UserError: it does not end.
    """
    at = 0
    while not (at := first_end(head, quote)) and len(head) <= MAX_HEADER_BYTES and (more := next(rest, b"")):
        head += more
    if (at or len(head)) > MAX_HEADER_BYTES:
        raise UserError(f"{name}, line 1: the names of the columns are longer than {MAX_HEADER_BYTES >> 20} MiB.")
    if not at and b"\r" in head and b"\n" not in head:
        raise UserError(_old_mac(name))
    if not at and is_open(head, quote):
        raise UserError(f"{name}, line 1: a quote in the names of the columns is never closed.")
    return at or len(head), head


def read_header(
    name: str, text: bytes, fields: Sequence[Field], reading: Reading, usual: str
) -> tuple[tuple[str, ...], str, str]:
    """The names of the columns, the separator and the quote.

    What was not given is found by the declared names: the usual one is taken unless only another gives them all.

    Args:
        usual: The separator that the name of the file promises.

    Raises:
        UserError: the header names no columns, lacks a declared one, or names one twice; or two separators fit.
    """
    written = _decoded(name, text)
    separators = [reading.separator] if reading.separator else sorted(SEPARATORS, key=lambda s: s != usual)
    quotes = [_mark(reading.quote)] if reading.quote else ['"', "'"]
    usual_names = _split(written, separators[0], quotes[0])
    if "\r" in written.rstrip("\r\n") and not usual_names:
        raise UserError(_old_mac(name))
    if not any(column.strip() for column in usual_names):
        raise UserError(f"{name} is empty: the first line must name the columns. Write it again, or move it away.")
    declared = {field.name for field in fields}
    separator, quote = separators[0], quotes[0]
    if not declared <= set(usual_names):
        separator, quote = _found(name, written, declared, separators, quotes)
    names = _split(written, separator, quote)
    check_names(f"{name}, line 1", names)
    schema.check_header(name, names, fields)
    return names, separator, quote


def _found(
    name: str, written: str, declared: set[str], separators: Sequence[str], quotes: Sequence[str]
) -> tuple[str, str]:
    """The separator and quote that give the most of the declared names; those that stand first, if none gives any."""
    marks = [(separator, quote) for quote in quotes for separator in separators]
    shares = [len(declared & set(_split(written, *pair))) for pair in marks]
    fitting = [pair for pair, share in zip(marks, shares, strict=True) if share == len(declared)]
    fitting = [pair for pair in fitting if pair[1] == fitting[0][1]]
    if len(fitting) > 1:
        both = " or at ".join(repr(separator) for separator, _ in fitting)
        fix = f'task_options={{"separator": "{fitting[0][0]}"}}'
        raise UserError(f"{name}, line 1 can be parted at {both}: say which, such as {fix}.")
    return marks[shares.index(max(shares))]


def _mark(quote: str) -> str:
    return "" if quote == NO_QUOTE else quote


def _decoded(name: str, text: bytes) -> str:
    try:
        written = text.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8 text{in_windows(text, error.start)}") from None
    if "\0" in written:
        raise UserError(f"{name} holds NUL bytes: it is no text.")
    return written


def in_windows(text: bytes, at: int) -> str:
    """How a message about text goes on that is not UTF-8."""
    before, after = (re.split(_EDGES, part.decode("windows-1252", errors="replace"))
                     for part in (text[max(0, at - 20) : at], text[at : at + 20]))  # fmt: skip
    word = before[-1] + after[0]
    if not word.isprintable() or "\ufffd" in word:
        return ": if it is a table, save it as UTF-8, or give its encoding in task_options."
    return (
        f"; as Windows-1252 it would say {quoted(word)}. If that is right, give "
        'task_options={"encoding": "windows-1252"}, or save it as UTF-8.'
    )


def _split(written: str, separator: str, quote: str) -> tuple[str, ...]:
    csv.field_size_limit(1 << 30)
    try:
        return tuple(next(csv.reader([written], **dialect(separator, quote)), []))
    except csv.Error:  # a line end outside of quotes
        return ()


def check_names(where: str, names: Sequence[str]) -> None:
    """Raises UserError if a name occurs twice, or is no name. The empty columns at the end of a sheet have none."""
    longest = max(names, key=len)
    if len(longest) > MAX_NAME_LETTERS:
        raise UserError(f"{where}: the name of the column {quoted(longest)} is too long.")
    repeated = sorted(column for column, count in Counter(names).items() if count > 1 and column.strip())
    if repeated:
        what = f"column {listed(repeated)} occurs" if len(repeated) == 1 else f"columns {listed(repeated)} occur"
        raise UserError(f"{where}: the {what} twice.")


def _old_mac(name: str) -> str:
    return (
        f"{name} ends its lines with CR alone, as Excel for Mac does in 'CSV (Macintosh)': save it as 'CSV UTF-8', "
        "or convert it: tr '\\r' '\\n' < OLD > NEW."
    )
