import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc as area
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from training.evaluation import metrics


def binary(count=500, seed=0):
    random = np.random.default_rng(seed)
    second = random.random(count)
    label = (random.random(count) < second).astype(np.int64)
    return label, np.stack([1 - second, second], axis=1)


def several(count=600, classes=4, seed=0):
    random = np.random.default_rng(seed)
    table = random.dirichlet(np.ones(classes), count)
    label = (random.random(count)[:, None] > table.cumsum(axis=1)).sum(axis=1)
    return label, table


@pytest.mark.parametrize("make", [binary, several])
def test_scores_agree_with_scikit_learn(make):
    label, table = make()
    scores = metrics.scores(label, table)
    of_two = table.shape[1] == 2
    assert scores.loss == pytest.approx(log_loss(label, table))
    assert scores.auc == pytest.approx(roc_auc_score(label, table[:, 1] if of_two else table, multi_class="ovr"))
    assert scores.brier == pytest.approx(brier_score_loss(label, table[:, 1] if of_two else table))
    assert scores.accuracy == np.mean(table.argmax(axis=1) == label)


def test_calibration_error_is_what_a_hand_computes():
    second = np.repeat([0.2, 0.6], 10)
    label = np.r_[np.ones(4), np.zeros(6), np.ones(6), np.zeros(4)].astype(np.int64)  # observed .4 and .6
    scores = metrics.scores(label, np.stack([1 - second, second], axis=1))
    assert scores.calibration_error == pytest.approx(0.1)
    assert scores.calibration_gap == pytest.approx(-0.1)


def test_calibration_of_many_classes_is_that_of_the_likeliest():
    table = np.tile([0.7, 0.2, 0.1], (10, 1))
    label = np.r_[np.zeros(5), np.ones(5)].astype(np.int64)
    assert metrics.scores(label, table).calibration_error == pytest.approx(0.2)


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.3, 0.5, 0.9]), st.integers(0, 1)), min_size=1, max_size=60), st.randoms()
)
def test_the_order_of_rows_changes_no_score(rows, random):
    def scores(pairs):
        second = np.array([p for p, _ in pairs])
        return metrics.scores(np.array([y for _, y in pairs]), np.stack([1 - second, second], axis=1)).model_dump()

    shuffled = random.sample(rows, len(rows))
    assert scores(rows) == pytest.approx(scores(shuffled))


def test_a_certain_mistake_costs_much_but_not_infinity():
    scores = metrics.scores(np.array([0, 1]), np.array([[0.0, 1.0], [0.0, 1.0]]))
    assert 7 < scores.loss < 9


@pytest.mark.parametrize("make", [binary, several])
def test_the_roc_curve_is_thin_finite_and_keeps_its_area(make):
    label, table = make(count=5_000)
    curve = metrics.roc(label, table)
    assert curve is not None and len(curve.threshold) <= metrics.ROC_POINTS
    assert (curve.false_positive_rate[0], curve.true_positive_rate[0]) == (0, 0)
    assert (curve.false_positive_rate[-1], curve.true_positive_rate[-1]) == (1, 1)
    assert np.all(np.isfinite(curve.threshold)) and np.all(np.diff(curve.threshold) <= 0)
    assert area(curve.false_positive_rate, curve.true_positive_rate) == pytest.approx(
        metrics.auc(label, table), abs=0.005
    )


def test_without_all_classes_there_is_no_auc_and_no_curve():
    _, table = binary(count=5)
    assert metrics.auc(np.zeros(5, np.int64), table) is None
    assert metrics.roc(np.zeros(5, np.int64), table) is None


def test_confusion_counts_actual_by_predicted():
    table = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    assert metrics.confusion(np.array([0, 0, 1]), table) == [[1, 1], [1, 0]]
