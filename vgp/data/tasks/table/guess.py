"""What a column of a sample seems to hold: its type, and why."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.exits import UserError
from vgp.base.text.printable import listed, quoted
from vgp.data.sources import parquet
from vgp.data.sources.values import is_text
from vgp.data.tasks.table import kinds as numbers
from vgp.data.tasks.table.doubts import Doubt, Reading
from vgp.data.tasks.table.features import ANY_CASE, BLANKS, PLAIN_FORMS, stored
from vgp.data.tasks.table.kinds import DATES, Kind, NumberForm, kind, with_missing

#: What people write for a missing value; in a column of text only those that are no word.
MARKERS_IN_TEXT = ("?", "-", "--", ".", "\\N", "#N/A", "N/A", "n/a", "NULL", "null", "NaN", "nan")
MARKERS = (*MARKERS_IN_TEXT, "NA", "na", "Null", "None", "none", "unknown", "missing")
#: Of the different values of a column of numbers or dates, at least so many, so few may be something else.
LEAST_ALIKE, MOST_STRAY, MOST_STRAYS = 10, 0.1, 20
#: Whole numbers whose names say that they are codes.
CODES = re.compile(
    r"(^|[_\s-])(id|code|zip|zipcode|plz|postcode|postal|phone|iban|sku|class|type|category|cluster|grade)$", re.I
)
#: Names of columns whose numbers begin with zeros, and are no amounts.
PADDED = re.compile(CODES.pattern.replace("(id|", "(id|no|nr|num|number|key|ean|isin|uuid|"), re.I)
#: Numbers that carry a unit.
UNITS = r"^[+-]?\d[\d.,]* ?(k|K|m|M|kg|g|mg|t|cm|mm|km|h|min|s|ms|B|kB|KB|MB|GB|TB|lb|lbs|oz|ft|in)?$"
#: Free text has at least so many words, or letters, a value, on average.
WORDS, LETTERS = 4, 40
#: A text that has another value in more of the rows than this is no category.
MOSTLY_UNIQUE = 0.5
INT = r"^[+-]?\d{1,18}$"
FLOAT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
ISO_DATE = r"^\d{4}-\d{2}-\d{2}$"
ISO_TIME = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$"
ISO_ZONE = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})$"
#: Other forms of dates, those with the month first before those with the day first.
_FORMS = (
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d.%m.%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d %b %Y",
    "%b %d, %Y",
    "%d-%b-%Y",
    "%d %B %Y",
    "%B %d, %Y",
)
_SHORT = ("%d-%b-%y", "%m/%d/%y", "%d/%m/%y", "%y/%m/%d", "%d.%m.%y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d")
FORMS = (*_FORMS, *_SHORT)
CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
#: What may be a date in one of the forms, or in ISO 8601's.
DATE_LIKE = r"^(\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}|[A-Za-z]{3,9} \d{1,2}, ?\d{4})"
YEAR = r"\b(19|20)\d\d\b"
#: Whole numbers that spell days or months, and how.
COMPACT = ((r"^(19|20)\d{6}$", "%Y%m%d"), (r"^(19|20)\d{4}$", "%Y%m"))
#: Names of moments, and what whole numbers in such a column may count, from when on, and between which bounds.
MOMENT = re.compile(r"time|date|datum|stamp|_at$|^(at|ts|when)$", re.I)
COUNTED = (
    ("seconds", datetime(1970, 1, 1), 946_684_800, 2_208_988_800),
    ("milliseconds", datetime(1970, 1, 1), 946_684_800_000, 2_208_988_800_000),
    ("days", datetime(1899, 12, 30), 25_569, 62_091),
)
#: A year of two digits that would be this one, or a later one, may be of the century before.
FAR_AHEAD = 2040
#: What an engine takes off the ends of a text.
BLANK = " \t\n\r\v\f"


@dataclass(frozen=True)
class Guess:
    """A column of the sample, and what it seems to hold."""

    name: str
    #: The values, all of one type; of text without blanks around, and null where a marker says that one is missing.
    values: pa.Array
    #: In the words of a task.toml; "" for what cannot be learned from.
    type: str
    why: str = ""
    #: Markers for a missing value that occur.
    markers: tuple[str, ...] = ()
    #: What its values may be otherwise.
    doubts: tuple[Doubt, ...] = ()

    @cached_property
    def known(self) -> pa.Array:
        return self.values.drop_null()

    @cached_property
    def distinct(self) -> int:
        return int(pc.count_distinct(self.known).as_py())

    @property
    def missing(self) -> float:
        """The share of the rows that have no value."""
        return 1 - len(self.known) / len(self.values)

    @property
    def unique(self) -> bool:
        """Whether every row has a value of its own."""
        return self.distinct == len(self.values)

    @property
    def word(self) -> str:
        return self.type.partition(" ")[0]

    @cached_property
    def kind(self) -> Kind:
        return kind(self.type)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The values as float64, nan for missing; of a column that is a number."""
        if self.word == "number":
            return numbers.parsed(self.values, _form(self.kind))
        values = self.values.cast(pa.float64(), safe=False)
        return np.asarray(pc.fill_null(values, np.nan).to_numpy(zero_copy_only=False))

    @cached_property
    def days(self) -> pa.Array:
        """The days, without those that are missing; of a column of dates."""
        known, form = self.known, self.kind.form.removeprefix("int ")
        if form:
            known = pc.strptime(known.cast(pa.string()), format=form, unit="s", error_is_null=True)
        elif pa.types.is_string(known.type):
            known = pc.strptime(pc.utf8_slice_codeunits(known, 0, 10), format="%Y-%m-%d", unit="s", error_is_null=True)
        return known.cast(pa.timestamp("us"), safe=False).cast(pa.date32(), safe=False)


