"""Finds the type that the texts of a column spell (numbers, dates, booleans), and doubts about it."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.text.printable import join_names, quote
from vgp.data.tasks.table import column_types as numbers
from vgp.data.tasks.table.ambiguities import Doubt, Reading
from vgp.data.tasks.table.column_types import NumberForm

#: The largest share of the distinct texts of a date column that are no dates.
MOST_STRAY = 0.1
#: Names of columns whose whole numbers are codes.
CODES = re.compile(
    r"(^|[_\s-])(id|code|zip|zipcode|plz|postcode|postal|phone|iban|sku|class|type|category|cluster|grade)$", re.I
)
#: Names of columns whose numbers with leading zeros are certainly not amounts.
PADDED = re.compile(CODES.pattern.replace("(id|", "(id|no|nr|num|number|key|ean|isin|uuid|"), re.I)
INT = r"^[+-]?\d{1,18}$"
FLOAT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
ISO_DATE = r"^\d{4}-\d{2}-\d{2}$"
ISO_TIME = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$"
ISO_ZONE = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})$"
#: Formats of dates besides ISO 8601; the month first before the day first.
FORMS = (
    "%Y-%m-%d",
    "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y",
    "%d %B %Y", "%B %d, %Y",
    "%d-%b-%y", "%m/%d/%y", "%d/%m/%y", "%y/%m/%d", "%d.%m.%y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d",
    "%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%m-%Y", "%b-%y", "%b %y", "%b-%Y", "%b %Y", "%B %Y",
)  # fmt: skip
CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
#: Texts that may be a date in one of the formats, or in ISO 8601.
DATE_LIKE = (r"^(\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}|[A-Za-z]{3,9} \d{1,2}, ?\d{4}|"
             r"\d{4}[-/]\d{1,2}$|\d{1,2}[-./]\d{4}$|[A-Za-z]{3,9}[ -]\d{2,4}$)")  # fmt: skip
#: Whole numbers that spell days or months, with their format.
COMPACT = ((r"^(19|20)\d{6}$", "%Y%m%d"), (r"^(19|20)\d{4}$", "%Y%m"))
#: Names of columns with moments.
MOMENT = re.compile(r"time|date|datum|stamp|_at$|^(at|ts|when)$", re.I)
#: Units that whole numbers in such a column may count: the unit, the epoch, and the bounds.
COUNTED = (
    ("seconds", datetime(1970, 1, 1), 946_684_800, 2_208_988_800),
    ("milliseconds", datetime(1970, 1, 1), 946_684_800_000, 2_208_988_800_000),
    ("microseconds", datetime(1970, 1, 1), 946_684_800_000_000, 2_208_988_800_000_000),
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
    if all_match(texts, INT):
        if pc.any(pc.match_substring_regex(texts, r"^[+-]?0\d")).as_py():
            return SpelledType("category", "digits with leading zeros", _zeros(name, texts))
        return SpelledType("int", "", days_as_numbers(name, texts, ""))
    if forms := numbers.find_forms(texts):
        return _choose_number_type(name, texts, forms)
    if set(texts[:5].to_pylist()) <= {"true", "false", "True", "False", "TRUE", "FALSE"}:
        return SpelledType("bool") if len(texts) <= 2 else None
    for form, type_ in ((ISO_DATE, "date"), (ISO_TIME, "timestamp"), (ISO_ZONE, "timestamp UTC")):
        if all_match(texts, form):
            return SpelledType(type_)
    return _date(name, texts)


def matches_pattern(values: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(values, pattern)


def all_match(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(matches_pattern(values, pattern)).as_py())


def choose_number_type(texts: pa.Array, form: NumberForm) -> str:
    if form.digits == numbers.POINT and not form.sign and all_match(texts, FLOAT):
        return "float"
    return (
        "int" if form.digits == numbers.NEITHER and not form.sign and all_match(texts, INT) else f"number {form.text}"
    )


def _choose_number_type(name: str, texts: pa.Array, forms: Sequence[NumberForm]) -> SpelledType:
    """Returns the type of texts that are numbers in one form, or in two forms with different values."""
    types = [choose_number_type(texts, form) for form in forms]
    why = "" if types[0] == "float" else f"written as {quote(texts[0].as_py())}"
    if len(forms) == 1:
        moments = days_as_numbers(name, texts, "") if types[0] == "float" else ()
        return SpelledType(types[0], why, moments or _signs(name, texts, forms[0]))
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
    """Asks about numbers that may be days, such as 20230101, or seconds or days since an epoch.

    Args:
        prefix: "int " if the file stores numbers, else "".
    """
    if len(texts) < 2:
        return ()
    first, whole = texts[0].as_py(), all_match(texts, INT)
    number = Reading(f"the number {float(first):,.15g}", "int" if whole else "float")
    for pattern, form in COMPACT:
        if all_match(texts, pattern) and not (dates := as_dates(texts, form)).null_count:
            return (Doubt(name, first, (Reading(_format_day(dates[0]), f"date {prefix}{form}"), number)),)
    if not MOMENT.search(name) or not all_match(texts, r"^\d{5,16}(\.\d*)?$"):
        return ()
    least, most = pc.min_max(texts.cast(pa.float64())).as_py().values()
    for unit, start, lowest, highest in COUNTED:
        if lowest <= least and most <= highest:
            moment = start + timedelta(**{unit: float(first)})
            as_moment = Reading(f"{moment:%Y-%m-%d %H:%M}", choice="write dates in this form in the file")
            return (Doubt(name, first, (as_moment, number)),)
    return ()


def _format_day(date: pa.Scalar) -> str:
    return f"{date.as_py():%d %B %Y}".lstrip("0")


def as_dates(texts: pa.Array, form: str) -> pa.Array:
    """Parses texts as dates of a format; null if the format does not fit or the year is not in 1900 to 2200."""
    dates = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    known = pc.and_(pc.greater_equal(pc.year(dates), 1900), pc.less_equal(pc.year(dates), 2200))
    if "%b" in form:  # Arrow also reads full names of months, engines do not
        known = pc.and_(known, pc.invert(matches_pattern(texts, "[A-Za-z]{4}")))
    return pc.if_else(known, dates, None)


def parse_dates(texts: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yields each type of date that fits at least one text, with the texts parsed by it."""
    if not len(texts) or pc.mean(matches_pattern(texts, DATE_LIKE).cast(pa.float64())).as_py() < 1 - MOST_STRAY:
        return
    for clock in CLOCKS:
        for form in FORMS:
            dates = as_dates(texts, form + clock)
            if dates.null_count < len(dates):
                yield f"{'timestamp' if clock else 'date'} {form}{clock}", dates


def _date(name: str, texts: pa.Array) -> SpelledType | None:
    """Returns the type of texts that are all dates of one format; formats that give different days are a doubt."""
    fitting = [(type_, dates) for type_, dates in parse_dates(texts) if not dates.null_count]
    if not fitting:
        return None
    different = [(type_, dates) for i, (type_, dates) in enumerate(fitting)
                 if not any(dates.equals(other) for _, other in fitting[:i])]  # fmt: skip
    if len(different) == 1:
        return SpelledType(fitting[0][0], "", _century(name, texts, *fitting[0]))
    at = next(i for i in range(len(texts)) if len({dates[i].as_py() for _, dates in different}) == len(different)
              or i == len(texts) - 1)  # fmt: skip
    readings = tuple(Reading(_format_day(dates[at]), type_) for type_, dates in different)
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
