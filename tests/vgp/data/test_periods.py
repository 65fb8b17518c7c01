"""Windows are read in every form that people write, and refused in a sentence in any other."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.base.exits import UserError
from vgp.data.periods import Length, date_of, format_spans, parse, spans_of

EPOCH = date(1970, 1, 1)


def days(first: str, last: str) -> tuple[int, int]:
    """The span from one day to another, the last included."""
    return (date.fromisoformat(first) - EPOCH).days, (date.fromisoformat(last) - EPOCH).days + 1


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("2013-01:2013-06", [("2013-01-01", "2013-06-30")]),
        ("2013-7", [("2013-07-01", "2013-07-31")]),
        ("2013-11:2014-02", [("2013-11-01", "2014-02-28")]),
        ("2012-02, 2012-05", [("2012-02-01", "2012-02-29"), ("2012-05-01", "2012-05-31")]),
        ("2013", [("2013-01-01", "2013-12-31")]),
        ("2011:2012", [("2011-01-01", "2012-12-31")]),
        (2013, [("2013-01-01", "2013-12-31")]),
        ("2013-W01", [("2012-12-31", "2013-01-06")]),
        ("2020-W52:2021-W01", [("2020-12-21", "2021-01-10")]),  # over the week 53 of 2020
        ("2013-01-15:2013-02-03", [("2013-01-15", "2013-02-03")]),
        ("2013-01-15/2013-02-03", [("2013-01-15", "2013-02-03")]),
        ("2013-03-01,2013-02-28", [("2013-02-28", "2013-03-01")]),
        ("2013-01,2013-01-20:2013-02-10", [("2013-01-01", "2013-02-10")]),
    ],
)
def test_periods_of_any_length_are_read(text, spans):
    window = parse(text, "train")
    assert spans_of(window.periods) == tuple(days(*span) for span in spans) and not window.yearless


@pytest.mark.parametrize(
    ("text", "months"),
    [("1-6", [1, 2, 3, 4, 5, 6]), ("5,1, 2", [1, 2, 5]), ("07", [7]), ("1:3", [1, 2, 3]), (4, [4])],
)
def test_months_without_a_year_take_the_year_of_the_data(text, months):
    window = parse(text, "train")
    assert window.yearless
    dated = window.with_year(2013)
    assert [(date_of(p.start).year, date_of(p.start).month, p.text) for p in dated.periods] == [
        (2013, month, f"2013-{month:02}") for month in months
    ]


@pytest.mark.parametrize(
    ("text", "day", "before", "after"),
    [
        ("6 months", "2013-07-01", "2013-01-01", "2014-01-01"),
        ("1 month", "2013-03-31", "2013-02-28", "2013-04-30"),
        ("4 weeks", "2013-01-29", "2013-01-01", "2013-02-26"),
        ("30 days", "2013-01-31", "2013-01-01", "2013-03-02"),
        ("1 year", "2012-02-29", "2011-02-28", "2013-02-28"),
    ],
)
def test_lengths_count_by_the_calendar(text, day, before, after):
    length = parse(text, "train").length
    assert isinstance(length, Length)
    start = days(day, day)[0]
    assert (date_of(length.before(start)).isoformat(), date_of(length.after(start)).isoformat()) == (before, after)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-13", "there is no month 13; months are 1 to 12"),
        ("0", "there is no month 0"),
        ("2013-13", "there is no month 13"),
        ("2013-02-30", "the calendar has no 2013-02-30"),
        ("2013-W54", "the calendar has no 2013-W54"),
        ("0000", "the calendar has no 0000"),
        ("june", "'june' is not a window, such as 1-6"),
        ("1-", "'1-' is not a window"),
        ("1,,2", "'' is not a window"),
        ("0 months", "'0 months' is not a window"),
        ("six months", "'six months' is not a window"),
        ("6-1", "6-1 runs backwards"),
        ("2013-06:2013-05", "runs backwards"),
        ("1,2013-02", "mixes months with and without a year"),
        ("1:2013-02", "mixes months with and without a year"),
        ("2013-01:2013-W09", "runs from a month to a week"),
        (True, "a window is a text"),
        (1.5, "a window is a text"),
        (["1-6"], "a window is a text"),
    ],
)
def test_what_is_no_window_is_refused_in_a_sentence(text, message):
    with pytest.raises(UserError, match=message) as refusal:
        parse(text, "train")
    assert str(refusal.value).startswith("train ")


@given(st.sets(st.tuples(st.integers(-5000, 20000), st.integers(1, 800)), min_size=1, max_size=5))
def test_what_is_spoken_is_read_back(drawn):
    spans: list[tuple[int, int]] = []
    for start, length in sorted(drawn):
        if not spans or start > spans[-1][1]:
            spans.append((start, start + length))
    assert spans_of(parse(format_spans(tuple(spans)), "train").periods) == tuple(spans)


def test_whole_months_are_spoken_as_months():
    assert format_spans(spans_of(parse("2013-01:2013-06,2013-09,2013-10-02:2013-10-03", "train").periods)) == (
        "2013-01:2013-06,2013-09,2013-10-02:2013-10-03"
    )


def test_a_date_beyond_the_calendar_is_a_sentence():
    with pytest.raises(UserError, match="dated 10,000,000 days from 1970, which is beyond the years 1 to 9999"):
        date_of(10_000_000)
