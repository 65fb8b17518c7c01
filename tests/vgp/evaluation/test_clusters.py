import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from vgp.decision import levels
from vgp.evaluation import clusters
from vgp.evaluation.predictions import Names

from . import rowwise


@given(st.lists(st.integers(0, 9) | st.just(1 << 40), max_size=30))
def test_codes_are_numbered_as_they_rise(codes):
    numbers, count = clusters.renumber(np.array(codes, np.int64))
    distinct = sorted(set(codes))
    assert count == len(distinct) and [distinct[number] for number in numbers] == codes


@given(st.integers(0, 1000), st.integers(11, 40), st.booleans())
def test_a_contrast_is_that_of_the_matrices_of_bell_and_mccaffrey(seed, groups, weighted):
    random = np.random.default_rng(seed)
    group = random.permutation(np.r_[np.arange(groups), random.integers(0, groups, 100)])
    difference = random.normal(0.05, 1, groups + 100)
    sizes = random.integers(1, 9, groups + 100).astype(float)
    found = clusters.contrast(difference, [group], sizes if weighted else None)
    mean, variance, degrees, third = rowwise.clustered(difference, group, sizes if weighted else np.ones(groups + 100))
    figures = (found.estimate, found.error, found.degrees, found.skew * found.error**3)
    assert figures == pytest.approx((mean, variance**0.5, degrees, third), rel=1e-9)
    assert found.clusters == (groups,) and found.degrees < groups - 1


def test_of_independent_rows_and_of_equal_groups_the_test_is_students():
    difference = np.random.default_rng(5).normal(0.1, 1, 200)
    expected = stats.ttest_1samp(difference, 0, alternative="greater").pvalue
    for groupings in ([], [np.arange(200)]):
        found = clusters.contrast(difference, groupings)
        assert levels.above(found) == pytest.approx(expected) and found.degrees == pytest.approx(199)
    by_ten = clusters.contrast(difference, [np.repeat(np.arange(20), 10)])
    means = difference.reshape(20, 10).mean(axis=1)
    assert levels.above(by_ten) == pytest.approx(stats.ttest_1samp(means, 0, alternative="greater").pvalue)


def test_the_error_is_the_spread_of_the_mean_over_repeated_samples_however_unequal_the_groups():
    random = np.random.default_rng(6)
    shares = np.exp(random.normal(size=30))
    days = random.normal(size=(20_000, 30))
    found = clusters.estimate_mean(days * shares, np.broadcast_to(shares, days.shape))
    assert found.variance.mean() == pytest.approx(found.estimate.var(), rel=0.05)
    of_chi_squared = 2 * found.variance.mean() ** 2 / found.variance.var()  # the degrees that its spread has
    assert found.degrees[0] == pytest.approx(of_chi_squared, rel=0.05) and found.degrees[0] < 15


@pytest.mark.parametrize(("difference", "p_value"), [(0.0, 0.5), (0.2, 0.0), (-0.2, 1.0)])
def test_a_difference_without_spread_is_distinguished_from_rounding(difference, p_value):
    assert levels.above(clusters.contrast(np.full(50, difference), [np.arange(50)])) == p_value


# ---- two groupings


def crossed(random, days=20, users=30, of_day=1.0, of_user=1.0):
    day, user = (codes.ravel() for codes in np.indices((days, users)))
    return of_day * random.normal(size=days)[day] + of_user * random.normal(size=users)[user], day, user


def test_the_variance_by_two_groupings_is_that_of_both_less_that_of_their_cells():
    random = np.random.default_rng(7)
    difference, day, user = crossed(random)
    difference += random.normal(size=len(day))
    by_day, by_user, by_cell = (
        clusters.contrast(difference, [codes]).error ** 2 for codes in (day, user, np.arange(len(day)))
    )
    found = clusters.contrast(difference, [day, user])
    assert found.error**2 == pytest.approx(by_day + by_user - by_cell)
    assert found.degrees == pytest.approx(19) and found.clusters == (20, 30)
    assert clusters.contrast(difference, [user, day]).error == pytest.approx(found.error)


