import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    f1_score,
    precision_recall_curve,
    precision_score,
    recall_score,
)

from vgp.base.exits import UserError
from vgp.evaluation import thresholds
from vgp.evaluation.ranked import PIECE_ROWS, Ranked, pack
from vgp.protocol.outcome import parse_operating_point


def rows(count=400, seed=0):
    random = np.random.default_rng(seed)
    score = random.integers(0, 60, count).astype(np.float32) / 64
    return (random.random(count) < score**2).astype(np.int64), score


def choose(rule, label, score):
    return thresholds.choose(parse_operating_point(rule), "validation", label, score)


def test_the_largest_f1_is_that_of_scikit_learns_curve():
    label, score = rows()
    chosen = choose("f1", label, score)
    precision, recall, _ = precision_recall_curve(label, score)
    best = np.nanmax(2 * precision * recall / np.maximum(precision + recall, 1e-12))
    assert f1_score(label, score >= chosen.threshold) == pytest.approx(best)
    assert (chosen.split, chosen.rows) == ("validation", len(label))


def test_each_rule_is_kept_and_no_threshold_does_better():
    label, score = rows()
    candidates = np.unique(score)

    def figures(t):
        flagged = score >= t
        return recall_score(label, flagged), precision_score(label, flagged), flagged.mean()

    every = {float(t): figures(t) for t in candidates}
    recall = choose("recall 0.8", label, score).threshold
    assert recall == max(t for t, (r, _, _) in every.items() if r >= 0.8)
    precision = choose("precision 0.6", label, score).threshold
    assert every[precision][0] == max(r for r, p, _ in every.values() if p >= 0.6) and every[precision][1] >= 0.6
    flagged = choose("flagged 0.1", label, score).threshold
    assert flagged == min(t for t, (_, _, f) in every.items() if f <= 0.1)
    cost = choose("cost 4", label, score).threshold

    def price(t):
        return 4 * np.sum((label == 1) & (score < t)) + np.sum((label == 0) & (score >= t))

    assert price(cost) == min(map(price, every))


def test_a_threshold_that_is_given_needs_no_rows_and_any_other_does():
    nothing = np.zeros(0, np.int64), np.zeros(0)
    assert choose("0.4", *nothing).threshold == 0.4 and choose("0.4", *nothing).split == ""
    assert choose("f1", *nothing).threshold is None
    assert choose("precision 1", np.array([0, 1]), np.array([0.9, 0.1])).threshold is None


@pytest.mark.parametrize(
    "text", ["", "f2", "f1 3", "cost", "cost -1", "cost inf", "recall 90", "precision x", "1.5", "nan"]
)
def test_what_is_no_rule_is_refused_with_the_choices(text):
    with pytest.raises(UserError, match="is not a threshold rule. Choices: f1; cost"):
        parse_operating_point(text)


def test_every_row_of_the_table_is_what_flagging_from_there_on_does():
    label, score = rows(1_000)
    chosen = choose("f1", *rows(seed=1))
    found = thresholds.measure(Ranked.of(pack(score, label)), chosen)
    assert found.operating.threshold == chosen.threshold
    names = {name for row in found.table for name in row.name.split(", ")}
    assert names >= {"recall 90%", "recall 50%", "precision 50%"}
    assert [row.threshold for row in found.table] == sorted((row.threshold for row in found.table), reverse=True)
    for row in (*found.table, found.operating):
        flagged = score >= row.threshold
        (negatives, alarms), (missed, hits) = confusion_matrix(label, flagged).tolist()
        assert row.precision == pytest.approx(precision_score(label, flagged))
        assert row.recall == pytest.approx(recall_score(label, flagged))
        assert row.f1 == pytest.approx(f1_score(label, flagged))
        assert row.false_positive_rate == pytest.approx(alarms / (alarms + negatives))
        assert row.flagged == pytest.approx(flagged.mean())
        assert (row.hits_per_1000, row.false_alarms_per_1000, row.missed_per_1000) == (hits, alarms, missed)
        for kind, least in (name.split() for name in row.name.split(", ")):
            assert kind == "operating" or getattr(row, kind) >= float(least[:-1]) / 100


def test_rows_of_one_class_have_a_table_without_what_is_undefined():
    found = thresholds.measure(Ranked.of(pack(np.float32([0.1, 0.9]), np.array([0, 0]))), choose("0.5", *rows()))
    assert found.table == () and found.operating.recall is None and found.operating.f1 == 0


def ranked(label, score):
    return Ranked.of(pack(np.asarray(score, np.float32), np.asarray(label)))


def tossed(rows, levels, seed=0):
    """Labels and scores with many ties."""
    random = np.random.default_rng(seed)
    score = (random.integers(0, levels, rows) / levels).astype(np.float32)
    return (random.random(rows) < score).astype(np.int64), score


@pytest.mark.parametrize("rows, levels", [(1, 3), (7, 2), (500, 11), (3 * PIECE_ROWS, 1 << 23)])
def test_average_precision_is_scikit_learns_on_ties_and_on_many_scores(rows, levels):
    label, score = tossed(rows, levels)
    label[0] = 1
    ours = thresholds.average_precision(ranked(label, score))
    assert ours == pytest.approx(average_precision_score(label, score), rel=1e-12)


def test_there_is_no_average_precision_without_a_hit():
    assert thresholds.average_precision(ranked([0, 0], [0.1, 0.2])) is None
    assert thresholds.precision_recall_curve(ranked([0, 0], [0.1, 0.2])) is None


def test_every_point_lies_on_scikit_learns_curve():
    label, score = tossed(2_000, 1_500)
    curve = thresholds.precision_recall_curve(ranked(label, score))
    precision, recall, threshold = precision_recall_curve(label, score)
    theirs = {float(t): (r, p) for p, r, t in zip(precision, recall, threshold, strict=False)}
    assert len(curve.threshold) > 100 and curve.recall[-1] == 1
    for recall, precision, at in zip(curve.recall, curve.precision, curve.threshold, strict=True):
        assert theirs[at] == pytest.approx((recall, precision))
