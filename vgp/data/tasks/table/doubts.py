"""What a column can be read as in two ways, and how its owner chooses: nothing that gives other numbers is guessed."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import quoted
from vgp.data.sources.values import is_text

#: Doubts that one message shows.
MOST_SHOWN = 20


@dataclass(frozen=True)
class Reading:
    """One way to read a column."""

    #: What the example is then.
    means: str
    #: The type that says so; "" where another option or another file does.
    type: str = ""
    #: What to do where no type says it.
    choice: str = ""


@dataclass(frozen=True)
class Doubt:
    """A column with several readings; "" = the whole table."""

    column: str
    #: A value of which the readings differ.
    example: str
    readings: tuple[Reading, ...]
    #: What is strange about it, if the example does not show that.
    why: str = ""

    def lines(self, rows: pa.Table, *, numbered: bool) -> list[str]:
        """The doubt as text.

        Args:
            numbered: Whether the rows are those of one file from its beginning.
        """
        row = _row(rows[self.column], self.example) if numbered and self.column and self.example else 0
        place = f" (row {row:,})" if row else ""
        example = f"{quoted(self.example)}{place}" if self.example else ""
        what = ", ".join(filter(None, [example, self.why]))
        lines = [f"{self.column}: {what}" if self.column else what]
        width = max(len(reading.means) for reading in self.readings)
        for reading in self.readings:
            choice = f"--read {shlex.quote(f'{self.column}={reading.type}')}" if reading.type else reading.choice
            lines.append(f"    {reading.means:{width}}  {choice}")
        return lines


def require_none(doubts: Sequence[Doubt], rows: pa.Table, *, numbered: bool) -> None:
    """Raises UserError with all doubts, their readings, and the option that chooses each."""
    if not doubts:
        return
    shown = [line for doubt in doubts[:MOST_SHOWN] for line in doubt.lines(rows, numbered=numbered)]
    more = [f"and {len(doubts) - MOST_SHOWN:,} more"] if len(doubts) > MOST_SHOWN else []
    count = "1 thing" if len(doubts) == 1 else f"{len(doubts):,} things"
    head = (
        f"{count} in the table can be read in more than one way, and none is guessed. Choose one of each, and give all "
        "the options to the command; the TOML that it writes keeps them:"
    )
    raise UserError("\n".join([head, *shown, *more]))


def _row(column: pa.ChunkedArray, example: str) -> int:
    """The first row with the value, from 1; 0 if it is not there as it is written."""
    values = column.cast(pa.string())
    values = pc.utf8_trim(values, " \t\n\r\v\f") if is_text(column.type) else values
    return int(pc.index(values, example).as_py()) + 1


def declared(given: Iterable[str], names: Sequence[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The types that `COLUMN=TYPE` names: of columns, and of patterns such as `price*`, which choose among readings.

    Raises:
        UserError: a text is not of this form, or names no column.
    """
    types: dict[str, str] = {}
    patterns: list[tuple[str, str]] = []
    plain = {name.strip(): name for name in names}
    for text in given:
        places = [at for at, letter in enumerate(text) if letter == "="]
        exact = next((at for at in places if text[:at].strip() in plain), None)
        if exact is not None:
            types[plain[text[:exact].strip()]] = text[exact + 1 :].strip()
            continue
        name, equals, type_ = text.partition("=")
        if not equals:
            raise UserError(f"--read {text}: give it as COLUMN=TYPE, such as 'price=number 1,234.5'.")
        if not any(fnmatchcase(column, name) for column in names):
            raise UserError(f"--read {text}: the table has no column {quoted(name)}. {did_you_mean(name, names)}")
        patterns.append((name, type_.strip()))
    return types, patterns


def chosen(doubt: Doubt, patterns: Sequence[tuple[str, str]]) -> str:
    """The type that a pattern chooses among the readings; "" if none does."""
    types = [reading.type for reading in doubt.readings]
    return next((t for pattern, t in patterns if fnmatchcase(doubt.column, pattern) and t in types), "")
