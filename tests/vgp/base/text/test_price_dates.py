"""The days of prices, and when a message calls them old."""

from datetime import date

import pytest

from vgp.base.text import times

DAY = date(2026, 8, 1)


@pytest.mark.parametrize(
    ("dates", "text"),
    [
        ([], ""),
        ([None], ""),
        (["2026-07-30", None, "2026-07-30"], "prices of 2026-07-30"),
        (["2026-07-30", "2026-07-09"], "prices of 2026-07-09 to 2026-07-30"),
        (["2026-06-02"], "prices of 2026-06-02"),
    ],
)
def test_the_days_of_prices_are_listed_from_the_oldest(dates, text):
    assert times.price_dates(dates, DAY) == text


def test_prices_of_more_than_sixty_days_ago_are_said_to_be_old():
    text = times.price_dates(["2026-07-30", "2026-06-01"], DAY)
    assert text.startswith("prices of 2026-06-01 to 2026-07-30, up to 61 days old; refresh:")
