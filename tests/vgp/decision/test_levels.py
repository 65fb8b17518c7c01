import dataclasses

import numpy as np
import pytest
from scipy import stats

from vgp.decision import levels
from vgp.evaluation import clusters
from vgp.evaluation.clusters import Contrast

LEVEL = levels.tonight(0.95, 365)


def contrast(estimate=0.0, error=1.0, count=31, skew=0.0):
    return Contrast(estimate, error, count - 1, skew, (count,))


def test_a_year_of_tests_at_one_level_errs_together_as_promised():
    assert levels.tonight(0.95, 365) * 365 == pytest.approx(0.05) and levels.tonight(0.9, 1) == pytest.approx(0.1)


def test_where_nothing_is_skewed_to_the_left_the_critical_value_is_students():
    assert levels.critical(LEVEL, 30, 0.4) == pytest.approx(stats.t.isf(LEVEL, 30))
    assert levels.critical(LEVEL, 1e7) == pytest.approx(stats.t.isf(LEVEL, 1e7), rel=1e-3)


def test_the_critical_value_solves_halls_transformation():
    for skew in (-0.1, -0.05, 0.0):
        t = levels.critical(LEVEL, 99, skew)
        assumed = 2 * skew * np.sqrt(100 * 99) / 98 - 2 * np.sqrt(6 * 99 / (98 * 101 * 103))
        bend = 2 / 3 * assumed
        assert (np.exp(bend * t) - 1) / bend + assumed / 6 == pytest.approx(stats.t.isf(LEVEL, 99))


def test_the_critical_value_rises_as_clusters_are_fewer_more_skewed_and_nights_more():
    by_count = levels.critical(LEVEL, np.array([400, 100, 60, 31, 20, 15]) - 1)
    by_skew = levels.critical(LEVEL, 60, np.array([0.3, 0.0, -0.1, -0.2]))
    by_nights = np.array([levels.critical(0.05 / nights, 30) for nights in (1, 12, 52, 365)])
    for values in (by_count, by_skew, by_nights):
        assert (np.diff(values) > 0).all()
    assert np.isinf(levels.critical(LEVEL, 10)) and np.isinf(levels.critical(0.05, 2))


def test_a_gain_of_three_times_students_value_is_believed_however_skewed_the_clusters_are():
    assert levels.critical(LEVEL, 30, -0.6) == levels.critical(LEVEL, 30, -5.0) == 3 * stats.t.isf(LEVEL, 30)


def test_skewness_to_the_left_counts_twice():
    to_the_left, symmetric, to_the_right = (levels._assume_skewness(np.array(skew), 31) for skew in (-0.05, 0.0, 0.05))
    assert to_the_left - symmetric == pytest.approx(2 * (symmetric - to_the_right))


@pytest.mark.parametrize(("nights", "fewest"), [(1, 10), (52, 13), (365, 15)])
def test_how_many_clusters_it_takes_follows_from_the_level(nights, fewest):
    level = levels.tonight(0.95, nights)
    assert levels.fewest(level) == fewest
    assert levels.enough(level, contrast(count=fewest)) and not levels.enough(level, contrast(count=fewest - 1))
    unequal = dataclasses.replace(contrast(count=40), degrees=fewest - 2.0)
    assert not levels.enough(level, unequal)  # 40 days, which by their sizes are worth one too few


def test_the_detectable_difference_is_seen_with_the_power_that_it_promises():
    random, count = np.random.default_rng(1), 100
    gains = [levels.detectable(contrast(error=1 / np.sqrt(count), count=count), LEVEL, margin) for margin in (0.0, 0.3)]
    assert gains[1] - gains[0] == pytest.approx(0.3)
    seen = clusters.estimate_mean(gains[0] + random.standard_normal((5_000, count)), np.ones((5_000, count)))
    error = np.sqrt(seen.variance)
    passed = seen.estimate > error * levels.critical(LEVEL, seen.degrees, seen.third / error**3)
    assert passed.mean() == pytest.approx(levels.POWER, abs=0.05)


def test_an_ordinary_interval_is_students():
    low, high = levels.within(contrast(2.0, 0.5), 0.975)
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 30, 2.0, 0.5))