def test_a_variance_that_would_be_too_small_is_that_of_one_grouping():
    """In a Latin square whose days and users cancel exactly, the sum of three is below either, and below 0."""
    sign = np.where(np.indices((12, 12)).sum(axis=0) % 2, 1.0, -1.0)
    day, user = (codes.ravel() for codes in np.indices((12, 12)))
    difference = sign.ravel() + 0.01 * np.arange(12)[day]
    by_day, by_user = (clusters.contrast(difference, [codes]).error ** 2 for codes in (day, user))
    assert by_day + by_user < clusters.contrast(difference, [np.arange(144)]).error ** 2
    assert clusters.contrast(difference, [day, user]).error ** 2 == pytest.approx(max(by_day, by_user))


def test_a_column_that_is_within_another_changes_nothing():
    random = np.random.default_rng(8)
    week = np.repeat(np.arange(15), 14)
    difference = random.normal(size=15)[week] + random.normal(size=210)
    within = clusters.contrast(difference, [week, np.repeat(np.arange(30), 7)])
    assert within.error == pytest.approx(clusters.contrast(difference, [week]).error)


def test_sums_of_many_rows_are_exact_to_the_last_digits_and_alike_in_any_unit():
    random = np.random.default_rng(9)
    difference, day = random.standard_normal(100_000) + 1e3, random.integers(0, 31, 100_000)
    found = clusters.contrast(difference, [day, random.integers(0, 5_000, 100_000)])
    assert found.estimate == pytest.approx(math.fsum(difference) / 100_000, rel=1e-13)
    doubled = clusters.contrast(2.0**40 * difference, [day], scale=1e12)
    assert doubled.error == 2.0**40 * clusters.contrast(difference, [day]).error


# How alike neighbouring groups are, and what that takes from what they prove.


def spells(carried, samples=4_000, groups=40):
    days = np.random.default_rng(3).standard_normal((samples, groups))
    for day in range(1, groups):
        days[:, day] = carried * days[:, day - 1] + np.sqrt(1 - carried**2) * days[:, day]
    return days


@pytest.mark.parametrize("carried", [0.0, 0.3, 0.6])
def test_the_correlation_is_that_of_the_days_and_stretches_the_error_to_what_it_is(carried):
    days = spells(carried)
    seen = clusters.neighbour_correlation(days - days.mean(axis=1, keepdims=True))
    assert seen.mean() == pytest.approx(carried, abs=0.03)
    independent = days.std(axis=1, ddof=1).mean() / np.sqrt(days.shape[1])
    assert days.mean(axis=1).std() == pytest.approx(independent * clusters.error_stretch(carried), rel=0.08)


def test_caution_takes_the_correlation_for_higher_and_none_is_below_zero():
    assert clusters.assume_correlation(0.3, 91, 1.0) == pytest.approx(0.4)
    assert clusters.assume_correlation(-0.5, 31, 0.0) == 0.0 and clusters.error_stretch(0.0) == 1.0
    assert clusters.assume_correlation(0.99, 31, 1.0) == clusters.MOST_CORRELATION
    assert clusters.neighbour_correlation(np.zeros(12)) == pytest.approx(1 / 12)


@pytest.mark.parametrize(
    ("values", "order"),
    [(["15889", "-3", "15900"], [1, 0, 2]), (["2013-05-02", "2013-05-10", "2013-05-01"], [1, 2, 0]),
     (["2013-W10", "2013-W02"], [1, 0]), (["9", "10"], [0, 1])],
)  # fmt: skip
def test_numbers_and_dates_have_an_order(values, order):
    assert clusters.in_order(Names(np.arange(len(values)), values)).tolist() == order


@pytest.mark.parametrize("values", [["JFK", "LGA"], ["1", ""], ["2013-5-1", "2013-05-02"], ["1", None], []])
def test_other_names_have_none(values):
    assert clusters.in_order(Names(np.arange(len(values)), values)) is None
