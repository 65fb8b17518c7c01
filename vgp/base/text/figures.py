"""Numbers as people read them: money, durations, sizes, lists in a sentence, and tables."""

import math
from collections.abc import Collection, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vgp.base.text.printable import printable

# ---- the one style of tables: bold titles, columns without lines between them, numbers to the right

Cell = str | Text


def table(
    titles: Sequence[Cell],
    rows: Iterable[Sequence[Cell]] = (),
    *,
    right: Collection[str] = (),
    whole: Collection[str] = (),
    gap: int = 3,
) -> Table:
    """The rows below their titles; where the terminal is too narrow, cells go on in the next line.

    Cells show what their text says: markup and control characters of names from elsewhere are plain characters.

    Args:
        titles: Of the columns; no line of titles where all are empty.
        rows: The cells of each row.
        right: Titles of columns of numbers.
        whole: Titles of columns that are not broken, since their cells are copied.
        gap: Spaces between columns.
    """
    drawn = Table(box=None, header_style="bold", show_header=any(map(str, titles)), pad_edge=False)
    drawn.padding = (0, gap, 0, 0)
    for title in titles:
        name = str(title)
        drawn.add_column(
            _text(title), justify="right" if name in right else "left", no_wrap=name in whole, overflow="fold"
        )
    for row in rows:
        drawn.add_row(*map(_text, row))
    return drawn


def facts(rows: Iterable[tuple[Cell, Cell]], *, gap: int = 3) -> Table:
    """Names and what belongs to them, line by line, without titles."""
    return table(("", ""), rows, gap=gap)


def above(drawn: Table, lines: Sequence[str]) -> RenderableType:
    """The table above these lines, which are as wide as the terminal: a caption is broken where its table ends."""
    return Group(drawn, *(Text(printable(line), "table.caption") for line in lines)) if lines else drawn


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(printable(cell))


#: Google's "GB" of memory are GiB (2**30 bytes); Kubernetes' G is 10**9 bytes.
GB_PER_GIB = 2**30 / 10**9


def usd(amount: float | None) -> str:
    """$0.02, $1,204.50; small sums keep two digits that say something."""
    if amount is None:
        return "no price"
    return f"${dollars(amount)}" if amount >= 0.01 or not amount else "<$0.01"


def dollars(amount: float) -> str:
    """1,204.50, for columns whose title says what it is."""
    return f"{amount:,.2f}"


def number(value: float) -> str:
    """1024, 0.5, 1e-05: whole numbers without the .0 that specs keep them with."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e16 else str(value)


def took(seconds: float) -> str:
    """45s, 3m 20s, 1h 02m, 2d 03h."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02}h"


def plural(count: int, noun: str) -> str:
    """1 error, 2 errors, 1,200 errors."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(values: Iterable[object], last: str = "or") -> str:
    """1, 2 or 4."""
    words = [str(value) for value in values]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def significant(value: float, digits: int = 4) -> str:
    """A number in any unit with so many digits that tell: 68,050 and 0.001234, and powers of ten only where it must."""
    if not value or not 1e-6 <= abs(value) < 1e9:
        return f"{value:z.{digits}g}"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def plus(shown: str) -> str:
    """A difference that is shown so: with a + where it is above zero."""
    return shown if shown.startswith("-") or not shown.strip("0.%") else f"+{shown}"


def percent(share: float) -> str:
    """A small share: 0.0137%."""
    return f"{100 * share:.3g}%"
