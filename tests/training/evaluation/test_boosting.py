import numpy as np
import pytest
from sklearn.metrics import mean_pinball_loss, roc_auc_score

from training.data.manifest import Column
from training.evaluation import baseline_linear, boosting
from training.evaluation.baseline import MOST_VALUES

ROWS = 1_000
DRAW = np.random.default_rng(5)
NAMES = ("", *(f"shop {i:03}" for i in range(400)))
SHOP = Column(name="shop", kind="category", type="int32", values=NAMES, counts=(5, *range(400, 0, -1)))
AREA = Column(name="area", kind="number", type="float", mean=0.0, std=1.0, missing=1)
COLUMNS = (SHOP, AREA)


class Task:
    label, classes, quantiles, regression = "label", (), (0.1, 0.5, 0.9), True
    groups, decided_by = (), "pinball"


class Yes(Task):
    classes, quantiles, regression = ("no", "yes"), (), False


def rows(count: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    area = random.normal(size=count).astype(np.float32)
    shop = random.integers(0, 401, count).astype(np.int32)
    number = np.abs(area) * (1 + random.normal(scale=0.5, size=count)) + (shop == 1)
    area[::50] = np.nan
    return {"shop": shop, "area": area, "label": number}


def yes(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {**batch, "label": (batch["label"] > 0.8).astype(np.int64)}


def test_it_learns_what_a_line_cannot():
    test = rows(seed=1)
    trees, line = (fit(COLUMNS, rows(), Task)(test) for fit in (boosting.fit, baseline_linear.fit))
    losses = [[mean_pinball_loss(test["label"], p[:, 1 + i], alpha=q) for i, q in enumerate(Task.quantiles)]
              for p in (trees, line)]  # fmt: skip
    assert trees.shape == line.shape == (ROWS, 4)
    assert (np.diff(trees[:, 1:], axis=1) >= 0).all() and (np.diff(line[:, 1:], axis=1) >= 0).all()
    assert sum(losses[0]) < 0.9 * sum(losses[1])


def test_of_classes_it_gives_probabilities():
    found = boosting.fit(COLUMNS, yes(rows()), Yes)(test := yes(rows(seed=1)))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert roc_auc_score(test["label"], found[:, 1]) > 0.8


def test_no_bit_of_it_depends_on_the_number_of_threads(monkeypatch):
    found = []
    for cores in (1, 3):
        monkeypatch.setattr("training.processes.cluster.cores", lambda cores=cores: cores)
        found.append(boosting.fit(COLUMNS, rows(300), Task)(rows(50, seed=1)))
    np.testing.assert_array_equal(*found)


def test_rare_values_share_a_code_and_missing_ones_are_missing():
    inputs = boosting._inputs({"shop": np.array([0, 1, 300, 400], np.int32), "area": np.zeros(4, np.float32)}, COLUMNS)
    assert np.isnan(inputs[0, 0]) and inputs[1, 0] == 0 and inputs[2, 0] == inputs[3, 0] == boosting.MOST_VALUES
    assert MOST_VALUES >= boosting.MOST_VALUES


def test_its_work_is_bounded(monkeypatch):
    monkeypatch.setattr(boosting, "MOST_CELLS", 800)
    assert boosting.fit(COLUMNS, rows(), Task).rows == 800 * 2 // (2 * 4)
    assert boosting.fit(COLUMNS, yes(rows()), Yes).rows == 400
    wide = Column(name="pixels", kind="vector", type="fixed_size_binary[4000]", width=4_000)
    with pytest.raises(ValueError, match="4,000 inputs are more than the 1,000"):
        boosting.fit((wide,), rows(), Task)


@pytest.mark.parametrize("count", [1, 4, 50])
def test_a_line_can_be_fitted_to_few_rows(count):
    assert np.isfinite(baseline_linear.fit(COLUMNS, rows(count), Task)(rows(5, seed=2))).all()


def test_the_quantiles_of_a_line_hold_on_rows_that_it_never_saw():
    random = np.random.default_rng(0)
    area = random.normal(size=6_000).astype(np.float32)
    label = 3 * area + random.exponential(size=6_000)
    first, rest = ({"area": area[part], "label": label[part]} for part in (slice(3_000), slice(3_000, None)))
    predicted = baseline_linear.fit((AREA,), first, Task)(rest)
    below = (rest["label"][:, None] <= predicted[:, 1:]).mean(axis=0)
    np.testing.assert_allclose(below, Task.quantiles, atol=0.02)
    assert abs((predicted[:, 0] - rest["label"]).mean()) < 0.05
