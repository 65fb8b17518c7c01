"""Parses time windows, such as 2013-01:2013-06 or 4 weeks, and formats them.

A window is one of these, or several of the first four separated by commas:

    1-6   7                                  months, of the one year that the data has
    2013-01:2013-06   2013-07   2013         months and years
    2013-W01:2013-W26                        ISO weeks
    2013-01-15:2013-07-14                    days, the last one included; `/` as in ISO 8601 stands for `:` too
    6 months   4 weeks   30 days   1 year    a length: of `train` up to the test window; of `test` from the end of
                                             `train` on, or to the end of the data if `train` is a length too

Days are whole numbers, counted from 1970-01-01; a span is [first day, day after the last).
"""

import re
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from vgp.base.exits import UserError

FORMS = "such as 1-6, 2013-01:2013-06, 2013-W27, 2013-01-15:2013-07-14 or '6 months'"
_EPOCH = date(1970, 1, 1)
#: A leap year that stands in for the data's year until it is known.
_ANY_YEAR = 2000
_END = r"\d{4}-W\d{1,2}|\d{4}-\d{1,2}-\d{1,2}|\d{4}-\d{1,2}|\d{4}|\d{1,2}"
_RANGE = re.compile(rf"({_END})(?:\s*[:/]\s*({_END}))?")
_MONTHS = re.compile(r"(\d{1,2})\s*-\s*(\d{1,2})")
_LENGTH = re.compile(r"([1-9]\d{0,4})\s*(day|week|month|year)s?")

Span = tuple[int, int]
Spans = tuple[Span, ...]


class Period(NamedTuple):
    """A day, week, month or year, or a range of days, with its text."""

    text: str
    start: int
    end: int
    unit: str


@dataclass(frozen=True)
class Length:
    """A number of days, weeks, months or years."""

    count: int
    unit: str

    def after(self, day: int) -> int:
        return _add_units(day, self.count, self.unit)

    def before(self, day: int) -> int:
        return _add_units(day, -self.count, self.unit)


@dataclass(frozen=True)
class Window:
    """Periods in order of time, or a length; without both, the other window and the data decide."""

    text: str = ""
    periods: tuple[Period, ...] = ()
    length: Length | None = None
    #: Whether the periods are months without a year, which the data must supply.
    yearless: bool = False

    def with_year(self, year: int) -> "Window":
        """Returns the window with its months in the given year."""
        months = [date_of(period.start).month for period in self.periods]
        return Window(self.text, tuple(_build_period("month", date(year, month, 1)) for month in months))


def parse(value: object, name: str) -> Window:
    """Parses the window in the option `name`; its periods are in order of time.

    Raises:
        UserError: The value has none of the forms, or names a date that does not exist.
    """
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise UserError(f"{name} = {value!r}: a window is a text, {FORMS}.")
    text = str(value).strip()
    if not text:
        return Window()
    if match := _LENGTH.fullmatch(text):
        return Window(text, length=Length(int(match[1]), match[2]))
    parts = [_parse_part(item.strip(), text, name) for item in text.split(",")]
    if len({yearless for _, yearless in parts}) > 1:
        raise UserError(f"{name} {text!r} mixes months with and without a year.")
    periods = {period for periods, _ in parts for period in periods}
    return Window(text, tuple(sorted(periods, key=lambda period: period.start)), yearless=parts[0][1])


def format_spans(spans: Spans) -> str:
    """Formats spans for `parse`: `2013-01:2013-06,2013-09` for whole months, else first and last days."""
    texts = []
    for start, end in spans:
        whole = date_of(start).day == 1 and period_containing("month", end - 1).end == end
        unit = "month" if whole else "day"
        ends = (period_containing(unit, start).text, period_containing(unit, end - 1).text)
        texts.append(":".join(dict.fromkeys(ends)))
    return ",".join(texts)


def format_spans_as_days(spans: Sequence[Span]) -> str:
    """Formats spans as first and last days: `2013-01-01:2013-06-30,2013-09-01:2013-09-30`."""
    return ",".join(f"{date_of(start).isoformat()}:{date_of(end - 1).isoformat()}" for start, end in spans)


