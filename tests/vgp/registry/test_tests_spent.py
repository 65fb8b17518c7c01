from datetime import UTC, datetime, timedelta

import pytest

from vgp.registry import tests_spent
from vgp.registry.documents import Spent

NOW = datetime(2026, 11, 22, 3, tzinfo=UTC)
LEVEL = 0.05 / 365


def nights(count, *, level=LEVEL, last=NOW, every=1):
    """Tests of so many nights, the oldest first, the newest a night before `last`."""
    times = [last - timedelta(days=every * back) for back in range(count, 0, -1)]
    return tuple(
        Spent(key=f"{number}", at=f"{time:%Y-%m-%dT%H:%M:%SZ}", level=level, version=1, outcome="keep")
        for number, time in enumerate(times)
    )


def test_a_whole_year_of_planned_nights_is_allowed_and_runs_beyond_the_plan_are_not():
    year = nights(365)
    assert tests_spent.total(year, NOW) == pytest.approx(363 * LEVEL)  # and tonight's, and those of a year ago
    by_hand = tuple(year[-1].model_copy(update={"key": f"by hand {number}"}) for number in range(2))
    assert tests_spent.allows((*year, by_hand[0]), "tonight", LEVEL, 0.95, NOW)
    assert not tests_spent.allows((*year, *by_hand), "tonight", LEVEL, 0.95, NOW)


def test_a_plan_goes_on_year_after_year_whenever_in_its_day_a_night_ends():
    """Weeks, too: of 365 days 53 may be Mondays."""
    late = NOW + timedelta(hours=11)
    assert tests_spent.allows(nights(4000, last=late), "tonight", LEVEL, 0.95, NOW)
    assert tests_spent.allows(nights(500, level=0.05 / 52, last=late, every=7), "x", 0.05 / 52, 0.95, NOW)
    assert tests_spent.allows(nights(1, level=0.05, last=late, every=365), "x", 0.05, 0.95, NOW)


def test_a_night_that_is_repeated_counts_once_and_is_allowed_as_it_was():
    year = nights(365, last=NOW + timedelta(days=2))  # clocks differ: those of later count, too
    again = (*year, *year)
    assert tests_spent.total(again, NOW) == pytest.approx(365 * LEVEL)
    assert tests_spent.allows(again, "364", LEVEL, 0.95, NOW)  # the last one is asked for again, after a kill
    assert not tests_spent.allows(again, "another", LEVEL, 0.95, NOW)


def test_a_spent_budget_is_reported_with_the_day_on_which_it_renews():
    once = nights(1, level=0.05, every=10)
    assert tests_spent.used_up(once, "tonight", LEVEL, 0.95, NOW) == (
        "the 5% error budget of a year's tests is used up until 2027-11-10: 1 test took 5%, and one more would "
        "take 0.0137%"
    )
    assert tests_spent.again(once, "tonight", LEVEL, 0.95, NOW) == datetime(2027, 11, 10, 15, tzinfo=UTC)
    assert tests_spent.used_up(once, "tonight", LEVEL, 0.95, datetime(2027, 11, 10, 15, tzinfo=UTC)) == ""
    assert tests_spent.again((), "tonight", 0.06, 0.95, NOW) is None
    assert "is used up: 0 tests took 0%" in tests_spent.used_up((), "tonight", 0.06, 0.95, NOW)


def test_tests_that_took_nothing_are_not_counted():
    idle = nights(3, level=0.0)
    once = (*nights(1, level=0.05, every=10), *(s.model_copy(update={"key": f"idle {s.key}"}) for s in idle))
    assert ": 1 test took 5%" in tests_spent.used_up(once, "tonight", 0.05, 0.95, NOW)


def test_levels_of_other_plans_add_up():
    mixed = (*nights(30, level=0.05 / 52, every=7), *(s.model_copy(update={"key": f"d{s.key}"}) for s in nights(100)))
    assert tests_spent.total(mixed, NOW) == pytest.approx(30 * 0.05 / 52 + 100 * LEVEL)
    assert tests_spent.allows(mixed, "x", 0.007, 0.95, NOW) and not tests_spent.allows(mixed, "x", 0.008, 0.95, NOW)
