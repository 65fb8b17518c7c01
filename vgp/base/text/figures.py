"""Formats for people: money, durations, sizes, lists in a sentence, and tables."""

import math
from collections.abc import Collection, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vgp.base.text.printable import printable

# ---- tables: bold titles, no lines between columns, numbers right-aligned

Cell = str | Text


def table(
    titles: Sequence[Cell],
    rows: Iterable[Sequence[Cell]] = (),
    *,
    right: Collection[str] = (),
    whole: Collection[str] = (),
    gap: int = 3,
) -> Table:
    """Builds a table whose cells wrap in a narrow terminal; markup and control characters are shown as plain text.

    Args:
        titles: Titles of the columns; no title line if all are empty.
        rows: The cells of each row.
        right: Titles of right-aligned columns.
        whole: Titles of columns that do not wrap, so that users can copy their cells.
        gap: Spaces between columns.
    """
    drawn = Table(box=None, header_style="bold", show_header=any(map(str, titles)), pad_edge=False)
    drawn.padding = (0, gap, 0, 0)
    for title in titles:
        name = str(title)
        drawn.add_column(
            _render_cell(title), justify="right" if name in right else "left", no_wrap=name in whole, overflow="fold"
        )
    for row in rows:
        drawn.add_row(*map(_render_cell, row))
    return drawn


def facts_table(rows: Iterable[tuple[Cell, Cell]], *, gap: int = 3) -> Table:
    """Builds a table of names and values without titles."""
    return table(("", ""), rows, gap=gap)


def with_caption(drawn: Table, lines: Sequence[str]) -> RenderableType:
    """Adds lines of terminal width below a table; a caption would wrap at the width of the table."""
    return Group(drawn, *(Text(printable(line), "table.caption") for line in lines)) if lines else drawn


def _render_cell(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(printable(cell))


#: Google's "GB" of memory are GiB (2**30 bytes); Kubernetes' G is 10**9 bytes.
GB_PER_GIB = 2**30 / 10**9


def format_usd(amount: float | None) -> str:
    """Formats dollars: $0.02, $1,204.50, <$0.01; "no price" for None."""
    if amount is None:
        return "no price"
    return f"${format_dollars(amount)}" if amount >= 0.01 or not amount else "<$0.01"


def format_dollars(amount: float) -> str:
    """Formats dollars without the sign, as 1,204.50, for columns with the unit in the title."""
    return f"{amount:,.2f}"


def number(value: float) -> str:
    """Formats a number as 1024, 0.5 or 1e-05; whole numbers without the .0 of specs."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e16 else str(value)


def format_duration(seconds: float) -> str:
    """Formats a duration: 45s, 3m 20s, 1h 02m, 2d 03h."""
    total = max(0, round(seconds))
    if total < 60:
        return f"{total}s"
    if total < 3600:
        return f"{total // 60}m {total % 60:02}s"
    if total < 86400:
        return f"{total // 3600}h {total % 3600 // 60:02}m"
    return f"{total // 86400}d {total % 86400 // 3600:02}h"


def format_count(count: int, noun: str) -> str:
    """Formats a count with its noun: 1 error, 2 errors, 1,200 errors."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def join_words(values: Iterable[object], last: str = "or") -> str:
    """Joins values as in `1, 2 or 4`."""
    words = [str(value) for value in values]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def format_significant(value: float, digits: int = 4) -> str:
    """Formats a number with `digits` significant digits: 68,050, 0.001234; powers of ten only for extremes."""
    if not value or not 1e-6 <= abs(value) < 1e9:
        return f"{value:z.{digits}g}"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def with_sign(text: str) -> str:
    """Adds a + to a formatted difference if it is positive."""
    return text if text.startswith("-") or not text.strip("0.%") else f"+{text}"


def format_percent(share: float) -> str:
    """Formats a share as a percentage, such as 0.0137%."""
    return f"{100 * share:.3g}%"
