import numpy as np
import pytest
from sklearn.metrics import (
    d2_pinball_score,
    mean_absolute_error,
    mean_pinball_loss,
    mean_squared_error,
    median_absolute_error,
    r2_score,
)

from vgp.evaluation import regression

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
DRAW = np.random.default_rng(3)
LABEL = DRAW.normal(size=400).round(1)  # with ties
MEAN = LABEL + DRAW.normal(size=400)
PREDICTED = np.stack([MEAN, *(MEAN + apart for apart in (-1.6, -0.7, 0.1, 0.7, 1.6))])


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e9])
def test_the_figures_are_those_of_scikit_learn(unit):
    label, predicted = LABEL * unit, PREDICTED * unit
    found = regression.regression_scores(label, predicted, SHARES)
    median = predicted[3]
    assert found.rmse == pytest.approx(mean_squared_error(label, predicted[0]) ** 0.5)
    assert found.r2 == pytest.approx(r2_score(label, predicted[0]))
    assert found.mae == pytest.approx(mean_absolute_error(label, median))
    assert found.median_absolute_error == pytest.approx(median_absolute_error(label, median))
    pinball = [mean_pinball_loss(label, p, alpha=q) for q, p in zip(SHARES, predicted[1:], strict=True)]
    assert found.pinball == pytest.approx(pinball) and found.mean_pinball == pytest.approx(np.mean(pinball))
    assert found.bias == pytest.approx((predicted[0] - label).mean())


def test_d2_of_one_quantile_is_that_of_scikit_learn():
    found = regression.regression_scores(LABEL, PREDICTED[[0, 2]], (0.25,))
    assert found.d2 == pytest.approx(d2_pinball_score(LABEL, PREDICTED[2], alpha=0.25))


def test_without_a_median_absolute_errors_are_of_the_mean():
    found = regression.regression_scores(LABEL, PREDICTED[[0, 1, 5]], (0.05, 0.95))
    assert found.mae == pytest.approx(mean_absolute_error(LABEL, PREDICTED[0]))
    losses = regression.losses("absolute", LABEL, PREDICTED[[0, 1, 5]], (0.05, 0.95))
    assert losses.mean() == pytest.approx(found.mae)


def test_a_constant_label_has_no_r2_and_no_d2():
    found = regression.regression_scores(np.full(400, 3.7), PREDICTED, SHARES)
    assert found.r2 is None and found.d2 is None and found.rmse > 0


def test_central_intervals_are_those_of_quantiles_that_lie_symmetrically():
    assert [(i.low, i.high, i.expected) for i in regression.central(SHARES)] == [(0.05, 0.95, 0.9), (0.25, 0.75, 0.5)]
    assert [i.expected for i in regression.central((0.1, 0.5, 0.8, 0.9))] == [0.8]
    assert regression.central((0.5,)) == regression.central((0.2, 0.5)) == ()


def test_coverage_counts_labels_at_the_ends_and_width_is_the_mean_one():
    label, low, high = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 1, 1]), np.array([2.0, 4, 3, 2])
    found = regression.regression_scores(label, np.stack([label, low, high]), (0.1, 0.9))
    assert found.coverage == (0.5,) and found.width == (1.25,)


def test_labels_that_equal_a_quantile_count_as_what_is_nearer_to_right():
    label = np.array([0.0] * 7 + [1.0, 2.0, 3.0])
    zero, two = np.zeros(10), np.full(10, 2.0)
    found = regression.calibration(label, np.stack([zero, zero, zero, two]), (0.1, 0.5, 0.95))
    assert [(c.observed, c.tied) for c in found] == [(0.1, 0.7), (0.5, 0.7), (0.9, 0.1)]


def test_every_residual_is_in_a_bar_or_outside():
    apart = DRAW.standard_cauchy(5_000)
    counts, below, above = regression.residual_counts(apart, regression.residual_edges(apart))
    assert sum(counts) + below + above == 5_000 and below == above == 25
    same = regression.residual_counts(np.full(5, 2.5), regression.residual_edges(np.full(5, 2.5)))
    assert sum(same[0]) == 5


def test_residuals_are_shown_by_prediction_with_equal_predictions_together():
    bins = regression.by_prediction(LABEL, PREDICTED[0])
    assert len(bins) == 20 and {b.rows for b in bins} == {20}
    assert [b.predicted for b in bins] == sorted(b.predicted for b in bins)
    assert sum(b.mean * b.rows for b in bins) == pytest.approx((LABEL - PREDICTED[0]).sum())
    assert [b.rows for b in regression.by_prediction(LABEL, np.zeros(400))] == [400]
    assert len(regression.by_prediction(LABEL[:3], MEAN[:3])) == 3
