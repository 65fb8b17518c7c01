"""Columns that can be read in more than one way: the choices offered to the user, and the types that the user gives.

A reading that would change the numbers is never guessed."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import quote
from vgp.data.sources.values import is_text

#: Doubts that one message shows.
MOST_SHOWN = 20


@dataclass(frozen=True)
class Reading:
    """One way to read a column."""

    #: The meaning of the example in this reading.
    means: str
    #: The type to give by --read; "" if `choice` applies.
    type: str = ""
    #: Another option, or a change to the file.
    choice: str = ""


@dataclass(frozen=True)
class Doubt:
    """An ambiguous column, or an ambiguous table if `column` is ""."""

    column: str
    #: A value that differs between the readings.
    example: str
    readings: tuple[Reading, ...]
    #: The reason for the doubt, if the example does not show it.
    why: str = ""

    def lines(self, rows: pa.Table, *, numbered: bool) -> list[str]:
        """Formats the doubt and its choices.

        Args:
            numbered: Whether `rows` are the first rows of a single file, so that row numbers mean something.
        """
        row = _find_row(rows[self.column], self.example) if numbered and self.column and self.example else 0
        place = f" (row {row:,})" if row else ""
        example = f"{quote(self.example)}{place}" if self.example else ""
        reason = ", ".join(filter(None, [example, self.why]))
        lines = [f"{self.column}: {reason}" if self.column else reason]
        width = max(len(reading.means) for reading in self.readings)
        for reading in self.readings:
            choice = f"--read {shlex.quote(f'{self.column}={reading.type}')}" if reading.type else reading.choice
            lines.append(f"    {reading.means:{width}}  {choice}")
        return lines


def require_none(doubts: Sequence[Doubt], rows: pa.Table, *, numbered: bool) -> None:
    """Raises UserError if there are doubts, with the readings of each and the option that chooses one."""
    if not doubts:
        return
    lines = [line for doubt in doubts[:MOST_SHOWN] for line in doubt.lines(rows, numbered=numbered)]
    more = [f"and {len(doubts) - MOST_SHOWN:,} more"] if len(doubts) > MOST_SHOWN else []
    count = "1 place" if len(doubts) == 1 else f"{len(doubts):,} places"
    head = (
        f"{count} in the table can be read in more than one way, and the command does not guess. Choose one reading "
        "for each, and run the command again with all the options; the TOML that it writes keeps them:"
    )
    raise UserError("\n".join([head, *lines, *more]))


def _find_row(column: pa.ChunkedArray, example: str) -> int:
    """Returns the number of the first row with this text, from 1; 0 if no row has it."""
    values = column.cast(pa.string())
    values = pc.utf8_trim(values, " \t\n\r\v\f") if is_text(column.type) else values
    return int(pc.index(values, example).as_py()) + 1


def parse_types(options: Iterable[str], names: Sequence[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Parses `COLUMN=TYPE` options.

    Returns:
        The types of columns by name, and (pattern, type) for patterns such as `price*`, which choose among readings.

    Raises:
        UserError: a text is not of this form, or names no column.
    """
    types: dict[str, str] = {}
    patterns: list[tuple[str, str]] = []
    plain = {name.strip(): name for name in names}
    for text in options:
        places = [at for at, letter in enumerate(text) if letter == "="]
        exact = next((at for at in places if text[:at].strip() in plain), None)
        if exact is not None:
            types[plain[text[:exact].strip()]] = text[exact + 1 :].strip()
            continue
        name, equals, type_ = text.partition("=")
        if not equals:
            raise UserError(f"--read {text}: write COLUMN=TYPE, for example 'price=number 1,234.5'.")
        if not any(fnmatchcase(column, name) for column in names):
            raise UserError(f"--read {text}: the table has no column {quote(name)}. {did_you_mean(name, names)}")
        patterns.append((name, type_.strip()))
    return types, patterns


def choose_type(doubt: Doubt, patterns: Sequence[tuple[str, str]]) -> str:
    """Returns the type among the readings that a pattern chooses, or "" if no pattern does."""
    types = [reading.type for reading in doubt.readings]
    return next((t for pattern, t in patterns if fnmatchcase(doubt.column, pattern) and t in types), "")
