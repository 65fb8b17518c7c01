import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_curve

from vgp.evaluation import thresholds
from vgp.evaluation.ranked import PIECE_ROWS, Ranked, packed


def ranked(label, score):
    return Ranked.of(packed(np.asarray(score, np.float32), np.asarray(label)))


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
