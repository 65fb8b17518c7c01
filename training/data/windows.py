"""Time windows by month: which months train, and which later month tests.

`1-6`, `1,2,5`, `7`; where the data spans several years `2013-01:2013-06`, `2013-07`.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from training.errors import UserError

FORMS = "such as 1-6, 1,2,5 or 7, or with the year 2013-01:2013-06 or 2013-07"


class Month(NamedTuple):
    year: int  # 0: whatever year the data has
    month: int

    def __str__(self) -> str:
        return f"{self.year}-{self.month:02}" if self.year else str(self.month)

    def next(self) -> "Month":
        return Month(self.year + self.month // 12, self.month % 12 + 1) if self.year else self._plain_next()

    def _plain_next(self) -> "Month":
        if self.month == 12:
            raise UserError("after month 12 comes the next year: give the months with their years.")
        return Month(0, self.month + 1)


class Windows(NamedTuple):
    train: tuple[Month, ...]
    test: Month

    def resolve(self, present: Iterable[tuple[int, int]]) -> "Windows":
        """The windows with years, for data that has the months `present`, (year, month) pairs.

        Raises:
            UserError: a month has no data, or plain months do not say which year of several.
        """
        known = sorted(Month(*month) for month in set(present))
        years = sorted({month.year for month in known})
        if not self.test.year and len(years) > 1:
            raise UserError(
                f"the data spans {spoken(known)}, so month {self.test} could be of {len(years)} years: "
                f"write the year too, {FORMS}."
            )
        dated = Windows(tuple(_dated(month, years[0]) for month in self.train), _dated(self.test, years[0]))
        for month in (*dated.train, dated.test):
            if month not in known:
                raise UserError(f"the data has no month {month}; it has {spoken(known)}.")
        return dated


def windows(train_months: str, test_month: str) -> Windows:
    """Reads the two windows; without a test month it is the one after the last train month.

    Raises:
        UserError: no such month, the windows overlap, or the test month lies before the end of training.
    """
    train = parse(train_months, "train_months")
    test = parse(test_month, "test_month") if test_month.strip() else (train[-1].next(),)
    if len(test) > 1:
        raise UserError(f"test_month {test_month!r} names {len(test)} months; it must be one.")
    if bool(train[0].year) != bool(test[0].year):
        raise UserError(
            f"train_months {train_months!r} and test_month {test_month!r}: give both with years or neither."
        )
    if test[0] in train:
        raise UserError(f"train_months {train_months!r} and test_month {test_month!r} overlap in {test[0]}.")
    if test[0] < train[-1]:
        raise UserError(
            f"test_month {test[0]} lies before the end of train_months, {train[-1]}: "
            "a model may not learn from the future of the rows that test it."
        )
    return Windows(train, test[0])


def latest(present: Iterable[tuple[int, int]]) -> Windows:
    """The windows of a task that names none: the last month of the data tests, all before it train."""
    known = sorted(Month(*month) for month in set(present))
    if len(known) < 2:
        raise UserError(f"the data has one month only, {spoken(known)}: a later one must test the model.")
    return Windows(tuple(known[:-1]), known[-1])


def parse(text: str, parameter: str) -> tuple[Month, ...]:
    """The months that `text` names, in order of time.

    Raises:
        UserError: nothing is named, or something that is no month.
    """
    months = {month for item in text.split(",") for month in _range(item.strip(), text, parameter)}
    if len({bool(month.year) for month in months}) > 1:
        raise UserError(f"{parameter} {text!r} mixes months with and without a year.")
    return tuple(sorted(months))


def spoken(months: Iterable[Month]) -> str:
    """`2013-01:2013-06,2013-09` for those months, in a form that `parse` reads."""
    runs: list[list[Month]] = []
    for month in sorted(months):
        if runs and runs[-1][-1].month != 12 + bool(month.year) and runs[-1][-1].next() == month:
            runs[-1].append(month)
        else:
            runs.append([month])
    colon = ":" if runs and runs[0][0].year else "-"
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}{colon}{run[-1]}" for run in runs)


def _range(item: str, text: str, parameter: str) -> list[Month]:
    first_text, last_text = _ends(item, text, parameter)
    first, last = _month(first_text, text, parameter), _month(last_text, text, parameter)
    if bool(first.year) != bool(last.year):
        raise UserError(f"{parameter} {text!r} mixes months with and without a year.")
    if last < first:
        raise UserError(f"{parameter} {text!r}: {item} runs backwards.")
    months = [first]
    while months[-1] < last:
        months.append(months[-1].next())
    return months


def _ends(item: str, text: str, parameter: str) -> tuple[str, str]:
    match = re.fullmatch(r"(\d{4}-\d{1,2}|\d{1,2})(?:\s*[:]\s*(\d{4}-\d{1,2}|\d{1,2}))?", item) or re.fullmatch(
        r"(\d{1,2})\s*-\s*(\d{1,2})", item
    )
    if not match:
        raise UserError(f"{parameter} {text!r}: {item!r} is not a month or a range of months, {FORMS}.")
    return match[1], match[2] or match[1]


def _month(written: str, text: str, parameter: str) -> Month:
    year, _, month = written.rpartition("-")
    if not 1 <= int(month) <= 12:
        raise UserError(f"{parameter} {text!r}: there is no month {int(month)}; months are 1 to 12.")
    return Month(int(year or 0), int(month))


def _dated(month: Month, year: int) -> Month:
    return month if month.year else Month(year, month.month)
