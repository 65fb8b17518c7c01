"""How alike neighbouring groups are, and what that takes from what they prove."""

import numpy as np
import pytest

from vgp.evaluation import clusters
from vgp.evaluation.predictions import Names


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
    assert clusters.assumed_correlation(0.3, 91, 1.0) == pytest.approx(0.4)
    assert clusters.assumed_correlation(-0.5, 31, 0.0) == 0.0 and clusters.error_stretch(0.0) == 1.0
    assert clusters.assumed_correlation(0.99, 31, 1.0) == clusters.MOST_CORRELATION
    assert clusters.neighbour_correlation(np.zeros(12)) == pytest.approx(1 / 12)


@pytest.mark.parametrize(
    ("values", "order"),
    [(["15889", "-3", "15900"], [1, 0, 2]), (["2013-05-02", "2013-05-10", "2013-05-01"], [1, 2, 0]),
     (["2013-W10", "2013-W02"], [1, 0]), (["9", "10"], [0, 1])],
)  # fmt: skip
def test_numbers_and_dates_tell_an_order(values, order):
    assert clusters.in_order(Names(np.arange(len(values)), values)).tolist() == order


@pytest.mark.parametrize("values", [["JFK", "LGA"], ["1", ""], ["2013-5-1", "2013-05-02"], ["1", None], []])
def test_other_names_tell_none(values):
    assert clusters.in_order(Names(np.arange(len(values)), values)) is None
