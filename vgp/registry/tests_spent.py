"""How much of a year's error its tests have spent, and whether another may still promote.

All tests of a year together may promote a model by luck with a chance of 1 - confidence: each takes its level from
that. One counts once, by its key, however often its night is repeated; a night that tested nothing takes nothing, and
neither does one whose test may not promote: it stands in the record with a level of 0.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from vgp.registry.documents import Spent

#: 52 weeks less half a day: the nights of a plan end sooner or later in their day, and in 365 days there may be one of
#: them more than in a year on average (53 Mondays). Neither is to push out a night of the plan.
YEAR = timedelta(weeks=52, hours=-12)
#: Of the year's error: what the levels of many tests may add up to beyond it by rounding.
ROUNDING = 1e-9


def within_a_year(spent: Sequence[Spent], now: datetime) -> tuple[Spent, ...]:
    """The tests of the year up to now, each key once, and what says that it is of later too: clocks differ."""
    since, counted = now - YEAR, dict[str, Spent]()
    for test in spent:
        if _time(test) > since:
            counted.setdefault(test.key, test)
    return tuple(counted.values())


def total(spent: Sequence[Spent], now: datetime) -> float:
    """How much error the tests of the year up to now have spent together."""
    return sum(sorted(test.level for test in within_a_year(spent, now)))


def allows(spent: Sequence[Spent], key: str, level: float, confidence: float, now: datetime) -> bool:
    """Whether a test at this level may still promote; the same test, when it is repeated, as it might the first time.

    Args:
        spent: All tests before, oldest first, and perhaps this one.
        key: Of this test; those that came after it do not count against it.
    """
    before = _before(spent, key)
    return total(before, now) + level <= (1 - confidence) * (1 + ROUNDING)


def again(spent: Sequence[Spent], key: str, level: float, confidence: float, now: datetime) -> datetime | None:
    """When a test at this level may promote again, as old ones pass out of the year; None if at this level never."""
    if level > (1 - confidence) * (1 + ROUNDING):
        return None
    before = _before(spent, key)
    moments = sorted(_time(test) + YEAR for test in within_a_year(before, now))
    return next(moment for moment in [now, *moments] if allows(before, key, level, confidence, moment))


def used_up(spent: Sequence[Spent], key: str, level: float, confidence: float, now: datetime) -> str:
    """Why, and until when, a test at this level promotes nothing, as a clause; "" where it may."""
    if allows(spent, key, level, confidence, now):
        return ""
    before = _before(spent, key)
    count = sum(test.level > 0 for test in within_a_year(before, now))
    moment = again(spent, key, level, confidence, now)
    return (
        f"the {_percent(1 - confidence)} error budget of a year's tests is used up"
        f"{f' until {moment:%Y-%m-%d}' if moment else ''}: {count:,} test{'s' * (count != 1)} took "
        f"{_percent(total(before, now))}, and one more would take {_percent(level)}"
    )


def _before(spent: Sequence[Spent], key: str) -> tuple[Spent, ...]:
    """The tests that were there before the one with this key."""
    keys = [test.key for test in spent]
    return tuple(spent[: keys.index(key)] if key in keys else spent)


def _time(test: Spent) -> datetime:
    moment = datetime.fromisoformat(test.at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