def spans_of(periods: Sequence[Period]) -> Spans:
    """Returns the days of the periods; periods that touch or overlap are one span."""
    spans: list[Span] = []
    for period in periods:
        if spans and period.start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], period.end))
        else:
            spans.append((period.start, period.end))
    return tuple(spans)


def date_of(day: int) -> date:
    try:
        return _EPOCH + timedelta(days=day)
    except OverflowError:
        raise UserError(f"a row is dated {day:,} days from 1970, which is beyond the years 1 to 9999.") from None


def _parse_part(item: str, text: str, name: str) -> tuple[list[Period], bool]:
    """Returns the periods of a range, and whether they lack a year."""
    match = _RANGE.fullmatch(item) or _MONTHS.fullmatch(item)
    if not match:
        raise UserError(f"{name} {text!r}: {item!r} is not a window, {FORMS}.")
    (first, yearless), (last, other) = (_end(end, text, name) for end in (match[1], match[2] or match[1]))
    if yearless != other:
        raise UserError(f"{name} {text!r} mixes months with and without a year.")
    if first.unit != last.unit:
        raise UserError(f"{name} {text!r}: {item} runs from a {first.unit} to a {last.unit}; take one of the two.")
    if last.start < first.start:
        raise UserError(f"{name} {text!r}: {item} runs backwards.")
    if first.unit == "day":
        return [Period(item, first.start, last.end, "day")], False
    periods = [first]
    while periods[-1].start < last.start:
        periods.append(next_period(periods[-1], yearless))
    return periods, yearless


def _end(written: str, text: str, name: str) -> tuple[Period, bool]:
    """Returns the period that one end of a range names, and whether it is a month without a year."""
    numbers = [int(number) for number in re.findall(r"\d+", written)]
    try:
        if "W" in written:
            return _build_period("week", date.fromisocalendar(numbers[0], numbers[1], 1)), False
        if len(numbers) == 3:
            return _build_period("day", date(*numbers)), False
        if len(numbers) == 1 and len(written) == 4:
            return _build_period("year", date(numbers[0], 1, 1)), False
        yearless = len(numbers) == 1
        month = _build_period("month", date(_ANY_YEAR if yearless else numbers[0], numbers[-1], 1))
        return (month._replace(text=str(numbers[0])) if yearless else month), yearless
    except (ValueError, OverflowError):
        if "W" in written or len(numbers) == 3 or len(written) == 4:
            raise UserError(f"{name} {text!r}: the calendar has no {written}.") from None
        raise UserError(f"{name} {text!r}: there is no month {numbers[-1]}; months are 1 to 12.") from None


def _build_period(unit: str, first: date) -> Period:
    texts = {"year": f"{first.year:04}", "month": f"{first.year:04}-{first.month:02}", "day": first.isoformat(),
             "week": "{:04}-W{:02}".format(*first.isocalendar()[:2])}  # fmt: skip
    start, end_of_calendar = (first - _EPOCH).days, (date.max - _EPOCH).days + 1
    last = first.year == date.max.year and (unit == "year" or (unit, first.month) == ("month", 12))
    return Period(texts[unit], start, end_of_calendar if last else _add_units(start, 1, unit), unit)


def period_containing(unit: str, day: int) -> Period:
    """Returns the year, month, week or day (`unit`) that contains the day."""
    on = date_of(day)
    firsts = {"year": on.replace(month=1, day=1), "month": on.replace(day=1), "day": on}
    return _build_period(unit, firsts[unit] if unit in firsts else on - timedelta(days=on.weekday()))


def next_period(period: Period, yearless: bool) -> Period:
    following = period_containing(period.unit, period.end)
    return following._replace(text=str(date_of(following.start).month)) if yearless else following


def _add_units(day: int, count: int, unit: str) -> int:
    """Returns the day `count` units later; in a shorter month its last day."""
    if unit in ("day", "week"):
        return day + count * {"day": 1, "week": 7}[unit]
    on = date_of(day)
    year, month = divmod(on.year * 12 + on.month - 1 + count * {"month": 1, "year": 12}[unit], 12)
    if not 1 <= year <= 9999:
        raise OverflowError(year)
    return (date(year, month + 1, min(on.day, monthrange(year, month + 1)[1])) - _EPOCH).days
