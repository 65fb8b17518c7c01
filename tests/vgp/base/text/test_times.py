"""Times of messages as people read them."""

from datetime import datetime

from vgp.base.text.times import format_local


def test_a_time_of_another_year_names_the_year():
    """A champion of a year ago was not made last month."""
    made = datetime(2026, 11, 23, 14, 3).astimezone()
    assert format_local(made, now=datetime(2026, 12, 28).astimezone()) == "Nov 23 14:03"
    assert format_local(made, now=datetime(2027, 12, 28).astimezone()) == "Nov 23 2026 14:03"
    assert format_local(made, now=datetime(2025, 12, 28).astimezone()) == "Nov 23 2026 14:03"
    assert format_local(None) == ""


def test_now_is_taken_where_it_is_not_given():
    assert "1999" in format_local(datetime(1999, 11, 23, 14, 3).astimezone())
