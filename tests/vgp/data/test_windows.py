"""Two windows and the days that the data has: which days train, and which test."""

from datetime import date, timedelta

import pytest

from vgp.base.exits import UserError
from vgp.data.periods import format_spans
from vgp.data.windows import windows


def day_numbers(first: str, last: str, step: int = 1) -> list[int]:
    start, count = date.fromisoformat(first), (date.fromisoformat(last) - date.fromisoformat(first)).days
    return [(start + timedelta(n) - date(1970, 1, 1)).days for n in range(0, count + 1, step)]


YEAR_2013 = day_numbers("2013-01-01", "2013-12-31")


@pytest.mark.parametrize(
    ("train", "test", "trains", "tests"),
    [
        ("1-6", "7", "2013-01:2013-06", "2013-07"),
        ("1-6", 7, "2013-01:2013-06", "2013-07"),
        ("1,2,5", "", "2013-01:2013-02,2013-05", "2013-06"),
        ("2013-01:2013-06", "", "2013-01:2013-06", "2013-07"),
        ("2013-W01:2013-W04", "", "2012-12-31:2013-01-27", "2013-01-28:2013-02-03"),
        ("6 months", "2013-07", "2013-01:2013-06", "2013-07"),
        ("4 weeks", "2013-03-01:2013-03-14", "2013-02", "2013-03-01:2013-03-14"),
        ("1-3", "2 weeks", "2013-01:2013-03", "2013-04-01:2013-04-14"),
        ("2013-01-10:2013-02-09", "10 days", "2013-01-10:2013-02-09", "2013-02-10:2013-02-19"),
        ("6 months", "1 month", "2013-06:2013-11", "2013-12"),
        ("3 months", "", "2013-09:2013-11", "2013-12"),
        ("", "2013-07:2013-08", "2013-01:2013-06", "2013-07:2013-08"),
        ("", "4 weeks", "2013-01-01:2013-12-03", "2013-12-04:2013-12-31"),
        ("", "", "2013-01:2013-11", "2013-12"),
    ],
)
def test_windows_of_any_length_become_days(train, test, trains, tests):
    train_spans, test_spans = windows(train, test).resolve(YEAR_2013)
    assert (format_spans(train_spans), format_spans(test_spans)) == (trains, tests)


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("1-7", "7", "train '1-7' and test '7' overlap in 7"),
        ("2013-06:2013-08", "2013-08", "overlap in 2013-08"),
        ("2013-06:2014-01", "2013-12", "overlap"),
        ("2013-01", "2013-01-31:2013-02-10", "overlap in 2013-01-31:2013-02-10"),
        ("1,2,9", "7", "test 7 begins before the end of train, 9"),
        ("2014-01", "2013-12", "before the end"),
        ("1-6", "2013-07", "write both with years, or both without"),
        ("12", "", "write the months with their years"),
        ("2013-01-10:2013-02-09", "", "needs a window `test`: a length, such as '2 weeks', or days"),
    ],
)
def test_windows_that_cannot_be_are_refused_before_any_file_is_opened(train, test, message):
    with pytest.raises(UserError, match=message):
        windows(train, test)


@pytest.mark.parametrize(
    ("train", "test", "days", "message"),
    [
        ("1-6", "7", day_numbers("2012-12-01", "2013-12-31"), "spans 2012-12:2013-12, so month 7 occurs in several"),
        (
            "1-6", "7", [day for day in YEAR_2013 if day not in set(day_numbers("2013-07-01", "2013-07-31"))],
            "has no rows in 2013-07, which test needs; it has rows in 2013-01:2013-06,2013-08:2013-12",
        ),
        ("9 months", "2013-07", YEAR_2013, r"no rows in 2012-10:2013-06, which train \(9 months\) needs.*from 2013-"),
        ("1-12", "2014-01-01:2014-01-31", YEAR_2013, "write both with years, or both without"),
        ("2013-10:2013-12", "2 weeks", YEAR_2013, "has no rows in 2014-01-01:2014-01-14"),
        ("2013-11", "2013-12-01:2014-02-01", YEAR_2013, "has no rows in 2013-12-01:2014-02-01"),
        ("", "", day_numbers("2013-12-01", "2013-12-31"), "rows in 2013-12 only, and none before the test window"),
        ("9999 years", "2013-07", YEAR_2013, "train '9999 years' reaches beyond the years 1 to 9999"),
    ],
)  # fmt: skip
def test_a_window_without_data_is_refused_with_what_there_is(train, test, days, message):
    with pytest.raises(UserError, match=message):
        windows(train, test).resolve(days)


def test_a_window_in_days_may_begin_and_end_on_days_without_rows():
    mondays = day_numbers("2013-01-07", "2013-12-30", step=7)
    train, test = windows("2013-01-01:2013-11-30", "2013-12-01:2014-01-05").resolve(mondays)
    assert (format_spans(train), format_spans(test)) == ("2013-01:2013-11", "2013-12-01:2014-01-05")


def test_a_year_that_ends_the_calendar_is_one():
    """Business data writes 9999-12-31 for "never"."""
    days = [*day_numbers("0001-01-01", "0001-01-03"), *day_numbers("9999-12-30", "9999-12-31")]
    assert [format_spans(spans) for spans in windows("", "").resolve(days)] == ["0001-01:9999-11", "9999-12"]
    train, test = windows("0001", "9999").resolve(days)
    assert (format_spans(train), format_spans(test)) == ("0001-01:0001-12", "9999-01:9999-12")
    with pytest.raises(UserError, match="train '9999-12' reaches the end of the calendar"):
        windows("9999-12", "")
