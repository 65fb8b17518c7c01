"""The first record of a CSV file: the names of its columns, and what separates and quotes them."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from vgp.base.exits import UserError
from vgp.base.text.printable import listed, quoted
from vgp.data import schema
from vgp.data.schema import Field
from vgp.data.sources import records
from vgp.data.sources.reading import NO_QUOTE, Reading

#: Tables of 100,000 columns have a header of a megabyte.
MAX_HEADER_BYTES = 16 << 20
MAX_NAME_LETTERS = 10_000
_EDGES = re.compile("[,;\t|\"'\r\n]")


def end(name: str, head: bytes, rest: Iterator[bytes], quote: str) -> tuple[int, bytes]:
    """Where the header of a text ends, and the text's first bytes: more of them if these were too few.

    Raises:
        UserError: it does not end.
    """
    at = 0
    while not (at := records.first_end(head, quote)) and len(head) <= MAX_HEADER_BYTES and (more := next(rest, b"")):
        head += more
    if (at or len(head)) > MAX_HEADER_BYTES:
        raise UserError(f"{name}, line 1: the names of the columns are longer than {MAX_HEADER_BYTES >> 20} MiB.")
    if not at and b"\r" in head and b"\n" not in head:
        raise UserError(_old_mac(name))
    if not at and records.is_open(head, quote):
        raise UserError(f"{name}, line 1: a quote in the names of the columns is never closed.")
    return at or len(head), head


def columns(
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
    separators = [reading.separator] if reading.separator else sorted(records.SEPARATORS, key=lambda s: s != usual)
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
    check(f"{name}, line 1", names)
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
        return tuple(next(csv.reader([written], **records.dialect(separator, quote)), []))
    except csv.Error:  # a line end outside of quotes
        return ()


def check(where: str, names: Sequence[str]) -> None:
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
