import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from vgp.evaluation import metrics
from vgp.evaluation.ranked import Ranked, packed

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
    rows = packed(score, hit)
    found = metrics.one_vs_rest_aucs(rows, Ranked.of(rows), parts)
    for part, auc in zip(parts, found, strict=True):
        mixed = len(np.unique(hit[part])) == 2
        bound = 1e-12 if make is stepped else max(tolerance, 1e-12)
        assert auc == (pytest.approx(roc_auc_score(hit[part], score[part]), abs=bound) if mixed else None)
    whole = Ranked.of(rows).auc()
    assert (found[-1] != whole) is (make is spread and tolerance > 0)


def test_a_part_without_hits_has_no_auc():
    rows = packed(np.full(ROWS, 0.5), np.arange(ROWS) < 10)
    assert metrics.one_vs_rest_aucs(rows, Ranked.of(rows), [np.arange(10, ROWS), np.arange(10)]) == [None, None]