def guess(name: str, column: pa.ChunkedArray, declared: str = "") -> Guess:
    """What the column holds, by all its values in the sample.

    Args:
        declared: The type that the user gives, in the words of a task.toml; "" = none.

    Raises:
        UserError: that is no type, or a value is not of it.
    """
    values = column.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_decimal(values.type) and values.type.scale <= 0:  # as Oracle and Snowflake store whole numbers
        with suppress(pa.ArrowInvalid):
            values = values.cast(pa.int64())
    if is_text(values.type):
        values = pc.utf8_trim(values.cast(pa.string()), BLANK)
        values = pc.if_else(pc.equal(values, ""), None, values)
    if declared:
        return _declared(name, values, declared)
    return _text(name, values) if is_text(values.type) else _stored(name, values)


def _stored(name: str, values: pa.Array) -> Guess:
    """Of values that are no text."""
    kinds = pa.types
    if kinds.is_boolean(values.type):
        return Guess(name, values, "bool")
    if kinds.is_integer(values.type):
        found = Guess(name, values, "int")
        if _is_code(found):
            return Guess(name, values, "category int", "named like a code")
        return replace(found, doubts=_days_as_numbers(name, pc.unique(found.known).cast(pa.string()), "int "))
    if kinds.is_floating(values.type) or kinds.is_decimal(values.type):
        known = pc.fill_null(values.cast(pa.float64()), np.nan)
        return Guess(name, pc.if_else(pc.is_nan(known), None, known), "float")
    if kinds.is_date(values.type):
        return Guess(name, values, "date")
    if kinds.is_timestamp(values.type):
        return Guess(name, values, "timestamp UTC" if values.type.tz else "timestamp")
    if kinds.is_null(values.type):
        return Guess(name, values.cast(pa.string()), "")
    return Guess(name, pa.nulls(len(values), pa.string()), "", f"of the type {values.type}, which is no single value")


def _declared(name: str, values: pa.Array, declared: str) -> Guess:
    """The column in the type that the user gives it."""
    option = f"--read {name}={declared}"
    try:
        wanted = kind(declared)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None
    if not is_text(values.type):
        if not parquet.fits(values.type, stored(wanted)):
            raise UserError(f"{option}: the file stores {values.type}, which is not read as {declared}.")
        marked = pc.is_in(values.cast(pa.string()), pa.array(wanted.missing, pa.string()))
        found = _stored(name, pc.if_else(marked, None, values))
        return replace(found, type=declared, why="as given", doubts=())
    usual = () if wanted.name in ("category", "text") else MARKERS
    markers = tuple(text for text in pc.unique(values.drop_null()).to_pylist() if text in usual)
    known = _without(values, {*markers, *wanted.missing})
    fits = _fits(pc.unique(known.drop_null()), wanted)
    if (at := fits.index(False).as_py()) >= 0:
        wrong = pc.unique(known.drop_null())[at].as_py()
        row = pc.index(values, wrong).as_py() + 1
        raise UserError(f"{option}: {quoted(wrong)}, in row {row:,} of those that were read, is not written so.")
    if wanted.word == ANY_CASE:
        known = plain_case(known)
    if wanted.word in ("category int", "category float"):
        known = known.cast(stored(wanted))
    return Guess(name, known, declared, "as given", markers)


def plain_case(texts: pa.Array) -> pa.Array:
    """As `features.plain_case`, of Arrow's."""
    return pc.utf8_trim(pc.replace_substring_regex(pc.utf8_lower(texts), BLANKS, " "), " ")


