import numpy as np
import pyarrow as pa
import pytest

from training.data import leaks
from training.data.leaks import check, sample, separation
from training.errors import UserError

DRAW = np.random.default_rng(0)
ROWS = 4000
LABEL = (DRAW.random(ROWS) < 0.3).astype(np.int64)
HONEST = (LABEL + DRAW.normal(size=ROWS)).astype(np.float32)


def refused(column: np.ndarray) -> bool:
    try:
        check({"x": column, "label": LABEL}, "label", ("no", "yes"), ())
    except UserError as error:
        assert "the column x alone tells" in str(error)
        return True
    return False


@pytest.mark.parametrize(
    "leak",
    [
        LABEL.astype(np.float32),
        np.where(LABEL, 16, DRAW.integers(-60, 16, ROWS)).astype(np.float32),  # beyond a threshold
        np.where(LABEL, 0.5, DRAW.choice([0, 1], ROWS)).astype(np.float32),  # in between: not monotone
        np.where(LABEL, np.nan, HONEST).astype(np.float32),  # missing
        np.where(LABEL, 5, DRAW.integers(6, 300, ROWS)).astype(np.uint64),  # a category
    ],
    ids=["itself", "beyond a threshold", "in between", "missing", "category"],
)
def test_a_column_that_tells_the_label_is_refused(leak):
    assert refused(leak)


@pytest.mark.parametrize(
    "honest",
    [
        HONEST,
        np.full(ROWS, np.nan, np.float32),
        np.zeros(ROWS, np.float32),
        np.arange(ROWS).astype(np.uint64),  # every value once: known by heart, and worth nothing
        np.where(DRAW.random(ROWS) < 0.05, 1 - LABEL, LABEL).astype(np.float32),  # strong, but not a copy
    ],
    ids=["signal", "missing", "constant", "identifier", "strong"],
)
def test_an_honest_column_is_not_refused(honest):
    assert not refused(honest)


def test_trusted_columns_and_ids_are_not_looked_at():
    columns = {"x": LABEL.astype(np.float32), "row": LABEL.copy(), "label": LABEL}
    check(columns, "label", ("no", "yes"), ("x",))


def test_each_of_several_classes_is_looked_at():
    label = DRAW.integers(0, 3, ROWS)
    columns = {"x": (label == 2).astype(np.float32), "label": label}
    with pytest.raises(UserError, match="whether the label is 'c'"):
        check(columns, "label", ("a", "b", "c"), ())


def test_a_class_with_too_few_rows_gives_no_verdict():
    assert separation(np.arange(40), np.arange(40) < 20) == 0.5


def test_separation_agrees_with_the_area_under_the_curve_of_the_same_scores():
    from sklearn.metrics import roc_auc_score

    codes = np.digitize(HONEST, np.linspace(-1, 2, 30))
    half = ROWS // 2
    rates = [LABEL[:half][codes[:half] == code].mean() if (codes[:half] == code).any() else LABEL[:half].mean()
             for code in range(31)]  # fmt: skip
    expected = roc_auc_score(LABEL[half:], np.array(rates)[codes[half:]])
    assert separation(codes, LABEL == 1) == pytest.approx(expected)


def test_the_sample_is_the_same_each_time_and_keeps_rows_together():
    table = pa.table({"n": np.arange(1000.0), "label": np.arange(1000)})
    table = table.append_column("word", pa.array([f"w{i}" for i in range(1000)]).dictionary_encode())
    first, second = sample(table, 3, 100), sample(table, 3, 100)
    assert {name: array.tolist() for name, array in first.items()} == {n: a.tolist() for n, a in second.items()}
    assert (first["n"] == first["label"]).all() and len(set(first["n"].tolist())) == 100
    assert first["n"].tolist() != sample(table, 4, 100)["n"].tolist()
    assert leaks.sample(table.slice(0, 0), 0, 10)["n"].tolist() == []
