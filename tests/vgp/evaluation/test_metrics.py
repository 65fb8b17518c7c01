import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc as area
from sklearn.metrics import log_loss, roc_auc_score

from tests.vgp.evaluation import rowwise
from vgp.evaluation import metrics
from vgp.evaluation.ranked import PIECE_ROWS, Ranked, normalise, pack, score_rows


def binary(count=500, seed=0):
    random = np.random.default_rng(seed)
    second = random.random(count)
    label = (random.random(count) < second).astype(np.int64)
    return label, np.stack([1 - second, second], axis=1).astype(np.float32)


def several(count=600, classes=4, seed=0):
    random = np.random.default_rng(seed)
    table = random.dirichlet(np.ones(classes), count).astype(np.float32)
    label = (random.random(count)[:, None] > table.cumsum(axis=1)).sum(axis=1).clip(0, classes - 1)
    return label, table


def one_vs_rest(label, table):
    """Each class ranked against the rest; of two the second."""
    codes = [1] if table.shape[1] == 2 else range(table.shape[1])
    shown = table if table.shape[1] == 2 else normalise(table)
    return [Ranked.of(pack(shown[:, code], label == code)) for code in codes]


def measured(label, table):
    rows = score_rows(label, table)
    ranked, aucs = Ranked.of(rows.confident), [ranked.auc() for ranked in one_vs_rest(label, table)]
    auc = None if None in aucs else np.mean(aucs)
    return metrics.scores(rows, ranked, metrics.calibration_bins(ranked), auc)


def curve(label, table):
    ranks = one_vs_rest(label, table)
    return metrics.average_roc([metrics.curve_on_grid(r) for r in ranks]) if len(ranks) > 1 else metrics.roc(ranks[0])


def float64(table):
    """As the stored float32 is read: the first of two classes is not stored."""
    return np.stack([1 - table[:, 1].astype(float), table[:, 1]], axis=1) if table.shape[1] == 2 else normalise(table)


@pytest.mark.parametrize("make", [binary, several])
def test_scores_agree_with_scikit_learn(make):
    label, table = make()
    scores = measured(label, table)
    exact = float64(table)
    of_two = table.shape[1] == 2
    assert scores.loss == pytest.approx(log_loss(label, exact), rel=1e-9)
    assert scores.auc == pytest.approx(roc_auc_score(label, exact[:, 1] if of_two else exact, multi_class="ovr"))
    assert scores.accuracy == np.mean(exact.argmax(axis=1) == label)


#: Scores that collide, scores that differ in the last bit of a float32, and the ends.
SCORES = st.sampled_from([0.0, 0.1, 0.3, 0.5, float(np.nextafter(np.float32(0.5), 1)), 0.9, 1.0]) | st.floats(0, 1)


@given(st.lists(st.tuples(SCORES, st.integers(0, 1)), min_size=1, max_size=80))
def test_figures_of_two_classes_are_those_of_their_definitions(rows):
    second, label = (np.array(column) for column in zip(*rows, strict=True))
    table = np.stack([1 - second, second], axis=1).astype(np.float32)
    expected = rowwise.scores(label, float64(table))
    found = measured(label, table).model_dump()
    assert found.pop("auc") == (None if expected["auc"] is None else pytest.approx(expected["auc"], rel=1e-12))
    del expected["auc"]
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12, abs=1e-12)
    bins = rowwise.bins(*rowwise.confidence_and_outcome(label, float64(table)))
    ranked = Ranked.of(score_rows(label, table).confident)
    assert [(b.rows, b.predicted, b.observed) for b in metrics.calibration_bins(ranked)] == [
        pytest.approx(expected) for expected in bins
    ]
    assert metrics.confidence_counts(ranked) == tuple(np.histogram(table[:, 1].astype(float), 20, (0, 1))[0])


@given(st.integers(0, 1000), st.integers(3, 6), st.integers(1, 3), st.sampled_from([None, 8]))
def test_figures_of_several_classes_are_those_of_their_definitions(seed, classes, sharpness, steps):
    random = np.random.default_rng(seed)
    table = random.dirichlet(np.full(classes, 1 / sharpness), 200)
    table = (table if steps is None else np.maximum(np.round(table * steps), 1) / steps).astype(np.float32)
    label = random.integers(0, classes, len(table))
    expected = rowwise.scores(label, float64(table))
    assert measured(label, table).model_dump(include=expected.keys()) == pytest.approx(expected, abs=1e-7)


def test_many_rows_are_summed_in_pieces_and_ties_across_them_counted():
    random = np.random.default_rng(1)
    for steps in (7, 3_000, None):
        score = random.beta(1, 3, 200_000) if steps is None else random.integers(0, steps, 200_000) / steps
        label = (random.random(200_000) < score).astype(np.int64)
        table = np.stack([1 - score, score], axis=1).astype(np.float32)
        expected = rowwise.scores(label, float64(table))
        assert measured(label, table).model_dump(include=expected.keys()) == pytest.approx(expected, rel=1e-11)
        ranked = one_vs_rest(label, table)[0]
        distinct, starts = np.unique(np.sort(table[:, 1]), return_index=True)
        assert ranked.distinct == len(distinct)
        np.testing.assert_array_equal(ranked.levels(len(distinct)), starts)


