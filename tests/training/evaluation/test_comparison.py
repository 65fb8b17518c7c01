import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from training.evaluation import comparison, metrics
from training.evaluation.comparison import Blocks
from training.evaluation.predictions import Names

ROWS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), st.integers(0, 3)), min_size=4, max_size=40).filter(
    lambda rows: len({label for label, _, _ in rows}) == 2
)


@given(ROWS, st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_a_weighted_auc_is_the_auc_of_repeated_rows(rows, weights):
    label, score, block = (np.array(column) for column in zip(*rows, strict=True))
    repeated = np.repeat(np.arange(len(rows)), np.array(weights)[block])
    found = comparison.auc_replicates(np.array([weights], float), label == 1, score / 5, Blocks(block, 4))
    assert found[0] == pytest.approx(roc_auc_score(label[repeated], score[repeated]))


def test_more_scores_than_fit_in_memory_are_ranked_nearly_as_well(monkeypatch):
    random = np.random.default_rng(7)
    score, rows = random.random(20_000), Blocks(random.integers(0, 10, 20_000), 10)
    positive = random.random(20_000) < score
    exact = comparison.auc_replicates(np.ones((1, 10)), positive, score, rows)[0]
    monkeypatch.setattr(comparison, "MOST_CELLS", 10 * 1_000)
    coarse = comparison.auc_replicates(np.ones((1, 10)), positive, score, rows)[0]
    assert exact == pytest.approx(roc_auc_score(positive, score), abs=1e-12)
    assert coarse != exact and coarse == pytest.approx(exact, abs=1e-4)


def test_a_replicate_of_one_class_is_no_number():
    rows = Blocks(np.array([0, 1]), 2)
    found = comparison.auc_replicates(np.array([[2.0, 0.0]]), np.array([True, False]), np.array([0.9, 0.1]), rows)
    assert np.isnan(found).all()


def test_replicates_with_every_block_once_give_the_plain_figures():
    random = np.random.default_rng(1)
    second, block = random.random(300), random.integers(0, 7, 300)
    label = (random.random(300) < second**2).astype(np.int64)
    table, once, rows = np.stack([1 - second, second], axis=1), np.ones((1, 7)), Blocks(block, 7)
    plain = metrics.scores(label, table)
    bins = metrics.calibration_bins(second, label)
    squares = sum(b.rows * (b.predicted - b.observed) ** 2 for b in bins) / 300
    assert comparison.calibration_replicates(once, label, table, rows)[0] == pytest.approx(squares)
    assert comparison.mean_replicates(once, metrics.row_losses(label, table), rows)[0] == pytest.approx(plain.loss)


def delong(label, first, second):
    """AUC difference and its standard error: DeLong, DeLong & Clarke-Pearson 1988, the direct way."""

    def parts(score):
        wins = (score[label == 1][:, None] > score[label == 0]) + 0.5 * (
            score[label == 1][:, None] == score[label == 0]
        )
        return wins.mean(axis=1), wins.mean(axis=0)

    (p1, n1), (p2, n2) = parts(first), parts(second)
    variance = np.var(p1 - p2, ddof=1) / len(p1) + np.var(n1 - n2, ddof=1) / len(n1)
    return (p1 - p2).mean(), np.sqrt(variance)


@pytest.mark.parametrize("count", [300, 2_000])  # every row its own block, and rows in random blocks
def test_on_independent_rows_the_bootstrap_agrees_with_delong(count):
    random = np.random.default_rng(2)
    label = random.integers(0, 2, count)
    first, second = (label + random.normal(scale=scale, size=count) for scale in (1.0, 1.4))
    rows = comparison.blocks(None, count)
    weights = comparison.resample(rows.count)
    replicates = [comparison.auc_replicates(weights, label == 1, score, rows) for score in (first, second)]
    estimate, error = delong(label, first, second)
    bounds = comparison.interval(estimate, replicates[0] - replicates[1], rows.count, 0.95)
    assert bounds.low == pytest.approx(estimate - 1.645 * error, abs=0.25 * error)
    assert bounds.high == pytest.approx(estimate + 1.645 * error, abs=0.25 * error)


def test_rows_that_share_their_day_widen_the_interval():
    random = np.random.default_rng(3)
    day = np.repeat(np.arange(25), 40)
    values = random.normal(size=25)[day] + random.normal(size=1_000)
    widths = []
    for group in (None, Names(day, tuple(map(str, range(25))))):
        rows = comparison.blocks(group, len(values))
        replicates = comparison.mean_replicates(comparison.resample(rows.count), values, rows)
        bounds = comparison.interval(values.mean(), replicates, rows.count, 0.95)
        widths.append(bounds.high - bounds.low)
    assert widths[1] > 3 * widths[0]


def test_a_perfectly_calibrated_model_is_off_by_nothing_once_noise_is_removed():
    random, once = np.random.default_rng(6), np.ones((1, 250))
    weights = comparison.resample(250, 500)
    found = []
    for _ in range(60):
        second = random.random(1_000)
        label = (random.random(1_000) < second).astype(np.int64)
        table, rows = np.stack([1 - second, second], axis=1), comparison.blocks(None, 1_000)
        plain = comparison.calibration_replicates(once, label, table, rows)[0]
        replicates = comparison.calibration_replicates(weights, label, table, rows)
        found.append((plain, comparison.without_noise(plain, replicates)[0]))
    plain, corrected = np.mean(found, axis=0)
    assert plain > 0.0015  # 15 bins of 67 rows
    assert abs(corrected) < 0.0004


def test_the_interval_of_few_blocks_is_as_wide_as_students():
    values = np.random.default_rng(4).normal(size=12)
    rows = Blocks(np.arange(12), 12)
    replicates = comparison.mean_replicates(comparison.resample(12, 20_000), values, rows)
    bounds = comparison.interval(values.mean(), replicates, 12, 0.95)
    student = stats.t.interval(0.9, 11, values.mean(), values.std(ddof=1) / np.sqrt(12))
    assert bounds.high - bounds.low == pytest.approx(student[1] - student[0], rel=0.06)


def test_one_block_tells_nothing():
    bounds = comparison.interval(0.3, np.full(10, 0.3), 1, 0.95)
    assert (bounds.low, bounds.high) == (-np.inf, np.inf)


def test_groups_stay_whole_when_they_are_dealt_to_blocks():
    codes = np.repeat(np.arange(3 * comparison.MOST_BLOCKS), 2)
    rows = comparison.blocks(Names(codes, ()), len(codes))
    assert rows.count == comparison.MOST_BLOCKS
    assert (rows.codes[::2] == rows.codes[1::2]).all()
    assert np.unique(np.bincount(rows.codes)).tolist() == [6]


def test_the_slice_test_on_independent_rows_is_students():
    difference = np.random.default_rng(5).normal(0.1, 1, 200)
    expected = stats.ttest_1samp(difference, 0, alternative="greater").pvalue
    assert comparison.worse_p_value(difference, np.arange(200)) == pytest.approx(expected)


@pytest.mark.parametrize("difference, expected", [(0.0, 1.0), (0.2, 0.0), (-0.2, 1.0)])
def test_a_difference_without_spread_needs_no_test(difference, expected):
    assert comparison.worse_p_value(np.full(50, difference), np.arange(50)) == expected


def test_holm_adjusts_as_in_the_literature():
    assert comparison.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert comparison.holm([0.9, 0.8]) == [1.0, 1.0]
    assert comparison.holm([]) == []
