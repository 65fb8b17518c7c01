"""Records of CSV text: where they end, and on which line one of them starts.

A quote opens a field only where the field begins, as RFC 4180 and the reader of Arrow have it: the inches of `5" pipe`
are letters. So quotes are told one by one where some do not stand at the edge of a field, and counted where all do.
"""

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