def test_calibration_error_is_what_a_hand_computes():
    second = np.repeat([0.2, 0.6], 10)
    label = np.r_[np.ones(4), np.zeros(6), np.ones(6), np.zeros(4)].astype(np.int64)  # observed .4 and .6
    scores = measured(label, np.stack([1 - second, second], axis=1))
    assert scores.calibration_error == pytest.approx(0.1)
    assert scores.calibration_gap == pytest.approx(-0.1)


def test_calibration_of_many_classes_is_that_of_the_likeliest():
    table = np.tile([0.7, 0.2, 0.1], (10, 1))
    label = np.r_[np.zeros(5), np.ones(5)].astype(np.int64)
    assert measured(label, table).calibration_error == pytest.approx(0.2)


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.3, 0.5, 0.9]), st.integers(0, 1)), min_size=1, max_size=60), st.randoms()
)
def test_the_order_of_rows_changes_no_bit_of_a_score(rows, random):
    def scores(pairs):
        second = np.array([p for p, _ in pairs])
        return measured(np.array([y for _, y in pairs]), np.stack([1 - second, second], axis=1))

    shuffled = random.sample(rows, len(rows))
    assert scores(rows) == scores(shuffled)


def test_a_certain_mistake_costs_much_but_not_infinity():
    scores = measured(np.array([0, 1]), np.array([[0.0, 1.0], [-0.0, 1.0]]))
    assert 7 < scores.loss < 9


@pytest.mark.parametrize("make", [binary, several])
def test_the_roc_curve_is_thin_finite_and_keeps_its_area(make):
    label, table = make(count=5_000)
    found = curve(label, table)
    assert len(found.threshold) <= metrics.ROC_POINTS
    assert (found.false_positive_rate[0], found.true_positive_rate[0]) == (0, 0)
    assert (found.false_positive_rate[-1], found.true_positive_rate[-1]) == (1, 1)
    assert np.all(np.isfinite(found.threshold)) and np.all(np.diff(found.threshold) <= 0)
    assert area(found.false_positive_rate, found.true_positive_rate) == pytest.approx(
        measured(label, table).auc, abs=0.005
    )


def test_points_of_the_roc_curve_are_rates_at_their_thresholds():
    label, table = binary(count=3_000)
    found = metrics.roc(one_vs_rest(label, table)[0])
    for false, true, threshold in list(zip(*found.model_dump().values(), strict=True))[1:]:
        above = table[:, 1] >= threshold
        assert (false, true) == pytest.approx((above[label == 0].mean(), above[label == 1].mean()))


def test_without_all_classes_there_is_no_auc():
    _, table = binary(count=5)
    assert measured(np.zeros(5, np.int64), table).auc is None
    assert measured(np.ones(5, np.int64), table).auc is None


def test_confusion_counts_actual_by_predicted():
    table = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    label = np.array([0, 0, 1])
    assert metrics.confusion(label, score_rows(label, table).classes(), 2) == [[1, 1], [1, 0]]


def test_a_tie_between_two_pieces_is_a_tie():
    hit = np.arange(2 * PIECE_ROWS) >= PIECE_ROWS
    assert Ranked.of(pack(np.full(len(hit), 0.5), hit)).auc() == 0.5


ROWS = 40_000


def spread(random):
    return random.random(ROWS) ** 3


def stepped(random):
    """As many as a tree's leaves."""
    return random.integers(0, 50, ROWS) / 50


def heaped(random):
    """Half of the rows at one score, the others apart."""
    return np.where(random.random(ROWS) < 0.5, 0.25, random.random(ROWS))


@pytest.mark.parametrize("levels, tolerance", [(1 << 15, 5e-5), (200, 1e-2), (200, 0.0)])
@pytest.mark.parametrize("make", [spread, stepped, heaped])
def test_the_auc_of_a_part_is_within_its_bound_and_exact_where_levels_are_scores(monkeypatch, make, levels, tolerance):
    monkeypatch.setattr(metrics, "LEVELS", levels)
    monkeypatch.setattr(metrics, "TOLERANCE", tolerance)
    random = np.random.default_rng(0)
    score = make(random).astype(np.float32)
    hit, code = random.random(ROWS) < score, random.integers(0, 3, ROWS)
    narrow = np.flatnonzero((score > 0.5) & (score < 0.51))  # in few of the levels
    parts = [*(np.flatnonzero(code == c) for c in range(3)), narrow, np.arange(1_000), np.arange(ROWS)]
    rows = pack(score, hit)
    found = metrics.one_vs_rest_aucs(rows, Ranked.of(rows), parts)
    for part, auc in zip(parts, found, strict=True):
        mixed = len(np.unique(hit[part])) == 2
        bound = 1e-12 if make is stepped else max(tolerance, 1e-12)
        assert auc == (pytest.approx(roc_auc_score(hit[part], score[part]), abs=bound) if mixed else None)
    whole = Ranked.of(rows).auc()
    assert (found[-1] != whole) is (make is spread and tolerance > 0)


def test_a_part_without_hits_has_no_auc():
    rows = pack(np.full(ROWS, 0.5), np.arange(ROWS) < 10)
    assert metrics.one_vs_rest_aucs(rows, Ranked.of(rows), [np.arange(10, ROWS), np.arange(10)]) == [None, None]
