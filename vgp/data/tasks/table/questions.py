"""What columns whose types are known may hold beside what they spell: markers, one name in several spellings, sums."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.text.printable import listed, quoted
from vgp.data.sources.values import is_text
from vgp.data.tasks.table.doubts import Doubt, Reading
from vgp.data.tasks.table.guess import BLANK, Guess, guess, plain_case
from vgp.data.tasks.table.kinds import DATES, NUMBERS, kind, with_missing
from vgp.data.tasks.table.roles import months

#: What stands for a missing number where no number may.
NINES = (-1.0, *(sign * (10.0**digits - 1) for digits in range(1, 7) for sign in (1, -1)))
#: A marker stands so far from the other values, as a share of their range, or comes so often as the most frequent one.
APART, OFTEN, LEAST_OFTEN = 0.5, 5, 5
#: Days that stand for none.
NO_DAYS = ("9999-12-31", "9999-01-01", "2099-12-31", "1900-01-01", "1970-01-01", "0001-01-01")
#: Words for a missing value that may be a name: North America, Namibia; of a target more of them are asked about.
MISSING = re.compile(r"n\.?a\.?", re.I)
MISSING_TARGET = re.compile(r"n\.?/?a\.?n?|null|nil|none|unknown|missing|not (known|available)|-?9{2,6}", re.I)
#: Words of one meaning: a long one of a set and another of it may be one class.
ALIKE = (("yes", "true", "y", "t", "1"), ("no", "false", "n", "f", "0"), ("male", "m"), ("female", "f"))
#: The most different values of a column whose words are compared by their meaning.
MOST_ALIKE = 10
SUM = re.compile(r"(grand |sub)?total|totals|sum|summe|gesamt(summe)?|insgesamt|total g[eé]n[eé]ral|somme|totale?s?|"
                 r"suma|average|mean|mittelwert|durchschnitt", re.I)  # fmt: skip
#: Rows at the end that may be sums, and rows above that make up one.
LAST_ROWS, LEAST_ROWS = 3, 4
#: The share of rows without a date that is still the time of the others.
MOST_LACKING = 0.05


def of(found: Guess, *, target: bool) -> Doubt | None:
    """All that the owner of a column has to choose, in one choice: its type, and what stands for a missing value."""
    questions = list(found.doubts)
    if found.word in NUMBERS:
        questions += [*_markers(found), *_dashes(found), *(_same_numbers(found) if target else [])]
    elif found.word in DATES:
        questions += _no_days(found)
    elif found.word == "category" and is_text(found.values.type):
        questions += [*_spellings(found), *_missing(found, target=target)]
    return reduce(_together, questions) if questions else None


def without(found: Guess, marked: Collection[str]) -> Guess:
    """The column without the words for a missing value that columns of numbers have too, as R writes NA in all."""
    if found.word != "category" or not is_text(found.values.type):
        return found
    texts = tuple(text for text in marked if MISSING.fullmatch(text) and pc.index(found.values, text).as_py() >= 0)
    if not texts:
        return found
    values = pc.if_else(pc.is_in(found.values, pa.array(texts)), None, found.values)
    return replace(found, values=values, markers=(*found.markers, *texts))


def _together(first: Doubt, second: Doubt) -> Doubt:
    """Each reading of the first, with and without the markers that the second asks about."""
    markers = kind(second.readings[0].type).missing if second.readings[0].type else ()
    if not markers:
        return first
    also, both = second.readings[0].means, []
    for reading in first.readings:
        if reading.type:
            known = kind(reading.type)
            more = with_missing(reading.type.partition(" missing ")[0], (*known.missing, *markers))
            both.append(Reading(f"{reading.means}; {listed(markers)} {also}", more))
        both.append(reading)
    return replace(first, readings=tuple(both))


def _markers(found: Guess) -> Iterator[Doubt]:
    """Numbers that may stand for a missing one, as -999 does."""
    seen = {_spelled(found, value): count for value, count in markers_of(found.numbers).items()}
    if seen:
        values = np.unique(found.numbers[~np.isnan(found.numbers)])
        others = values[~_is_strange(values)]
        rows = f"in {sum(seen.values()):,} row{'s' * (sum(seen.values()) != 1)}"
        rest = f"and {listed(list(seen)[1:])}, " if len(seen) > 1 else ""
        why = f"{rest}{rows}; the others are {others.min():,g} to {others.max():,g}"
        ways = (Reading("missing", with_missing(found.type, (*found.kind.missing, *seen))),
                Reading("a number like the others", found.type))  # fmt: skip
        yield Doubt(found.name, next(iter(seen)), ways, why)


def _is_marker(value: float, count: int, others: np.ndarray, often: np.ndarray) -> bool:
    text, low, high = f"{value:g}", others.min(), others.max()
    if text == "-1":  # the only number below zero, of many
        return bool(low >= 0 and len(others) >= 10 and count >= 2)
    if text == "9":  # as answers to a question are coded
        coded = len(others) <= 7 and low >= 0 and high == low + len(others) - 1 and (others % 1 == 0).all()
        return bool(coded and high <= 7 and count >= 2)
    if value < 0 <= low:
        return True
    apart = (value < low or value > high) and min(abs(value - low), abs(value - high)) > APART * (high - low)
    return bool((apart and (value < 0 or count > 1)) or count >= max(LEAST_OFTEN, OFTEN * often.max()))


def markers_of(numbers: np.ndarray) -> dict[float, int]:
    """Numbers that may stand for a missing one by the rule of the proposal, each with how often it comes."""
    values, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    strange = _is_strange(values)
    others, often = values[~strange], counts[~strange]
    if len(others) < 2 or not strange.any():
        return {}
    pairs = zip(values[strange].tolist(), counts[strange].tolist(), strict=True)
    return {value: int(n) for value, n in pairs if _is_marker(value, int(n), others, often)}


def _is_strange(values: np.ndarray) -> np.ndarray:
    """Whether each is a number of nines only, or -1."""
    return np.isin(values, NINES)


def missing_too(declared: str, value: float) -> str:
    """The declared type of a column of numbers, with the value among those that stand for a missing one."""
    return with_missing(declared.partition(" missing ")[0], (*kind(declared).missing, f"{value:g}"))


def spellings_of(names: Sequence[str]) -> list[list[str]]:
    """Names that differ in case or blanks only, those of one name together."""
    together: dict[str, list[str]] = {}
    for name, text in zip(plain_case(pa.array(names, pa.string())).to_pylist(), names, strict=True):
        together.setdefault(name, []).append(text)
    return [same for same in together.values() if len(same) > 1]


def _dashes(found: Guess) -> Iterator[Doubt]:
    """A dash among amounts, which sheets write for 0."""
    if found.word == "number" and "-" in found.markers:
        ways = (Reading("missing", with_missing(found.type, (*found.kind.missing, "-"))),
                Reading("0", choice="write 0 in the file"))  # fmt: skip
        yield Doubt(found.name, "-", ways, "among amounts")


def _spelled(found: Guess, value: float) -> str:
    """A number as the column spells it."""
    if found.word != "number":
        return f"{value:.15g}"
    return str(found.values[int(np.flatnonzero(found.numbers == value)[0])].as_py())


def _same_numbers(found: Guess) -> Iterator[Doubt]:
    """One number in two spellings, which would be two classes."""
    if not is_text(found.values.type) or found.word == "number" or len(np.unique(found.numbers)) > MOST_ALIKE:
        return
    texts = pc.unique(found.known).to_pylist()
    for _, same in groupby(sorted(texts, key=float), key=float):
        first, *more = same
        if more:
            ways = (Reading("one class", "category float"), Reading("two classes", "category"))
            yield Doubt(found.name, first, ways, f"and there is {quoted(more[0])}")
            return


def _no_days(found: Guess) -> Iterator[Doubt]:
    """A day that comes often, or stands far from the others, and may stand for none."""
    days, counts = np.unique(found.days.to_numpy(zero_copy_only=False), return_counts=True)
    for at, day in enumerate(days):
        others, often = np.delete(days, at), np.delete(counts, at)
        if str(day) not in NO_DAYS or len(others) < 2:
            continue
        gap = min(abs(int((day - other).astype(int))) for other in (others.min(), others.max()))
        wide = int((others.max() - others.min()).astype(int))
        if (day < others.min() or day > others.max()) and gap > APART * wide or counts[at] > OFTEN * often.max():
            texts = found.known.filter(pc.equal(found.days, pa.scalar(day.astype(object), pa.date32())))
            text = str(texts[0].as_py()) if found.kind.form else str(day)
            ways = (Reading("missing", with_missing(found.type, (*found.kind.missing, text))),
                    Reading("this day", found.type))  # fmt: skip
            yield Doubt(found.name, text, ways, f"in {counts[at]:,} rows")


def _spellings(found: Guess) -> Iterator[Doubt]:
    """Names that differ in case or blanks only, and words of one meaning."""
    every = pc.unique(found.known)
    plain = plain_case(every)
    if pc.count_distinct(plain).as_py() < len(every):
        together: dict[str, list[str]] = {}
        for name, text in zip(plain.to_pylist(), every.to_pylist(), strict=True):
            together.setdefault(name, []).append(text)
        first, *more = next(texts for texts in together.values() if len(texts) > 1)
        fewer = f"{len(every):,} different names"
        ways = (Reading(f"one name, of {len(together):,}", "category any case"), Reading(fewer, found.type))
        yield Doubt(found.name, first, ways, f"and there is {', '.join(map(quoted, more[:3]))}")
    elif len(every) <= MOST_ALIKE:
        for words in ALIKE:
            same = [text for text, name in zip(every.to_pylist(), plain.to_pylist(), strict=True) if name in words]
            if len(same) > 1 and max(map(len, same)) > 1:
                ways = (Reading("one meaning", choice="write them alike in the file"),
                        Reading(f"{len(same)} different names", found.type))  # fmt: skip
                yield Doubt(found.name, same[0], ways, f"and there is {', '.join(map(quoted, same[1:]))}")


def _missing(found: Guess, *, target: bool) -> Iterator[Doubt]:
    """Words that may stand for a missing value."""
    pattern = MISSING_TARGET if target else MISSING
    texts = [text for text in pc.unique(found.known).to_pylist() if pattern.fullmatch(text)]
    texts += found.markers if target else ()
    if texts:
        ways = (Reading("missing" + (", its rows are left out" if target else ""),
                        with_missing(found.type, (*found.kind.missing, *texts))),
                Reading("a class" if target else "a name", found.type))  # fmt: skip
        yield Doubt(found.name, texts[0], ways, f"and there is {listed(texts[1:])}" if texts[1:] else "")


def sums(rows: pa.Table, declared: Collection[str]) -> tuple[pa.Table, list[Doubt]]:
    """The rows without those at the end that seem to be sums of the others, as a sheet has them; and the question.

    Args:
        declared: Columns whose types the user gives: such a row stays if the question is about one of them.
    """
    for place in range(rows.num_rows - 1, max(LEAST_ROWS, rows.num_rows - 1 - LAST_ROWS), -1):
        column, why = _sum(rows, place)
        if column and column not in declared:
            rest = rows.slice(0, place)
            text = _at(rows[column], place)
            ways = (Reading("a sum of the rows above", choice="take the row out of the file"),
                    Reading("a row like the others", "category" if text else guess("", rest[column]).type))  # fmt: skip
            return rest, [Doubt(column, text, ways, f"row {place + 1:,} of {rows.num_rows:,} {why}")]
    return rows, []


def _at(column: pa.ChunkedArray, place: int) -> str:
    value = column[place].as_py()
    return "" if value is None else str(value).strip()


def _sum(rows: pa.Table, place: int) -> tuple[str, str]:
    """The column in which a row names a sum, or lacks what the rows above have, and why it seems to be one."""
    texts = {name: _at(rows[name], place) for name in rows.column_names}
    for name, text in texts.items():
        if SUM.fullmatch(text.rstrip(":")) and _count(rows[name], text) == 1:
            return name, "seems to be a sum"
    above = rows.slice(0, place)
    empty = next((name for name, text in texts.items() if not text and not _count(above[name], "")), "")
    added = next((name for name, text in texts.items() if text and empty and _adds_up(rows[name], place)), "")
    return (empty, f"is empty here, and {added} is the sum of the rows above") if added else ("", "")


def _count(column: pa.ChunkedArray, text: str) -> int:
    """How many rows have a text; of "" how many have no value."""
    texts = pc.fill_null(pc.utf8_trim(column.cast(pa.string()), BLANK), "")
    return int(pc.sum(pc.equal(texts, text)).as_py() or 0)


def _adds_up(column: pa.ChunkedArray, place: int) -> bool:
    """Whether a number is the sum of all above it."""
    if pa.types.is_nested(column.type) or (found := guess("", column)).word not in NUMBERS:
        return False
    above = found.numbers[:place]
    above = above[~np.isnan(above)]
    return len(above) >= LEAST_ROWS and bool(above.any() and np.isclose(found.numbers[place], above.sum(), rtol=1e-9))


def time(names: Sequence[str], columns: Mapping[str, Guess]) -> list[Doubt]:
    """Which of several dates is the time of the rows, and whether one is that a few rows lack."""
    none = Reading("no time: a random split", choice="--time none")
    if len(names) > 1:
        ways = tuple(Reading(f"the time is {name}", choice=f"--time {shlex.quote(name)}") for name in names)
        why = f"{listed(names)} are dates, and one may be the time by which rows are split"
        return [Doubt("", "", (*ways, none), why)]
    lacking = [c for c in columns.values() if c.word in DATES and 0 < c.missing <= MOST_LACKING and months(c) > 1]
    if names or len(lacking) != 1:
        return []
    rows = len(lacking[0].values) - len(lacking[0].known)
    fill = Reading("the time of the rows", choice="fill it in, or take those rows out of the file")
    return [Doubt(lacking[0].name, "", (fill, none), f"a date, and empty in {rows:,} row{'s' * (rows != 1)}")]
