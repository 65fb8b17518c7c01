"""Finds the type that the texts of a column spell (numbers, dates, booleans), and doubts about it."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.text.printable import join_names, quote
from vgp.data.tasks.table import column_types as numbers
from vgp.data.tasks.table.ambiguities import Doubt, Reading
from vgp.data.tasks.table.column_types import DATES, NumberForm, with_missing

#: A column of numbers or dates may have strays: it needs this many distinct values, with at most this share and this
#: number of strays.
LEAST_ALIKE, MOST_STRAY, MOST_STRAYS = 10, 0.1, 20
#: Names of columns whose whole numbers are codes.
CODES = re.compile(
    r"(^|[_\s-])(id|code|zip|zipcode|plz|postcode|postal|phone|iban|sku|class|type|category|cluster|grade)$", re.I
)
#: Names of columns whose numbers with leading zeros are certainly not amounts.
PADDED = re.compile(CODES.pattern.replace("(id|", "(id|no|nr|num|number|key|ean|isin|uuid|"), re.I)
#: Numbers with a unit.
UNITS = r"^[+-]?\d[\d.,]* ?(k|K|m|M|kg|g|mg|t|cm|mm|km|h|min|s|ms|B|kB|KB|MB|GB|TB|lb|lbs|oz|ft|in)?$"
INT = r"^[+-]?\d{1,18}$"
FLOAT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
ISO_DATE = r"^\d{4}-\d{2}-\d{2}$"
ISO_TIME = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$"
ISO_ZONE = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})$"
#: Formats of dates besides ISO 8601; the month first before the day first.
FORMS = (
    "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y",
    "%d %B %Y", "%B %d, %Y",
    "%d-%b-%y", "%m/%d/%y", "%d/%m/%y", "%y/%m/%d", "%d.%m.%y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d",
)  # fmt: skip
CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
#: Texts that may be a date in one of the formats, or in ISO 8601.
DATE_LIKE = r"^(\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}|[A-Za-z]{3,9} \d{1,2}, ?\d{4})"
YEAR = r"\b(19|20)\d\d\b"
#: Whole numbers that spell days or months, with their format.
COMPACT = ((r"^(19|20)\d{6}$", "%Y%m%d"), (r"^(19|20)\d{4}$", "%Y%m"))
#: Names of columns with moments.
MOMENT = re.compile(r"time|date|datum|stamp|_at$|^(at|ts|when)$", re.I)
#: What whole numbers in such a column may count: the unit, the epoch, and the bounds.
COUNTED = (
    ("seconds", datetime(1970, 1, 1), 946_684_800, 2_208_988_800),
    ("milliseconds", datetime(1970, 1, 1), 946_684_800_000, 2_208_988_800_000),
    ("days", datetime(1899, 12, 30), 25_569, 62_091),
)
#: A year of two digits that engines read as this year or a later one may belong to the previous century.
FAR_AHEAD = 2040


@dataclass(frozen=True)
class SpelledType:
    """The type that the texts of a column spell."""

    type: str
    why: str = ""
    doubts: tuple[Doubt, ...] = ()


def find_spelled_type(name: str, texts: pa.Array) -> SpelledType | None:
    """Returns the type that all distinct texts spell, or None for plain text."""
    if not len(texts):
        return None
    if _all(texts, INT):
        if pc.any(pc.match_substring_regex(texts, r"^[+-]?0\d")).as_py():
            return SpelledType("category", "digits with leading zeros", _zeros(name, texts))
        return SpelledType("int", "", days_as_numbers(name, texts, ""))
    if forms := numbers.find_forms(texts):
        return _choose_number_type(name, texts, forms)
    if set(texts[:5].to_pylist()) <= {"true", "false", "True", "False", "TRUE", "FALSE"}:
        return SpelledType("bool") if len(texts) <= 2 else None
    for form, type_ in ((ISO_DATE, "date"), (ISO_TIME, "timestamp"), (ISO_ZONE, "timestamp UTC")):
        if _all(texts, form):
            return SpelledType(type_)
    return _date(name, texts)


def matches_pattern(values: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(values, pattern)


def _all(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(matches_pattern(values, pattern)).as_py())


def _number_type(texts: pa.Array, form: NumberForm) -> str:
    if form.digits == numbers.POINT and not form.sign and _all(texts, FLOAT):
        return "float"
    return "int" if form.digits == numbers.NEITHER and not form.sign and _all(texts, INT) else f"number {form.text}"


def _choose_number_type(name: str, texts: pa.Array, forms: Sequence[NumberForm]) -> SpelledType:
    """Returns the type of texts that are numbers in one form, or in two forms with different values."""
    types = [_number_type(texts, form) for form in forms]
    why = "" if types[0] == "float" else f"written as {quote(texts[0].as_py())}"
    if len(forms) == 1:
        return SpelledType(types[0], why, _signs(name, texts, forms[0]))
    example = next(text for text in texts.to_pylist() if len({numbers.format_number(text, form) for form in forms}) > 1)
    readings = tuple(
        Reading(numbers.format_number(example, form), type_) for form, type_ in zip(forms, types, strict=True)
    )
    return SpelledType(types[0], why, (Doubt(name, example, readings),))


def _signs(name: str, texts: pa.Array, form: NumberForm) -> tuple[Doubt, ...]:
    """Asks about numbers with different signs, or with a percent sign that some lack."""
    if form.sign != numbers.ANY:
        return ()
    signs, plain = numbers.find_signs(texts.to_pylist()), f"number {form.text}"
    example = next(text for text in texts.to_pylist() if signs[0] in text)
    if signs == ["%"]:
        hundredths = replace(form, sign=numbers.PERCENT, before=False)
        readings = (Reading(numbers.format_number(example, hundredths), f"number {hundredths.text}"),
                    Reading(numbers.format_number(example, form), plain))  # fmt: skip
        return (Doubt(name, example, readings, "other values have no %"),)
    readings = (Reading("numbers of one unit", plain), Reading("names, not numbers", "category"))
    return (Doubt(name, example, readings, f"other values have other signs: {join_names(signs)}"),)


def _zeros(name: str, texts: pa.Array) -> tuple[Doubt, ...]:
    """Asks whether digits with leading zeros are amounts or codes, unless the column has a usual name of codes."""
    plain = pc.replace_substring_regex(texts, r"^([+-]?)0+(\d)", r"\1\2").to_pylist()
    repeated = next((value for value, count in Counter(plain).items() if count > 1), None)
    if repeated is None and PADDED.search(name):
        return ()
    if repeated is None:
        example = next(text for text, value in zip(texts.to_pylist(), plain, strict=True) if text != value)
        readings = (Reading(f"the number {int(example):,}", "int"), Reading("a name", "category"))
        return (Doubt(name, example, readings),)
    first, second = [text for text, value in zip(texts.to_pylist(), plain, strict=True) if value == repeated][:2]
    readings = (Reading("one number", "int"), Reading("two names", "category"))
    return (Doubt(name, first, readings, f"also {quote(second)}"),)


def days_as_numbers(name: str, texts: pa.Array, prefix: str) -> tuple[Doubt, ...]:
    """Asks about whole numbers that may be days, such as 20230101, or seconds or days since an epoch.

    Args:
        prefix: "int " if the file stores numbers, else "".
    """
    if len(texts) < 2:
        return ()
    number = Reading(f"the number {int(texts[0].as_py()):,}", "int")
    for pattern, form in COMPACT:
        if _all(texts, pattern) and not (dates := as_dates(texts, form)).null_count:
            return (Doubt(name, texts[0].as_py(), (Reading(_day(dates[0]), f"date {prefix}{form}"), number)),)
    if not MOMENT.search(name) or not _all(texts, r"^\d{5,13}$"):
        return ()
    least, most = pc.min_max(texts.cast(pa.int64())).as_py().values()
    for unit, start, first, last in COUNTED:
        if first <= least and most <= last:
            moment = start + timedelta(**{unit: int(texts[0].as_py())})
            as_moment = Reading(f"{moment:%Y-%m-%d %H:%M}", choice="write dates in this form in the file")
            return (Doubt(name, texts[0].as_py(), (as_moment, number)),)
    return ()


def _day(date: pa.Scalar) -> str:
    return f"{date.as_py():%d %B %Y}".lstrip("0")


def as_dates(texts: pa.Array, form: str) -> pa.Array:
    """Parses texts as dates of a format; null if the format does not fit or the year is not in 1900 to 2200."""
    dates = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    known = pc.and_(pc.greater_equal(pc.year(dates), 1900), pc.less_equal(pc.year(dates), 2200))
    if "%b" in form:  # Arrow also reads full names of months, engines do not
        known = pc.and_(known, pc.invert(matches_pattern(texts, "[A-Za-z]{4}")))
    return pc.if_else(known, dates, None)


def _dates(texts: pa.Array, *forms: str) -> Iterator[tuple[str, pa.Array]]:
    """Yields each type of date that fits at least one text, with the texts parsed by it."""
    if not len(texts) or pc.mean(matches_pattern(texts, DATE_LIKE).cast(pa.float64())).as_py() < 1 - MOST_STRAY:
        return
    for clock in CLOCKS:
        for form in (*forms, *FORMS):
            dates = as_dates(texts, form + clock)
            if dates.null_count < len(dates):
                yield f"{'timestamp' if clock else 'date'} {form}{clock}", dates


def _date(name: str, texts: pa.Array) -> SpelledType | None:
    """Returns the type of texts that are all dates of one format; formats that give different days are a doubt."""
    fitting = [(type_, dates) for type_, dates in _dates(texts) if not dates.null_count]
    if not fitting:
        return None
    different = [(type_, dates) for i, (type_, dates) in enumerate(fitting)
                 if not any(dates.equals(other) for _, other in fitting[:i])]  # fmt: skip
    if len(different) == 1:
        return SpelledType(fitting[0][0], "", _century(name, texts, *fitting[0]))
    at = next(i for i in range(len(texts)) if len({dates[i].as_py() for _, dates in different}) == len(different)
              or i == len(texts) - 1)  # fmt: skip
    readings = tuple(Reading(_day(dates[at]), type_) for type_, dates in different)
    return SpelledType(fitting[0][0], "", (Doubt(name, texts[at].as_py(), readings),))


def _century(name: str, texts: pa.Array, type_: str, dates: pa.Array) -> tuple[Doubt, ...]:
    """Asks about a year of two digits that engines read as a year far ahead."""
    late = pc.index(pc.greater_equal(pc.year(dates), FAR_AHEAD), True).as_py() if "%y" in type_ else -1
    if late < 0:
        return ()
    year = dates[late].as_py().year
    readings = (
        Reading(f"in {year}", type_),
        Reading(f"in {year - 100}", choice="write years of four digits in the file"),
    )
    return (Doubt(name, texts[late].as_py(), readings),)


def find_mixed_texts(name: str, texts: pa.Array) -> tuple[Doubt, ...]:
    """Asks about texts that are nearly all numbers or dates of one form, or all of them in several forms."""
    if not len(texts) or pc.mean(matches_pattern(texts, r"\d").cast(pa.float64())).as_py() < 1 - MOST_STRAY:
        return ()
    fitting = [(f"{digits}", pa.array(numbers.matches(texts, NumberForm(digits, numbers.ANY))))
               for digits in (numbers.NEITHER, numbers.POINT, numbers.COMMA)]  # fmt: skip
    fitting += [(type_, dates.is_valid()) for type_, dates in _dates(texts, "%Y-%m-%d")]
    least = min(len(texts) - pc.sum(fits).as_py() for _, fits in fitting)
    best = [(type_, fits) for type_, fits in fitting if len(texts) - pc.sum(fits).as_py() == least]
    names = Reading("names, not numbers", "category")
    if len(texts) >= LEAST_ALIKE and least <= MOST_STRAY * len(texts):
        strays = texts.filter(pc.invert(best[0][1])).to_pylist()
        return (
            Doubt(name, strays[0], (*_without_strays(texts, best, strays), names), "unlike nearly all other values"),
        )
    one_form = Reading("numbers, or dates", choice="write all of them in one form in the file")
    fits_any = pc.or_(
        reduce(pc.or_, [fits for _, fits in fitting]),
        pc.and_(matches_pattern(texts, DATE_LIKE), matches_pattern(texts, YEAR)),
    )
    if len(texts) > 1 and pc.all(fits_any).as_py():
        first = texts[0].as_py()
        other = texts[max(1, pc.index(best[0][1], not best[0][1][0].as_py()).as_py())].as_py()
        return (Doubt(name, first, (one_form, names), f"and {quote(other)} has another form"),)
    unit = next((text for text in texts.to_pylist() if text[-1].isalpha()), "") if _all(texts, UNITS) else ""
    if unit and len(texts) > 1:
        one_unit = Reading("a number with a unit", choice="write plain numbers of one unit in the file")
        return (Doubt(name, unit, (one_unit, names)),)
    return ()


def _without_strays(texts: pa.Array, best: Sequence[tuple[str, pa.Array]], strays: Sequence[str]) -> Iterator[Reading]:
    """Yields the types of the other values, with the strays as markers of missing values."""
    if len(strays) > MOST_STRAYS:
        yield Reading("numbers, or dates", choice=f"write the {len(strays):,} exceptions like the rest in the file")
        return
    rest = texts.filter(best[0][1])
    dates = [type_ for type_, _ in best if "%" in type_]
    types = dates or [_number_type(rest, form) for form in numbers.find_forms(rest)]
    for type_ in dict.fromkeys(types):
        values = "dates" if type_.partition(" ")[0] in DATES else "numbers"
        yield Reading(f"missing, in a column of {values}", with_missing(type_, tuple(strays)))
