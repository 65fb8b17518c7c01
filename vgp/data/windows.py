"""Resolves the windows of a task, `train` and `test`, into days of the data."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from typing import Literal, NamedTuple

from vgp.base.exits import UserError
from vgp.data.periods import (
    FORMS,
    Period,
    Spans,
    Window,
    date_of,
    format_spans,
    format_spans_as_days,
    next_period,
    parse,
    period_containing,
    spans_of,
)  # fmt: skip

#: Days without rows that are allowed at either end of a window in days, for weekends and holidays.
MOST_EMPTY_DAYS = 7


#: The first and the last day of the calendar, counted from 1970-01-01.
CALENDAR = (date.min.toordinal() - date(1970, 1, 1).toordinal(), date.max.toordinal() - date(1970, 1, 1).toordinal())


class Windows(NamedTuple):
    """The two windows of a task, which `resolve` turns into days."""

    train: Window
    test: Window

    def resolve(self, present: Collection[int]) -> tuple[Spans, Spans]:
        """Returns the days that train and the days that test, for data with rows on the days `present`.

        Raises:
            UserError: A part of a window has no data, or months lack a year in data of several years.
        """
        days = sorted(present)
        train, test = self._set_years(days)
        test_spans = spans_of(test.periods) or _test_span(train, test, days)
        train_spans = spans_of(train.periods) or _train_span(train, test_spans[0][0], days)
        for name, window, spans in (("train", train, train_spans), ("test", test, test_spans)):
            _require_rows(name, window, spans, days)
        return train_spans, test_spans

    @property
    def relative(self) -> bool:
        """Whether the days depend on the data."""
        return not all(window.periods and not window.yearless for window in self)

    def pin(self, present: Collection[int], last: int) -> tuple[str, str]:
        """Returns the texts of the two windows with dates, for data with rows on the days `present` up to `last`.

        A window that already has dates keeps its text. At least one day must be left. Raises the errors of `resolve`.
        """
        days = sorted(day for day in present if day <= last)
        texts = []
        for window, spans in zip(self, self.resolve(days), strict=True):
            clipped = [(max(start, days[0]), min(end, days[-1] + 1)) for start, end in spans]
            relative = window.yearless or not window.periods
            texts.append(
                format_spans_as_days([(start, end) for start, end in clipped if start < end])
                if relative
                else window.text
            )
        return texts[0], texts[1]

    def end(self) -> int:
        """Returns the day after the last day of windows with dates; 0 without such windows."""
        return max((p.end for window in self if not window.yearless for p in window.periods), default=0)

    def _set_years(self, days: Sequence[int]) -> "Windows":
        if not (self.train.yearless or self.test.yearless):
            return self
        years = {date_of(days[0]).year, date_of(days[-1]).year}
        if len(years) > 1:
            raise UserError(
                f"the data spans {_months(days)}, so month {(self.test if self.test.yearless else self.train).text} "
                f"occurs in several years: write the year too, {FORMS}."
            )
        return Windows(*(w.with_year(min(years)) if w.yearless else w for w in self))


def windows(train: object, test: object) -> Windows:
    """Parses the two windows. Without `test`, the month, week or year after `train` tests; without `train`, all days
    before `test` train; without both, the data's last month tests.

    Raises:
        UserError: A window is not valid, the two overlap, or the test window begins before the end of the train window.
    """
    pair = Windows(parse(train, "train"), parse(test, "test"))
    if pair.train.periods and not pair.test.text:
        pair = pair._replace(test=_test_after(pair.train))
    if pair.train.periods and pair.test.periods:
        _check_order(*pair)
    return pair


def read_spans(options: Mapping[str, object], name: Literal["train", "test"]) -> Spans:
    """Returns the days of a window in a task's options; () if the options have no dates, or no valid windows."""
    try:
        both = windows(options.get("train", ""), options.get("test", ""))
    except UserError:
        return ()
    window = both.train if name == "train" else both.test
    return () if window.yearless else spans_of(window.periods)


def _test_after(train: Window) -> Window:
    last = train.periods[-1]
    if last.unit == "day":
        raise UserError(f"train {train.text!r} needs a window `test`: a length, such as '2 weeks', or days.")
    if train.yearless and last.text == "12":
        raise UserError("the test window after month 12 is in the next year: write the months with their years.")
    if last.end > CALENDAR[1]:
        raise UserError(f"train {train.text!r} reaches the end of the calendar: there is no day left for `test`.")
    period = next_period(last, train.yearless)
    return Window(period.text, (period,), yearless=train.yearless)


def _check_order(train: Window, test: Window) -> None:
    both = f"train {train.text!r} and test {test.text!r}"
    if train.yearless != test.yearless:
        raise UserError(f"{both}: write both with years, or both without.")
    for period in test.periods:
        if any(period.start < other.end and other.start < period.end for other in train.periods):
            raise UserError(f"{both} overlap in {period.text}.")
    if test.periods[0].start < train.periods[-1].end:
        raise UserError(
            f"test {test.periods[0].text} begins before the end of train, {train.periods[-1].text}: "
            "a model may not learn from the future of its test rows."
        )


def _test_span(train: Window, test: Window, days: Sequence[int]) -> Spans:
    """Returns the days of a test window without dates: of its length, or the data's last month."""
    if not test.length:
        last_month = period_containing("month", days[-1])
        return ((last_month.start, last_month.end),)
    if train.periods:
        end = train.periods[-1].end
        return ((end, _move_day("test", test, test.length.after, end)),)
    end = days[-1] + 1
    return ((_move_day("test", test, test.length.before, end), end),)


def _train_span(train: Window, test_start: int, days: Sequence[int]) -> Spans:
    """Returns the days of a train window without dates: of its length, or all days before the test window."""
    if train.length:
        return ((_move_day("train", train, train.length.before, test_start), test_start),)
    if days[0] >= test_start:
        raise UserError(
            f"the data has rows in {_months(days)} only, and none before the test window: choose a later test window."
        )
    return ((period_containing("month", days[0]).start, test_start),)


def _move_day(name: str, window: Window, move: Callable[[int], int], day: int) -> int:
    try:
        return move(day)
    except OverflowError:
        raise UserError(f"{name} {window.text!r} reaches beyond the years 1 to 9999.") from None


def _require_rows(name: str, window: Window, spans: Spans, days: Sequence[int]) -> None:
    """Raises UserError if a period has no rows, or a window in days reaches far beyond the data."""
    lengths = [Period(format_spans((span,)), *span, "day") for span in spans if window.length]
    for text, start, end, unit in window.periods or lengths:
        beyond = max(days[0] - start, end - 1 - days[-1]) if unit == "day" else 0
        if beyond >= MOST_EMPTY_DAYS or bisect_left(days, start) == bisect_left(days, end):
            length = f" ({window.text})" if window.length else ""
            raise UserError(
                f"the data has no rows in {text}, which {name}{length} needs; it has rows in {_months(days)}"
                f"{f', from {date_of(days[0])} to {date_of(days[-1])}' if unit == 'day' else ''}."
            )


def _months(days: Sequence[int]) -> str:
    """Formats the months that have rows."""
    periods = dict.fromkeys(period_containing("month", day) for day in days)
    return format_spans(spans_of(list(periods)))
