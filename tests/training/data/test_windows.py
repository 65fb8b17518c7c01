import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.windows import Month, latest, parse, spoken, windows
from training.errors import UserError

YEAR_2013 = [(2013, month) for month in range(1, 13)]


def plain(*months: int) -> tuple[Month, ...]:
    return tuple(Month(0, month) for month in months)


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("1-6", plain(1, 2, 3, 4, 5, 6)),
        ("5,1, 2", plain(1, 2, 5)),
        ("07", plain(7)),
        ("1:3,8", plain(1, 2, 3, 8)),
        ("2013-11:2014-02", (Month(2013, 11), Month(2013, 12), Month(2014, 1), Month(2014, 2))),
        ("2013-7", (Month(2013, 7),)),
    ],
)
def test_months_are_read_in_every_form(text: str, months: tuple[Month, ...]):
    assert parse(text, "train_months") == months


@given(st.sets(st.builds(Month, st.integers(1999, 2003), st.integers(1, 12)), min_size=1))
def test_what_is_spoken_is_read_back(months: set[Month]):
    assert parse(spoken(months), "x") == tuple(sorted(months))


@given(st.sets(st.integers(1, 12), min_size=1))
def test_plain_months_are_read_back_too(months: set[int]):
    assert parse(spoken(Month(0, month) for month in months), "x") == plain(*sorted(months))


@pytest.mark.parametrize(
    ("train", "test", "says"),
    [
        ("", "7", "'' is not a month"),
        ("1-13", "7", "there is no month 13"),
        ("0", "7", "there is no month 0"),
        ("june", "7", "'june' is not a month or a range of months, such as 1-6"),
        ("1-", "7", "'1-' is not a month"),
        ("6-1", "7", "6-1 runs backwards"),
        ("1-7", "7", "overlap in 7"),
        ("1,2,9", "7", "test_month 7 lies before the end of train_months, 9"),
        ("1-6", "7,8", "names 2 months; it must be one"),
        ("1-6", "2013-07", "both with years or neither"),
        ("1,2013-02", "3", "mixes months with and without a year"),
        ("1:2013-02", "3", "mixes months with and without a year"),
        ("2013-06:2013-08", "2013-08", "overlap in 2013-08"),
        ("2013-06:2014-01", "2013-12", "overlap"),
        ("2014-01", "2013-12", "lies before the end"),
        ("12", "", "give the months with their years"),
    ],
)
def test_windows_that_cannot_be_are_refused(train: str, test: str, says: str):
    with pytest.raises(UserError, match=says):
        windows(train, test)


def test_without_a_test_month_the_next_one_tests():
    assert windows("1-3", "").test == Month(0, 4)
    assert windows("2013-10:2013-12", "").test == Month(2014, 1)


def test_plain_months_take_the_year_of_the_data():
    dated = windows("1-6", "7").resolve(YEAR_2013)
    assert spoken(dated.train) == "2013-01:2013-06"
    assert str(dated.test) == "2013-07"


def test_plain_months_in_data_of_several_years_are_refused_with_the_choices():
    with pytest.raises(UserError, match="spans 2012-12,2013-01:2013-12|spans 2012-12:2013-12"):
        windows("1-6", "7").resolve([(2012, 12), *YEAR_2013])


def test_a_month_without_data_is_refused_with_those_that_have_some():
    with pytest.raises(UserError, match="no month 2013-07; it has 2013-01:2013-06,2013-08"):
        windows("1-6", "7").resolve([month for month in YEAR_2013[:8] if month[1] != 7])


def test_without_any_window_the_last_month_tests():
    chosen = latest([(2013, 12), (2014, 1), (2013, 11)])
    assert (spoken(chosen.train), str(chosen.test)) == ("2013-11:2013-12", "2014-01")
    with pytest.raises(UserError, match="one month only"):
        latest([(2013, 12)])
