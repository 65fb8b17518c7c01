"""The error budget of a year's tests: how much is spent, and whether another test may promote a model.

The budget is 1 - confidence: the chance that at least one of a year's tests promotes a model that is not better. Each
test spends its level, once per key, however often the run is repeated. A test that may not promote is recorded with
level 0, and a run without a test spends nothing.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from vgp.registry.documents import Spent

#: 52 weeks less half a day, because nights end at varying times, and 365 days may hold one planned night more than
#: average (53 Mondays).
YEAR = timedelta(weeks=52, hours=-12)
#: Allowed rounding excess of the summed levels, relative to the year's error.
ROUNDING = 1e-9


def within_a_year(spent: Sequence[Spent], now: datetime) -> tuple[Spent, ...]:
    """Returns the tests of the past year, once per key, including tests dated in the future (clocks differ)."""
    since, tests = now - YEAR, dict[str, Spent]()
    for test in spent:
        if _time(test) > since:
            tests.setdefault(test.key, test)
    return tuple(tests.values())


def total(spent: Sequence[Spent], now: datetime) -> float:
    """Returns the error that the tests of the past year have spent."""
    return sum(sorted(test.level for test in within_a_year(spent, now)))


def allows(spent: Sequence[Spent], key: str, level: float, confidence: float, now: datetime) -> bool:
    """Whether a test at this level may promote; a repeated test gives the same answer.

    Args:
        spent: All earlier tests, oldest first, and possibly this one.
        key: Key of this test; later tests do not count.
    """
    before = _before(spent, key)
    return total(before, now) + level <= (1 - confidence) * (1 + ROUNDING)


def again(spent: Sequence[Spent], key: str, level: float, confidence: float, now: datetime) -> datetime | None:
    """Returns when a test at this level may promote again, as old tests expire; None if never."""
    if level > (1 - confidence) * (1 + ROUNDING):
        return None
    before = _before(spent, key)
    moments = sorted(_time(test) + YEAR for test in within_a_year(before, now))
    return next(moment for moment in [now, *moments] if allows(before, key, level, confidence, moment))


def used_up(spent: Sequence[Spent], key: str, level: float, confidence: float, now: datetime) -> str:
    """Returns why and until when a test at this level cannot promote, as a clause; "" if it can."""
    if allows(spent, key, level, confidence, now):
        return ""
    before = _before(spent, key)
    count = sum(test.level > 0 for test in within_a_year(before, now))
    moment = again(spent, key, level, confidence, now)
    return (
        f"the {_format_percent(1 - confidence)} error budget of a year's tests is used up"
        f"{f' until {moment:%Y-%m-%d}' if moment else ''}: {count:,} test{'s' * (count != 1)} took "
        f"{_format_percent(total(before, now))}, and one more would take {_format_percent(level)}"
    )


def _before(spent: Sequence[Spent], key: str) -> tuple[Spent, ...]:
    """Returns the tests before the one with this key."""
    keys = [test.key for test in spent]
    return tuple(spent[: keys.index(key)] if key in keys else spent)


def _time(test: Spent) -> datetime:
    moment = datetime.fromisoformat(test.at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _format_percent(share: float) -> str:
    return f"{100 * share:.3g}%"
