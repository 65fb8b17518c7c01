"""Money, durations, numbers and lists as people read them."""

import pytest

from vgp.base.text.figures import (
    GB_PER_GIB,
    format_count,
    format_duration,
    format_significant,
    format_usd,
    join_words,
    number,
    with_sign,
)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "no price"), (0, "$0.00"), (0.004, "<$0.01"), (0.02, "$0.02"), (1204.5, "$1,204.50")],
)
def test_money(amount, text):
    assert format_usd(amount) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (45, "45s"), (59.6, "1m 00s"), (200, "3m 20s"), (3720, "1h 02m"), (183600, "2d 03h")],
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1024.0, "1024"), (1024, "1024"), (0.5, "0.5"), (1e-5, "1e-05"), (-2.0, "-2"), (1e300, "1e+300"),
        (float("inf"), "inf"), (float("nan"), "nan"), (True, "True"),
    ],
)  # fmt: skip
def test_a_whole_number_has_no_fraction(value, text):
    assert number(value) == text


def test_lists_and_plurals():
    assert [join_words(()), join_words([1]), join_words([1, 2, 4]), join_words("ab", "and")] == [
        "",
        "1",
        "1, 2 or 4",
        "a and b",
    ]
    assert [format_count(1, "error"), format_count(0, "error"), format_count(1200, "error")] == [
        "1 error",
        "0 errors",
        "1,200 errors",
    ]


def test_a_gib_is_seven_percent_more_than_a_gb():
    assert pytest.approx(1.0737, abs=1e-4) == GB_PER_GIB


@pytest.mark.parametrize(
    ("value", "shown"),
    [(68_050.4, "68,050"), (0.00123449, "0.001234"), (-0.00123449, "-0.001234"), (-0.0, "0"), (4e-9, "4e-09")],
)
def test_a_number_has_its_significant_digits_and_zero_no_sign(value, shown):
    assert format_significant(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.00004, "0.0000"), (-0.00004, "0.0000"), (0.0139, "+0.0139"), (-0.0139, "-0.0139")]
)
def test_a_difference_that_is_shown_as_zero_has_no_sign(value, shown):
    assert with_sign(f"{value:z.4f}") == shown
