import numpy as np
import pytest
from sklearn.metrics import mean_pinball_loss, roc_auc_score

from vgp.data.prepare import prepare
from vgp.evaluation import baseline, boosting, rivals
from vgp.evaluation.baseline import MOST_VALUES
from vgp.protocol import manifest
from vgp.protocol.manifest import Column

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
    trees, line = (fit(COLUMNS, rows(), Task)(test) for fit in (boosting.fit, baseline.fit_regression))
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
        monkeypatch.setattr("vgp.protocol.cluster.cores", lambda cores=cores: cores)
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
    assert np.isfinite(baseline.fit_regression(COLUMNS, rows(count), Task)(rows(5, seed=2))).all()


def test_the_quantiles_of_a_line_hold_on_rows_that_it_never_saw():
    random = np.random.default_rng(0)
    area = random.normal(size=6_000).astype(np.float32)
    label = 3 * area + random.exponential(size=6_000)
    first, rest = ({"area": area[part], "label": label[part]} for part in (slice(3_000), slice(3_000, None)))
    predicted = baseline.fit_regression((AREA,), first, Task)(rest)
    below = (rest["label"][:, None] <= predicted[:, 1:]).mean(axis=0)
    np.testing.assert_allclose(below, Task.quantiles, atol=0.02)
    assert abs((predicted[:, 0] - rest["label"]).mean()) < 0.05


X = Column(name="x", kind="number", type="float", mean=0.0, std=1.0)


def noisy(count: int, seed: int, **more: np.ndarray) -> dict[str, np.ndarray]:
    """A label that the inputs hardly predict."""
    random = np.random.default_rng(seed)
    table = {f"x{i}": random.normal(size=count).astype(np.float32) for i in range(10)}
    return {**table, "label": (random.random(count) < 0.5 + 0.05 * np.tanh(table["x0"])).astype(np.int64), **more}


def log_loss(predicted: np.ndarray, label: np.ndarray) -> float:
    return float(-np.log(predicted[np.arange(len(label)), label]).mean())


@pytest.mark.parametrize("validation", [True, False])
def test_it_stops_before_it_learns_noise_by_heart(validation):
    columns = tuple(X.model_copy(update={"name": f"x{i}"}) for i in range(10))
    held = noisy(200, 1) if validation else None
    model, test = boosting.fit(columns, noisy(600, 0), Yes, held), noisy(2_000, 2)
    assert model.models[0].n_iter_ < 50, "all 100 rounds give a loss of 0.9"
    assert log_loss(model(test), test["label"]) < 0.75
    assert model.rows == (600 if validation else 540)


def test_rows_that_decide_when_to_stop_are_whole_groups_and_the_last_days():
    class ByDay(Yes):
        groups = ("day",)

    day = np.repeat(np.arange(40), 15)[np.random.default_rng(0).permutation(600)]
    learn, held = baseline.split_sample(noisy(600, 0, day=day), ByDay)
    assert set(held["day"]) == {36, 37, 38, 39} and set(learn["day"]) == set(range(36))


def test_a_class_that_only_held_rows_have_stops_nothing():
    class Three(Yes):
        classes = ("a", "b", "c")

    columns = tuple(X.model_copy(update={"name": f"x{i}"}) for i in range(10))
    held = noisy(200, 1)
    held["label"][:20] = 2
    assert boosting.fit(columns, noisy(600, 0), Three, held)(noisy(5, 3)).shape == (5, 3)


@pytest.mark.parametrize("where", ["label", "x"])
def test_a_dozen_values_far_outside_do_not_ruin_a_line(where):
    random = np.random.default_rng(0)
    x = random.normal(size=4_000)
    table = {"x": x.astype(np.float32), "label": 3 * x + random.normal(size=4_000)}
    first, rest = ({name: v[part].copy() for name, v in table.items()} for part in (slice(2_000), slice(2_000, None)))
    sane = fit((X.model_copy(update={"std": float(first["x"].std())}),), first)
    first[where][::170] = 1e6
    column = X.model_copy(update={"mean": float(first["x"].mean()), "std": float(first["x"].std())})
    ruined = fit((column,), first)
    pinball = [sum(mean_pinball_loss(rest["label"], p[:, 1 + i], alpha=q) for i, q in enumerate(Task.quantiles))
               for p in (sane(rest), ruined(rest))]  # fmt: skip
    assert pinball[1] < 1.25 * pinball[0]


def fit(columns, sample):
    return baseline.fit_regression(columns, sample, Task)


def test_a_few_values_far_outside_are_named(prices, tmp_path):
    assert rivals.constant(prices.data, manifest.load(prices.data), prices.Prices())[1] == ()
    table = prices.rows()
    for row in table[1::111]:
        row |= {"price": "9e9", "area": "-99999"}
    data, task = tmp_path / "data", prices.Prices()
    prepare("prices:Prices", str(prices.write(tmp_path / "p.csv", table)), data, options={"hidden": [16]})
    dataset = manifest.load(data)
    constant, (note,) = rivals.constant(data, dataset, task)
    count = int((rivals.Shards(data, dataset, "train").column("label") > 1e9).sum())
    assert count and note.startswith(f"Outliers among the train labels: {count} of {dataset.rows('train'):,} are ")
    assert "from the median: 9e+09. They dominate means and squared errors" in note
    assert constant[0] > 1e6 > constant[1] and len(constant) == 2 + len(prices.QUANTILES)
    hidden = type("Hidden", (prices.Prices,), {"private": ("price",)})()
    assert "from the median. They" in rivals.constant(data, dataset, hidden)[1][0]
    notes = rivals.fit(data, dataset, task)[1]
    assert any(n.startswith(f"Outliers among the train rows: area ({count} of ") and "-99,999" in n for n in notes)


def test_far_values_are_outliers_where_they_are_few_and_decide_squares():
    values = np.r_[np.random.default_rng(0).normal(size=3_000), [1e6, -2e5, 5e4]]
    far = rivals._find_outliers(values)
    assert far.count == 3 and far.farthest == (1e6, -2e5, 5e4)
    assert rivals._find_outliers(np.random.default_rng(0).lognormal(size=3_000)) is None
    assert (
        rivals._find_outliers(np.r_[np.zeros(3_000), np.ones(20)]) is None
        and rivals._find_outliers(np.array([np.nan])) is None
    )