def _fits(every: pa.Array, wanted: Kind) -> pa.Array:
    """Whether each text is a value of the type."""
    if wanted.name in ("int", "float", "number"):
        form = _form(wanted) if wanted.name == "number" or wanted.marked else None
        return (
            pa.array(numbers.matches(every, form)) if form else _matching(every, INT if wanted.name == "int" else FLOAT)
        )
    if wanted.word == "category int":
        return _matching(every, INT)
    if wanted.word == "category float":
        return _matching(every, r"^[+-]?\d{1,15}(\.0*)?$")
    if wanted.name == "bool":
        return _matching(every, "(?i)^(true|false|0|1)$")
    if wanted.form:
        return _as_dates(every, wanted.form.removeprefix("int ")).is_valid()
    iso = {"date": ISO_DATE, "timestamp": ISO_TIME, "timestamp UTC": ISO_ZONE}
    return _matching(every, iso.get(wanted.word, ""))


def _form(wanted: Kind) -> NumberForm:
    return PLAIN_FORMS.get(wanted.word) or cast(NumberForm, numbers.form_of(wanted.form))


def _is_code(found: Guess) -> bool:
    return bool(CODES.search(found.name)) and found.distinct <= max(20, len(found.values) // 10)


def _text(name: str, values: pa.Array) -> Guess:
    """Of text: numbers, dates and booleans that it spells, else a category or free text."""
    every = pc.unique(values.drop_null())
    found = _spelled(name, every)
    markers: tuple[str, ...] = ()
    if not found:
        markers = tuple(value for value in every.to_pylist() if value in MARKERS) if len(every) < 100_000 else ()
        found = _spelled(name, _without(every, markers).drop_null()) if markers else None
    if found:
        made = Guess(name, _without(values, markers), found.type, found.why, markers, found.doubts)
        if made.type == "int" and _is_code(made):
            return Guess(name, made.values, "category", "whole numbers, named like a code", markers)
        return made
    known = _without(every, markers).drop_null()
    markers = tuple(value for value in MARKERS_IN_TEXT if pc.index(every, value).as_py() >= 0)
    made = _words(Guess(name, _without(values, markers), "category", "", markers))
    return made if _is_code(made) else replace(made, doubts=_mixed(name, known))


def _without(values: pa.Array, markers: Collection[str]) -> pa.Array:
    return pc.if_else(pc.is_in(values, pa.array(list(markers), pa.string())), None, values) if markers else values


@dataclass(frozen=True)
class _Spelled:
    type: str
    why: str = ""
    doubts: tuple[Doubt, ...] = ()


def _spelled(name: str, every: pa.Array) -> _Spelled | None:
    """The type that all different values spell."""
    if not len(every):
        return None
    if _all(every, INT):
        if pc.any(pc.match_substring_regex(every, r"^[+-]?0\d")).as_py():
            return _Spelled("category", "digits with leading zeros", _zeros(name, every))
        return _Spelled("int", "", _days_as_numbers(name, every, ""))
    if forms := numbers.forms(every):
        return _of_numbers(name, every, forms)
    if set(every[:5].to_pylist()) <= {"true", "false", "True", "False", "TRUE", "FALSE"}:
        return _Spelled("bool") if len(every) <= 2 else None
    for form, type_ in ((ISO_DATE, "date"), (ISO_TIME, "timestamp"), (ISO_ZONE, "timestamp UTC")):
        if _all(every, form):
            return _Spelled(type_)
    return _date(name, every)


def _matching(values: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(values, pattern)


def _all(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(_matching(values, pattern)).as_py())


def _number_type(every: pa.Array, form: NumberForm) -> str:
    if form.digits == numbers.POINT and not form.sign and _all(every, FLOAT):
        return "float"
    return "int" if form.digits == numbers.NEITHER and not form.sign and _all(every, INT) else f"number {form.text}"


def _of_numbers(name: str, every: pa.Array, forms: Sequence[NumberForm]) -> _Spelled:
    """Of texts that are numbers in one form, or in two that give other numbers."""
    types = [_number_type(every, form) for form in forms]
    why = "" if types[0] == "float" else f"written as {quoted(every[0].as_py())}"
    if len(forms) == 1:
        return _Spelled(types[0], why, _signs(name, every, forms[0]))
    example = next(text for text in every.to_pylist() if len({numbers.shown(text, form) for form in forms}) > 1)
    ways = tuple(Reading(numbers.shown(example, form), type_) for form, type_ in zip(forms, types, strict=True))
    return _Spelled(types[0], why, (Doubt(name, example, ways),))


def _signs(name: str, every: pa.Array, form: NumberForm) -> tuple[Doubt, ...]:
    """Of numbers with several signs, or with a percent sign that some lack."""
    if form.sign != numbers.ANY:
        return ()
    signs, plain = numbers.signs_in(every.to_pylist()), f"number {form.text}"
    example = next(text for text in every.to_pylist() if signs[0] in text)
    if signs == ["%"]:
        hundredths = replace(form, sign=numbers.PERCENT, before=False)
        ways = (Reading(numbers.shown(example, hundredths), f"number {hundredths.text}"),
                Reading(numbers.shown(example, form), plain))  # fmt: skip
        return (Doubt(name, example, ways, "and other values have no %"),)
    ways = (Reading("all count the same thing", plain), Reading("names, not numbers", "category"))
    return (Doubt(name, example, ways, f"and there are other signs: {listed(signs)}"),)


def _zeros(name: str, every: pa.Array) -> tuple[Doubt, ...]:
    """Of digits with leading zeros: amounts, or codes where the name of the column does not tell; two may be one."""
    plain = pc.replace_substring_regex(every, r"^([+-]?)0+(\d)", r"\1\2").to_pylist()
    one = next((value for value, count in Counter(plain).items() if count > 1), None)
    if one is None and PADDED.search(name):
        return ()
    if one is None:
        example = next(text for text, value in zip(every.to_pylist(), plain, strict=True) if text != value)
        ways = (Reading(f"the number {int(example):,}", "int"), Reading("a name", "category"))
        return (Doubt(name, example, ways),)
    first, second = [text for text, value in zip(every.to_pylist(), plain, strict=True) if value == one][:2]
    ways = (Reading("one number", "int"), Reading("two names", "category"))
    return (Doubt(name, first, ways, f"and there is {quoted(second)}"),)


def _days_as_numbers(name: str, every: pa.Array, prefix: str) -> tuple[Doubt, ...]:
    """Of whole numbers that all spell a day or a month, such as 20230101, or that may count from a day on.

    Args:
        prefix: `int ` where the file stores numbers.
    """
    if len(every) < 2:
        return ()
    number = Reading(f"the number {int(every[0].as_py()):,}", "int")
    for pattern, form in COMPACT:
        if _all(every, pattern) and not (dates := _as_dates(every, form)).null_count:
            return (Doubt(name, every[0].as_py(), (Reading(_day(dates[0]), f"date {prefix}{form}"), number)),)
    if not MOMENT.search(name) or not _all(every, r"^\d{5,13}$"):
        return ()
    least, most = pc.min_max(every.cast(pa.int64())).as_py().values()
    for unit, start, first, last in COUNTED:
        if first <= least and most <= last:
            moment = start + timedelta(**{unit: int(every[0].as_py())})
            written = Reading(f"{moment:%Y-%m-%d %H:%M}", choice="write it in this form in the file")
            return (Doubt(name, every[0].as_py(), (written, number)),)
    return ()


def _day(date: pa.Scalar) -> str:
    return f"{date.as_py():%d %B %Y}".lstrip("0")


def _as_dates(every: pa.Array, form: str) -> pa.Array:
    """The texts as dates of a form, null for another one and for a year that none would write."""
    dates = pc.strptime(every, format=form, unit="s", error_is_null=True)
    known = pc.and_(pc.greater_equal(pc.year(dates), 1900), pc.less_equal(pc.year(dates), 2200))
    if "%b" in form:  # Arrow reads whole names of months too, engines do not
        known = pc.and_(known, pc.invert(_matching(every, "[A-Za-z]{4}")))
    return pc.if_else(known, dates, None)


def _dates(every: pa.Array, *forms: str) -> Iterator[tuple[str, pa.Array]]:
    """The texts as dates of every form that one of them has."""
    if not len(every) or pc.mean(_matching(every, DATE_LIKE).cast(pa.float64())).as_py() < 1 - MOST_STRAY:
        return
    for clock in CLOCKS:
        for form in (*forms, *FORMS):
            dates = _as_dates(every, form + clock)
            if dates.null_count < len(dates):
                yield f"{'timestamp' if clock else 'date'} {form}{clock}", dates


def _date(name: str, every: pa.Array) -> _Spelled | None:
    """A date in a form of its own; two forms that give other days are a doubt."""
    fitting = [(type_, dates) for type_, dates in _dates(every) if not dates.null_count]
    if not fitting:
        return None
    different = [(type_, dates) for i, (type_, dates) in enumerate(fitting)
                 if not any(dates.equals(other) for _, other in fitting[:i])]  # fmt: skip
    if len(different) == 1:
        return _Spelled(fitting[0][0], "", _century(name, every, *fitting[0]))
    at = next(i for i in range(len(every)) if len({dates[i].as_py() for _, dates in different}) == len(different)
              or i == len(every) - 1)  # fmt: skip
    ways = tuple(Reading(_day(dates[at]), type_) for type_, dates in different)
    return _Spelled(fitting[0][0], "", (Doubt(name, every[at].as_py(), ways),))


def _century(name: str, every: pa.Array, type_: str, dates: pa.Array) -> tuple[Doubt, ...]:
    """Of years of two digits, one that engines read as one far ahead."""
    late = pc.index(pc.greater_equal(pc.year(dates), FAR_AHEAD), True).as_py() if "%y" in type_ else -1
    if late < 0:
        return ()
    year = dates[late].as_py().year
    ways = (Reading(f"in {year}", type_), Reading(f"in {year - 100}", choice="write years of four digits in the file"))
    return (Doubt(name, every[late].as_py(), ways),)


def _mixed(name: str, every: pa.Array) -> tuple[Doubt, ...]:
    """Of texts nearly all of which are numbers, or dates, of one form; or all of them in several forms."""
    if not len(every) or pc.mean(_matching(every, r"\d").cast(pa.float64())).as_py() < 1 - MOST_STRAY:
        return ()
    fitting = [(f"{digits}", pa.array(numbers.matches(every, NumberForm(digits, numbers.ANY))))
               for digits in (numbers.NEITHER, numbers.POINT, numbers.COMMA)]  # fmt: skip
    fitting += [(type_, dates.is_valid()) for type_, dates in _dates(every, "%Y-%m-%d")]
    least = min(len(every) - pc.sum(fits).as_py() for _, fits in fitting)
    best = [(type_, fits) for type_, fits in fitting if len(every) - pc.sum(fits).as_py() == least]
    names = Reading("names, not numbers", "category")
    if len(every) >= LEAST_ALIKE and least <= MOST_STRAY * len(every):
        strays = every.filter(pc.invert(best[0][1])).to_pylist()
        return (
            Doubt(name, strays[0], (*_without_strays(every, best, strays), names), "and nearly all others are alike"),
        )
    alike = Reading("numbers, or dates", choice="write all of them in one form in the file")
    every_one = pc.or_(
        _any([fits for _, fits in fitting]), pc.and_(_matching(every, DATE_LIKE), _matching(every, YEAR))
    )
    if len(every) > 1 and pc.all(every_one).as_py():
        first = every[0].as_py()
        other = every[max(1, pc.index(best[0][1], not best[0][1][0].as_py()).as_py())].as_py()
        return (Doubt(name, first, (alike, names), f"and {quoted(other)} is of another form"),)
    unit = next((text for text in every.to_pylist() if text[-1].isalpha()), "") if _all(every, UNITS) else ""
    if unit and len(every) > 1:
        alike = Reading("a number with a unit", choice="write all in one unit in the file, as numbers alone")
        return (Doubt(name, unit, (alike, names)),)
    return ()


def _without_strays(every: pa.Array, best: Sequence[tuple[str, pa.Array]], strays: Sequence[str]) -> Iterator[Reading]:
    """The types of the other values, with the strays as markers of missing ones."""
    if len(strays) > MOST_STRAYS:
        yield Reading("numbers, or dates", choice=f"write the {len(strays):,} others like most of them in the file")
        return
    rest = every.filter(best[0][1])
    dates = [type_ for type_, _ in best if "%" in type_]
    types = dates or [_number_type(rest, form) for form in numbers.forms(rest)]
    for type_ in dict.fromkeys(types):
        word = type_.partition(" ")[0]
        what = "date" if word in DATES else "number"
        yield Reading(f"missing, in a column of {what}s", with_missing(type_, tuple(strays)))


def _any(several: Sequence[pa.Array]) -> pa.Array:
    found = several[0]
    for more in several[1:]:
        found = pc.or_(found, more)
    return found


def _words(found: Guess) -> Guess:
    """A category, free text, or what names its row."""
    known = found.known
    if not len(known):
        return Guess(found.name, found.values, "", "", found.markers)
    words = pc.mean(pc.add(pc.count_substring(known, " "), 1)).as_py()
    letters = pc.mean(pc.utf8_length(known)).as_py()
    if found.distinct > MOSTLY_UNIQUE * len(known) and (words >= WORDS or letters >= LETTERS):
        return Guess(found.name, found.values, "text", "free text: its letters, words and digits", found.markers)
    if found.distinct > 20 and words >= 2 * WORDS:
        return Guess(found.name, found.values, "text", "free text: its letters, words and digits", found.markers)
    return found
