import re

import numpy as np
import pyarrow as pa
import pytest

from vgp.base.exits import UserError
from vgp.data import leaks
from vgp.data.leaks import check, sample, separation

DRAW = np.random.default_rng(0)
ROWS = 4000
LABEL = (DRAW.random(ROWS) < 0.3).astype(np.int64)
HONEST = (LABEL + DRAW.normal(size=ROWS)).astype(np.float32)


def refused(column: np.ndarray) -> bool:
    try:
        check({"x": column, "label": LABEL}, "label", ("no", "yes"), ())
    except UserError as error:
        assert "the column x alone predicts" in str(error)
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
def test_a_column_that_predicts_the_label_is_refused(leak):
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


NEARLY = np.where(DRAW.random(ROWS) < 0.1, HONEST, 4 * LABEL + HONEST).astype(np.float32)


def named(columns: dict[str, np.ndarray], label: np.ndarray = LABEL, classes: tuple[str, ...] = ("no", "yes"), **other):
    return " ".join(check({**columns, "label": label}, "label", classes, other.pop("trusted", ()), **other))


def test_a_column_that_nearly_predicts_the_label_is_named_with_an_interval_and_stays():
    note = named(
        {"fee": NEARLY, "x": HONEST, "code": np.where(DRAW.random(ROWS) < 0.04, 1 - LABEL, LABEL) + np.uint64(7)}
    )
    assert re.match(
        r"Columns alone nearly predict the label: fee \(AUC 0\.9\d\d, 95% interval 0\.9\d to 0\.9\d\), code \(", note
    )
    assert "x (" not in note and "leave it out of the features, or name it in the task's `trusted`" in note
    assert named({"fee": NEARLY}, trusted=("fee",)) == "" == named({"x": HONEST})


@pytest.mark.parametrize("rows", [60, 300])
def test_few_rows_are_enough_to_name_a_column(rows):
    assert "fee (AUC" in named({"fee": NEARLY[:rows], "x": HONEST[:rows]}, LABEL[:rows])


@pytest.mark.parametrize("kind", ["number", "category"])
def test_a_column_that_predicts_eight_rows_of_many_is_named_and_luck_is_not(kind):
    rows = 40_000
    label = np.zeros(rows, np.int64)
    label[DRAW.choice(rows, 8, replace=False)] = 1
    if kind == "number":
        leak, honest = DRAW.normal(size=rows) + 4 * label, [DRAW.normal(size=rows) for _ in range(40)]
    else:
        flag = np.where(label == 1, 3, DRAW.choice(3, rows)).astype(np.uint64)
        leak, honest = flag, [DRAW.integers(0, 30, rows).astype(np.uint64) for _ in range(40)]
    note = named({"leak": leak, **{f"x{i}": column for i, column in enumerate(honest)}}, label)
    assert "leak (AUC" in note and "x1" not in note and note.startswith("A column alone nearly predicts the label")


def test_of_a_regression_and_of_several_classes_too():
    number = HONEST.astype(np.float64)
    close = (number + 0.3 * DRAW.normal(size=ROWS)).astype(np.float32)
    assert re.search(r"close \(R2 0\.[89]\d of its rank\)", named({"close": close}, number, ()))
    assert "close (R2" in named({"close": close[:50]}, number[:50], ())
    assert named({"far": (number + DRAW.normal(size=ROWS)).astype(np.float32)}, number, ()) == ""
    label = DRAW.integers(0, 3, ROWS)
    third = np.where(DRAW.random(ROWS) < 0.1, DRAW.normal(size=ROWS), (label == 2) * 5.0).astype(np.float32)
    assert "x (AUC 0.9" in (note := named({"x": third}, label, ("a", "b", "c"))) and "of 'c', 95%" in note


def test_many_columns_are_reported_in_one_sentence_the_strongest_first():
    columns = {f"x{i}": (4 * LABEL + (1 + i / 20) * HONEST).astype(np.float32) for i in range(12)}
    note = named(
        {name: np.where(DRAW.random(ROWS) < 0.05, HONEST, v).astype(np.float32) for name, v in columns.items()}
    )
    assert note.count("AUC") == 8 and "and 4 more" in note


def test_rows_of_a_group_that_predict_each_other_are_no_leak():
    """Such as the height of a patient, of whom every row has the same outcome."""
    who = DRAW.permutation(np.repeat(np.arange(200), 20))
    sick, height = (DRAW.random(200) < 0.5).astype(np.int64), DRAW.normal(170, 10, 200)
    columns = {"height": height[who].astype(np.float32), "who": who.astype(np.float32)}
    with pytest.raises(UserError, match="the column height alone predicts"):
        named(columns, sick[who], trusted=("who",))
    assert named(columns, sick[who], trusted=("who",), group="who") == ""


def test_trusted_columns_and_ids_are_not_looked_at():
    columns = {"x": LABEL.astype(np.float32), "row": LABEL.copy(), "label": LABEL}
    check(columns, "label", ("no", "yes"), ("x",))


def test_each_of_several_classes_is_looked_at():
    label = DRAW.integers(0, 3, ROWS)
    columns = {"x": (label == 2).astype(np.float32), "label": label}
    with pytest.raises(UserError, match="predicts the label 'c'"):
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
