import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from sklearn.metrics import roc_auc_score

from tests.vgp.evaluation import rowwise
from vgp.evaluation import comparison, metrics
from vgp.evaluation.comparison import Blocks
from vgp.evaluation.predictions import Names
from vgp.evaluation.ranked import Ranked, Scored, normalise, pack, score_rows

ROWS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), st.integers(0, 3)), min_size=4, max_size=40).filter(
    lambda rows: len({label for label, _, _ in rows}) == 2
)


def auc_replicates(weights, positive, score, rows):
    ranked = Ranked.of(pack(special.expit(score), positive), rows.codes)
    return comparison.auc_replicates(weights, ranked, rows.count, ranked.auc() or 0.0)


@given(ROWS, st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_a_weighted_auc_is_the_auc_of_repeated_rows(rows, weights):
    label, score, block = (np.array(column) for column in zip(*rows, strict=True))
    repeated = np.repeat(np.arange(len(rows)), np.array(weights)[block])
    found = auc_replicates(np.array([weights], float), label == 1, score / 5, Blocks(block, 4))
    assert found[0] == pytest.approx(roc_auc_score(label[repeated], score[repeated]))


def test_more_scores_than_fit_in_memory_give_nearly_the_same_interval():
    """Its ends within 1e-5 and a thousandth of its width."""
    random, rows, blocks = np.random.default_rng(7), 5_000, 250
    score, codes, weights = random.random(rows) ** 3, random.integers(0, blocks, rows), comparison.resample(blocks, 300)
    by_block, near = 0.1 * random.normal(size=blocks)[codes], random.normal(size=rows)
    for chance in (score, 0.5, 0.01 * score, score > 0.5, score + 0.003 * near > 0.5, score + by_block):
        positive = random.random(rows) < chance
        ranked = Ranked.of(pack(score, positive), codes)
        assert len(ranked.levels(rows)) > comparison.MOST_CELLS // blocks
        exact = rowwise.auc_replicates(weights, positive, score.astype(np.float32), codes, blocks)
        coarse = comparison.auc_replicates(weights, ranked, blocks, ranked.auc())
        assert coarse.max() <= 1
        first, second = (comparison.interval(0.0, values, blocks, 0.975) for values in (exact, coarse))
        ends = [(first.low, second.low), (first.high, second.high)]
        assert max(abs(old - new) for old, new in ends) < 1e-5 + 1e-3 * (first.high - first.low)


def test_a_replicate_of_one_class_is_no_number():
    rows = Blocks(np.array([0, 1]), 2)
    found = auc_replicates(np.array([[2.0, 0.0]]), np.array([True, False]), np.array([0.9, 0.1]), rows)
    assert np.isnan(found).all()


def test_replicates_with_every_block_once_give_the_plain_figures():
    random = np.random.default_rng(1)
    second, block = random.random(300), random.integers(0, 7, 300)
    label = (random.random(300) < second**2).astype(np.int64)
    once, rows, of_rows = np.ones((1, 7)), Blocks(block, 7), Scored(pack(second, label))
    ranked = Ranked.of(of_rows.confident)
    squares = sum(b.rows * (b.predicted - b.observed) ** 2 for b in metrics.calibration_bins(ranked)) / 300
    calibration = comparison.calibration_replicates(once, of_rows.confident, rows, ranked.bin_edges())
    assert calibration[0] == pytest.approx(squares)
    assert comparison.mean_replicates(once, of_rows.losses(), rows)[0] == pytest.approx(of_rows.losses().mean())


@given(st.integers(0, 1000), st.integers(2, 5), st.sampled_from([None, 10]))
def test_calibration_replicates_are_those_of_their_definition(seed, classes, steps):
    random = np.random.default_rng(seed)
    table = random.dirichlet(np.ones(classes), 300)
    if steps:
        table = (np.round(table * steps) + 1) / (np.round(table * steps) + 1).sum(axis=1, keepdims=True)
    table = table.astype(np.float32)
    exact = np.stack([1 - table[:, 1].astype(float), table[:, 1]], axis=1) if classes == 2 else normalise(table)
    label, codes, weights = random.integers(0, classes, 300), random.integers(0, 9, 300), comparison.resample(9, 20)
    rows = score_rows(label, table)
    edges = Ranked.of(rows.confident).bin_edges()
    found = comparison.calibration_replicates(weights, rows.confident, Blocks(codes, 9), edges)
    expected = rowwise.calibration_replicates(weights, label, exact, codes, 9)
    assert found == pytest.approx(expected, rel=1e-9)


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
    replicates = [auc_replicates(weights, label == 1, score, rows) for score in (first, second)]
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
        packing, rows = pack(second, label), comparison.blocks(None, 1_000)
        edges = Ranked.of(packing).bin_edges()
        plain = comparison.calibration_replicates(once, packing, rows, edges)[0]
        replicates = comparison.calibration_replicates(weights, packing, rows, edges)
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


def test_one_block_proves_nothing():
    bounds = comparison.interval(0.3, np.full(10, 0.3), 1, 0.95)
    assert (bounds.low, bounds.high) == (-np.inf, np.inf)


def test_groups_stay_whole_when_they_are_dealt_to_blocks():
    codes = np.repeat(np.arange(3 * comparison.MOST_BLOCKS), 2)
    rows = comparison.blocks(Names(codes, ()), len(codes))
    assert rows.count == comparison.MOST_BLOCKS
    assert (rows.codes[::2] == rows.codes[1::2]).all()
    assert np.unique(np.bincount(rows.codes)).tolist() == [6]


@pytest.mark.parametrize("rows", [100, 249, 250, 251, 3_000])
def test_independent_rows_are_put_into_the_blocks_of_a_permutation(rows):
    expected = np.random.default_rng(comparison.SEED).permutation(rows) % comparison.MOST_BLOCKS
    found = comparison.blocks(None, rows)
    assert found.count == min(rows, comparison.MOST_BLOCKS) == len(np.unique(found.codes))
    assert rows <= comparison.MOST_BLOCKS or (found.codes == expected).all()


def test_holm_adjusts_as_in_the_literature():
    assert comparison.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert comparison.holm([0.9, 0.8]) == [1.0, 1.0]
    assert comparison.holm([]) == []
