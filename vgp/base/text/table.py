"""The one style of tables: bold titles, columns without lines between them, numbers to the right."""

from collections.abc import Collection, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vgp.base.text.printable import printable

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
