from datetime import UTC, datetime, timedelta

import pytest

from training.registry import tests_spent
from training.registry.documents import Spent

NOW = datetime(2026, 11, 22, 3, tzinfo=UTC)
LEVEL = 0.05 / 365


def nights(count, *, level=LEVEL, last=NOW, every=1):
    """Tests of so many nights, the oldest first, the newest a night before `last`."""
    times = [last - timedelta(days=every * back) for back in range(count, 0, -1)]
    return tuple(
        Spent(key=f"{number}", at=f"{time:%Y-%m-%dT%H:%M:%SZ}", level=level, version=1, outcome="keep")
        for number, time in enumerate(times)
    )


def test_a_whole_year_of_planned_nights_is_allowed_and_no_night_more():
    year = nights(364)
    assert tests_spent.total(year, NOW) == pytest.approx(364 * LEVEL)
    assert tests_spent.allows(year, "tonight", LEVEL, 0.95, NOW)
    assert not tests_spent.allows((*year, year[-1].model_copy(update={"key": "by hand"})), "tonight", LEVEL, 0.95, NOW)


def test_a_test_of_a_year_ago_no_longer_counts():
    assert len(tests_spent.within_a_year(nights(400), NOW)) == 364  # that of 365 days ago to the second is out
    assert tests_spent.allows(nights(4000), "tonight", LEVEL, 0.95, NOW)


def test_a_night_that_is_repeated_counts_once_and_is_allowed_as_it_was():
    year = nights(365, last=NOW + timedelta(days=1))
    again = (*year, *year)
    assert tests_spent.total(again, NOW) == pytest.approx(365 * LEVEL)
    assert tests_spent.allows(again, "364", LEVEL, 0.95, NOW)  # the last one is asked for again, after a kill
    assert not tests_spent.allows(again, "another", LEVEL, 0.95, NOW)


def test_what_was_used_up_is_told_with_the_day_on_which_it_goes_on():
    once = nights(1, level=0.05, every=10)
    told = tests_spent.used_up(once, "tonight", LEVEL, 0.95, NOW)
    assert told.startswith(
        "The 5% that a year's tests may err together is used up: 1 of the last 365 days took 5%, and"
    )
    assert "this one would take 0.0137%. The next may on 2027-11-12; with more nights" in told
    assert tests_spent.again(once, "tonight", LEVEL, 0.95, NOW) == datetime(2027, 11, 12, 3, tzinfo=UTC)
    assert tests_spent.again((), "tonight", 0.06, 0.95, NOW) is None
    assert "None at this level ever may" in tests_spent.used_up((), "tonight", 0.06, 0.95, NOW)


def test_levels_of_other_plans_add_up():
    mixed = (*nights(30, level=0.05 / 52, every=7), *(s.model_copy(update={"key": f"d{s.key}"}) for s in nights(100)))
    assert tests_spent.total(mixed, NOW) == pytest.approx(30 * 0.05 / 52 + 100 * LEVEL)
    assert tests_spent.allows(mixed, "x", 0.007, 0.95, NOW) and not tests_spent.allows(mixed, "x", 0.008, 0.95, NOW)
