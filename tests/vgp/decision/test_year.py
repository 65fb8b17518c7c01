"""The short form of benchmarks/gate: a year of nights, each gate on the same data."""

import pytest

from benchmarks.gate import nights, process, schedules, windows, worlds, years

NORMAL = worlds.DISTRIBUTIONS["normal"]


@pytest.mark.parametrize(
    ("name", "days", "plain"),
    [("normal", 31, 1), ("Student t, 3 degrees", 31, 0), ("-gamma(4), skewness -1", 20, 20),
     ("-exponential, skewness -2", 31, 100), ("-exponential, skewness -2", 100, 20)],
)  # fmt: skip
def test_a_year_without_a_gain_promotes_with_a_chance_of_five_percent_at_most(name, days, plain):
    """Of 40,000 nights 5.5 may, at the year's level; the plain t test promotes on 20 times as many and more."""
    fixed, student, found = nights.count_false_nights(worlds.DISTRIBUTIONS[name], days, 40_000)
    assert fixed > 1_500 and student >= plain
    assert found <= 8  # 1 chance in 6 to be more at the level itself


def test_nights_of_few_days_are_not_decided():
    assert nights.count_false_nights(worlds.DISTRIBUTIONS["-exponential, skewness -2"], 10, 20_000)[2] == 0


def test_days_that_are_unequal_or_shared_by_users_promote_no_more(capsys):
    sizes = lambda random, shape: random.standard_exponential(shape) ** 2  # noqa: E731
    assert nights.count_false_nights(NORMAL, 31, 20_000, sizes)[2] <= 5
    nights.two_ways(20_000)
    by_day, _, found = (float(cell.strip(" %")) for cell in capsys.readouterr().out.splitlines()[-1].split("|")[2:5])
    assert by_day > 50 and found <= 20  # 2,000 nights: 1 of them is 17 % of a year


def test_with_overlapping_windows_and_drift_hardly_any_year_is_wrong_and_a_gain_is_found_soon():
    name = "**gate**, every night"
    for drift in (0.0, 0.2):
        wrong = years.count_false_years(20, drift, NORMAL)
        assert wrong[name] <= 0.1 and wrong["t, 5% every night"] >= 0.5
    assert float(years.measure_waits(20, 1.25)[name]) <= 7


def test_a_longer_test_window_shows_a_smaller_gain_and_more_decisions_a_year_a_larger_one():
    by_length = [windows.smallest_gain(days, 365, True, 300_000) for days in (31, 92, 365)]
    by_nights = [windows.smallest_gain(31, count, True, 100_000) for count in (1, 12, 365)]
    assert by_length[0] > 2 * by_length[1] > 3 * by_length[2] > 0 and sorted(by_nights) == by_nights
    # For many independent rows it is the textbook value: the sum of the normal quantiles at both probabilities.
    assert windows.smallest_gain(3_000, 365, False, 2_000_000) == pytest.approx((3.64 + 0.84) / 3_000**0.5, rel=0.05)


def shares(world, gain=0.0, count=50, nights=365):
    """The share of years in which each policy promotes a model."""
    (found,) = process.lived(count, process.WORLDS[world], gain)
    return [float(found[name][:, :nights].any(axis=1).mean()) for name in process.POLICIES]


def test_both_halves_find_small_gains_that_the_test_alone_does_not_and_large_ones_hardly_later():
    test, both, bounded = shares("normal", 0.25)
    assert test <= 0.25 and both >= 0.5 and bounded >= 0.65
    test, both, _ = shares("normal", 1.0, nights=30)
    assert test >= 0.9 and both >= 0.85


@pytest.mark.parametrize(
    "world",
    ["normal", "skewed (-exponential), also each one's own", "0.6 of the day before, skewed",
     "spells of 7 days share 0.5, also each one's own", "5% bad days, each good one gains 0.5",
     "1% bad days, each good one gains 1"],
)  # fmt: skip
def test_both_halves_err_no_more_often_than_the_test_alone_and_a_worst_day_keeps_the_promise(world):
    test, both, bounded = shares(world)
    assert both <= test + 0.02 and bounded <= 0.02


def test_weekly_runs_promote_a_gain_once_and_nothing_afterwards():
    """The evidence begins again with each champion; without that, half of these years promote again by luck."""
    weekly = schedules.SCHEDULES["every week, a gain of 0.5 until a promotion"]
    assert [schedules.count_promotions(weekly, "`worst_day`", seed) for seed in range(8)] == [(1, 0)] * 8


def test_bad_days_that_every_window_holds_promote_nothing_and_those_that_many_windows_lack_do():
    """docs/explanation/the-gate.md, Limits: 31 days hold a bad one of four but for a chance of one night's level."""
    assert nights.count_false_nights(worlds.mix_two_kinds(0.4, 0.5), 31, 20_000)[-1] <= 2
    assert nights.count_false_nights(worlds.mix_two_kinds(0.1, 0.5), 31, 20_000)[-1] > 50
