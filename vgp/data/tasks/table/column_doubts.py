"""Doubts about a column whose type is known: markers for missing values, rows of totals, dates that may be the time."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.text.printable import join_names, quote
from vgp.data.sources.values import is_text
from vgp.data.tasks.table import name_doubts
from vgp.data.tasks.table.ambiguities import Doubt, Reading
from vgp.data.tasks.table.column_guess import BLANK, Guess, guess_column
from vgp.data.tasks.table.column_roles import count_months
from vgp.data.tasks.table.column_types import DATES, NUMBERS, parse_kind, with_missing
from vgp.data.tasks.table.strange_values import APART, OFTEN, count_markers, is_strange

#: Days that databases and sheets write for a missing date.
NO_DAYS = ("9999-12-31", "9999-01-01", "2099-12-31", "1900-01-01", "1970-01-01", "0001-01-01")
#: How many rows at the end may be totals, and how many rows a total needs above it.
LAST_ROWS, LEAST_ROWS = 3, 4
#: A date column may be the time if at most this share of its rows is empty.
MOST_LACKING = 0.05


def find_doubt(column: Guess, *, target: bool) -> Doubt | None:
    """Returns one doubt that combines every choice about a column, or None if its reading is certain."""
    questions = list(column.doubts)
    if column.word in NUMBERS:
        questions += [
            *_ask_about_markers(column),
            *_ask_about_dashes(column),
            *(_ask_about_spellings(column) if target else []),
        ]
    elif column.word in DATES:
        questions += _ask_about_dates(column)
    elif column.word == "category" and is_text(column.values.type):
        questions += name_doubts.find_doubts(column, target=target)
    return reduce(_combine, questions) if questions else None


def drop_markers(column: Guess, marked: Collection[str]) -> Guess:
    """Returns a category column with `marked` texts such as NA as missing values, since R writes NA in all columns."""
    if column.word != "category" or not is_text(column.values.type):
        return column
    texts = tuple(
        text for text in marked if name_doubts.MISSING.fullmatch(text) and pc.index(column.values, text).as_py() >= 0
    )
    if not texts:
        return column
    values = pc.if_else(pc.is_in(column.values, pa.array(texts)), None, column.values)
    return replace(column, values=values, markers=(*column.markers, *texts))


def _combine(first: Doubt, second: Doubt) -> Doubt:
    """Returns the first doubt with each reading twice: with and without the markers of the second doubt."""
    markers = parse_kind(second.readings[0].type).missing if second.readings[0].type else ()
    if not markers:
        return first
    meaning, readings = second.readings[0].means, []
    for reading in first.readings:
        if reading.type:
            known = parse_kind(reading.type)
            marked = with_missing(reading.type.partition(" missing ")[0], (*known.missing, *markers))
            readings.append(Reading(f"{reading.means}; {join_names(markers)} {meaning}", marked))
        readings.append(reading)
    return replace(first, readings=tuple(readings))


def _ask_about_markers(column: Guess) -> Iterator[Doubt]:
    """Asks about numbers that may mean a missing value, such as -999."""
    marked = count_markers(column.numbers)
    counts = {_format_number(column, value): count for value, count in marked.items()}
    if counts:
        values = np.unique(column.numbers[~np.isnan(column.numbers)])
        others = values[~is_strange(values) & ~np.isin(values, list(marked))]
        rows = f"in {sum(counts.values()):,} row{'s' * (sum(counts.values()) != 1)}"
        rest = f"also {join_names(list(counts)[1:])}, " if len(counts) > 1 else ""
        why = f"{rest}{rows}; the other values range from {others.min():,g} to {others.max():,g}"
        readings = (Reading("missing", with_missing(column.type, (*column.kind.missing, *counts))),
                    Reading("an ordinary number", column.type))  # fmt: skip
        yield Doubt(column.name, next(iter(counts)), readings, why)


def _ask_about_dashes(column: Guess) -> Iterator[Doubt]:
    """Asks about a dash among amounts, which sheets write for 0."""
    if column.word == "number" and "-" in column.markers:
        readings = (Reading("missing", with_missing(column.type, (*column.kind.missing, "-"))),
                    Reading("0", choice="write 0 in the file"))  # fmt: skip
        yield Doubt(column.name, "-", readings, "among amounts")


def _format_number(column: Guess, value: float) -> str:
    """Formats a number as the column does."""
    if column.word != "number":
        return f"{value:.15g}"
    return str(column.values[int(np.flatnonzero(column.numbers == value)[0])].as_py())


def _ask_about_spellings(column: Guess) -> Iterator[Doubt]:
    """Asks about a number with two spellings, which would make two classes."""
    if (
        not is_text(column.values.type)
        or column.word == "number"
        or len(np.unique(column.numbers)) > name_doubts.MOST_ALIKE
    ):
        return
    texts = pc.unique(column.known).to_pylist()
    for _, spellings in groupby(sorted(texts, key=float), key=float):
        first, *more = spellings
        if more:
            readings = (Reading("one class", "category float"), Reading("two classes", "category"))
            yield Doubt(column.name, first, readings, f"also {quote(more[0])}")
            return


def _ask_about_dates(column: Guess) -> Iterator[Doubt]:
    """Asks about a day such as 9999-12-31 that may mean a missing date: it is frequent, or far from the others."""
    days, counts = np.unique(column.days.to_numpy(zero_copy_only=False), return_counts=True)
    for at, day in enumerate(days):
        others, often = np.delete(days, at), np.delete(counts, at)
        if str(day) not in NO_DAYS or len(others) < 2:
            continue
        gap = min(abs(int((day - other).astype(int))) for other in (others.min(), others.max()))
        wide = int((others.max() - others.min()).astype(int))
        if (day < others.min() or day > others.max()) and gap > APART * wide or counts[at] > OFTEN * often.max():
            texts = column.known.filter(pc.equal(column.days, pa.scalar(day.astype(object), pa.date32())))
            text = str(texts[0].as_py()) if column.kind.form else str(day)
            readings = (Reading("missing", with_missing(column.type, (*column.kind.missing, text))),
                        Reading("this day", column.type))  # fmt: skip
            yield Doubt(column.name, text, readings, f"in {counts[at]:,} rows")


def split_totals(rows: pa.Table, declared: Collection[str]) -> tuple[pa.Table, list[Doubt]]:
    """Cuts off the last rows if one of them looks like a total of the rows above, as in a spreadsheet.

    Args:
        declared: Columns whose types the user gave, which answers the doubt: the total row then stays.

    Returns:
        The rows, and the doubt if there is one.
    """
    for place in range(rows.num_rows - 1, max(LEAST_ROWS, rows.num_rows - 1 - LAST_ROWS), -1):
        column, why = _sum(rows, place)
        if column and column not in declared:
            rest = rows.slice(0, place)
            text = _get_text(rows[column], place)
            kind = "category" if text else guess_column("", rest[column]).type
            readings = (Reading("a total of the rows above", choice="remove the row from the file"),
                        Reading("an ordinary row", kind))  # fmt: skip
            return rest, [Doubt(column, text, readings, f"row {place + 1:,} of {rows.num_rows:,} {why}")]
    return rows, []


def _get_text(column: pa.ChunkedArray, place: int) -> str:
    value = column[place].as_py()
    return "" if value is None else str(value).strip()


def _sum(rows: pa.Table, place: int) -> tuple[str, str]:
    """Returns the column that marks a row as a total and the reason, or two empty texts if the row is no total.

    A total has a word such as "Total", or an empty field where all rows above have a value.
    """
    texts = {name: _get_text(rows[name], place) for name in rows.column_names}
    for name, text in texts.items():
        word = text.rstrip(":")
        if (name_doubts.SUM.fullmatch(word) or name_doubts.MEAN.fullmatch(word)) and _count(rows[name], text) == 1:
            return name, "looks like a total"
    above = rows.slice(0, place)
    empty = next((name for name, text in texts.items() if not text and not _count(above[name], "")), "")
    added = next((name for name, text in texts.items() if text and empty and _adds_up(rows[name], place)), "")
    return (empty, f"is empty here, and {added} is the sum of the rows above") if added else ("", "")


def _count(column: pa.ChunkedArray, text: str) -> int:
    """Counts the rows with a text; "" counts the rows without a value."""
    texts = pc.fill_null(pc.utf8_trim(column.cast(pa.string()), BLANK), "")
    return int(pc.sum(pc.equal(texts, text)).as_py() or 0)


def _adds_up(column: pa.ChunkedArray, place: int) -> bool:
    """Whether the number in row `place` is the sum of all numbers above it."""
    if pa.types.is_nested(column.type) or (parsed := guess_column("", column)).word not in NUMBERS:
        return False
    above = parsed.numbers[:place]
    above = above[~np.isnan(above)]
    return len(above) >= LEAST_ROWS and bool(above.any() and np.isclose(parsed.numbers[place], above.sum(), rtol=1e-9))


def find_time_doubts(names: Sequence[str], columns: Mapping[str, Guess]) -> list[Doubt]:
    """Asks which of several date columns is the time, or whether a date column with a few gaps is.

    Args:
        names: Date columns without gaps.
        columns: All columns that may be the time.
    """
    none = Reading("no time: a random split", choice="--time none")
    if len(names) > 1:
        readings = tuple(Reading(f"the time is {name}", choice=f"--time {shlex.quote(name)}") for name in names)
        why = f"{join_names(names)} are dates; rows can be split by the time of one of them"
        return [Doubt("", "", (*readings, none), why)]
    lacking = [c for c in columns.values() if c.word in DATES and 0 < c.missing <= MOST_LACKING and count_months(c) > 1]
    if names or len(lacking) != 1:
        return []
    rows = len(lacking[0].values) - len(lacking[0].known)
    fill = Reading("the time of the rows", choice="fill in the gaps, or remove those rows from the file")
    return [Doubt(lacking[0].name, "", (fill, none), f"a date column with no value in {rows:,} row{'s' * (rows != 1)}")]
