"""What the texts of a column spell: numbers, dates, or true and false; and what else they may be."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.text.printable import listed, quoted
from vgp.data.tasks.table import kinds as numbers
from vgp.data.tasks.table.doubts import Doubt, Reading
from vgp.data.tasks.table.kinds import DATES, NumberForm, with_missing

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
INT = r"^[+-]?\d{1,18}$"
FLOAT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
ISO_DATE = r"^\d{4}-\d{2}-\d{2}$"
ISO_TIME = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$"
ISO_ZONE = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})$"
#: Other forms of dates, those with the month first before those with the day first.
FORMS = (
    "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y",
    "%d %B %Y", "%B %d, %Y",
    "%d-%b-%y", "%m/%d/%y", "%d/%m/%y", "%y/%m/%d", "%d.%m.%y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d",
)  # fmt: skip
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


@dataclass(frozen=True)
class Spelled:
    type: str
    why: str = ""
    doubts: tuple[Doubt, ...] = ()


def spelled_type(name: str, every: pa.Array) -> Spelled | None:
    """The type that all different values spell."""
    if not len(every):
        return None
    if _all(every, INT):
        if pc.any(pc.match_substring_regex(every, r"^[+-]?0\d")).as_py():
            return Spelled("category", "digits with leading zeros", _zeros(name, every))
        return Spelled("int", "", days_as_numbers(name, every, ""))
    if forms := numbers.forms(every):
        return _of_numbers(name, every, forms)
    if set(every[:5].to_pylist()) <= {"true", "false", "True", "False", "TRUE", "FALSE"}:
        return Spelled("bool") if len(every) <= 2 else None
    for form, type_ in ((ISO_DATE, "date"), (ISO_TIME, "timestamp"), (ISO_ZONE, "timestamp UTC")):
        if _all(every, form):
            return Spelled(type_)
    return _date(name, every)


def matching(values: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(values, pattern)


def _all(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(matching(values, pattern)).as_py())


def _number_type(every: pa.Array, form: NumberForm) -> str:
    if form.digits == numbers.POINT and not form.sign and _all(every, FLOAT):
        return "float"
    return "int" if form.digits == numbers.NEITHER and not form.sign and _all(every, INT) else f"number {form.text}"


def _of_numbers(name: str, every: pa.Array, forms: Sequence[NumberForm]) -> Spelled:
    """Of texts that are numbers in one form, or in two that give other numbers."""
    types = [_number_type(every, form) for form in forms]
    why = "" if types[0] == "float" else f"written as {quoted(every[0].as_py())}"
    if len(forms) == 1:
        return Spelled(types[0], why, _signs(name, every, forms[0]))
    example = next(text for text in every.to_pylist() if len({numbers.shown(text, form) for form in forms}) > 1)
    ways = tuple(Reading(numbers.shown(example, form), type_) for form, type_ in zip(forms, types, strict=True))
    return Spelled(types[0], why, (Doubt(name, example, ways),))


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


def days_as_numbers(name: str, every: pa.Array, prefix: str) -> tuple[Doubt, ...]:
    """Of whole numbers that all spell a day or a month, such as 20230101, or that may count from a day on.

    Args:
        prefix: `int ` where the file stores numbers.
    """
    if len(every) < 2:
        return ()
    number = Reading(f"the number {int(every[0].as_py()):,}", "int")
    for pattern, form in COMPACT:
        if _all(every, pattern) and not (dates := as_dates(every, form)).null_count:
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


def as_dates(every: pa.Array, form: str) -> pa.Array:
    """The texts as dates of a form, null for another one and for a year that none would write."""
    dates = pc.strptime(every, format=form, unit="s", error_is_null=True)
    known = pc.and_(pc.greater_equal(pc.year(dates), 1900), pc.less_equal(pc.year(dates), 2200))
    if "%b" in form:  # Arrow reads whole names of months too, engines do not
        known = pc.and_(known, pc.invert(matching(every, "[A-Za-z]{4}")))
    return pc.if_else(known, dates, None)


def _dates(every: pa.Array, *forms: str) -> Iterator[tuple[str, pa.Array]]:
    """The texts as dates of every form that one of them has."""
    if not len(every) or pc.mean(matching(every, DATE_LIKE).cast(pa.float64())).as_py() < 1 - MOST_STRAY:
        return
    for clock in CLOCKS:
        for form in (*forms, *FORMS):
            dates = as_dates(every, form + clock)
            if dates.null_count < len(dates):
                yield f"{'timestamp' if clock else 'date'} {form}{clock}", dates


def _date(name: str, every: pa.Array) -> Spelled | None:
    """A date in a form of its own; two forms that give other days are a doubt."""
    fitting = [(type_, dates) for type_, dates in _dates(every) if not dates.null_count]
    if not fitting:
        return None
    different = [(type_, dates) for i, (type_, dates) in enumerate(fitting)
                 if not any(dates.equals(other) for _, other in fitting[:i])]  # fmt: skip
    if len(different) == 1:
        return Spelled(fitting[0][0], "", _century(name, every, *fitting[0]))
    at = next(i for i in range(len(every)) if len({dates[i].as_py() for _, dates in different}) == len(different)
              or i == len(every) - 1)  # fmt: skip
    ways = tuple(Reading(_day(dates[at]), type_) for type_, dates in different)
    return Spelled(fitting[0][0], "", (Doubt(name, every[at].as_py(), ways),))


def _century(name: str, every: pa.Array, type_: str, dates: pa.Array) -> tuple[Doubt, ...]:
    """Of years of two digits, one that engines read as one far ahead."""
    late = pc.index(pc.greater_equal(pc.year(dates), FAR_AHEAD), True).as_py() if "%y" in type_ else -1
    if late < 0:
        return ()
    year = dates[late].as_py().year
    ways = (Reading(f"in {year}", type_), Reading(f"in {year - 100}", choice="write years of four digits in the file"))
    return (Doubt(name, every[late].as_py(), ways),)


def mixed_doubts(name: str, every: pa.Array) -> tuple[Doubt, ...]:
    """Of texts nearly all of which are numbers, or dates, of one form; or all of them in several forms."""
    if not len(every) or pc.mean(matching(every, r"\d").cast(pa.float64())).as_py() < 1 - MOST_STRAY:
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
    every_one = pc.or_(_any([fits for _, fits in fitting]), pc.and_(matching(every, DATE_LIKE), matching(every, YEAR)))
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
