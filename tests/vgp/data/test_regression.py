import re

import numpy as np
import pyarrow as pa
import pytest

from vgp.base.exits import UserError
from vgp.data import leaks
from vgp.data.columns import fixed_width, sketches
from vgp.data.prepare import prepare
from vgp.data.rows import open_rows
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask
from vgp.data.task import Task
from vgp.protocol import manifest

NAME, SIZE = Field("name", pa.string()), Field("size", pa.float64())


def task_of(kind: pa.DataType = pa.float64(), **attributes: object) -> type[TabularTask]:  # noqa: B008
    schema = (NAME, SIZE, Field("cost", kind, nullable=True, known="after"))
    return type("Mine", (TabularTask,), {"schema": schema, "target": "cost", "quantiles": (0.1, 0.9), **attributes})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"quantiles": (0.9, 0.1)}, r"quantiles is \(0.9, 0.1\): it must rise"),
        ({"quantiles": (0.1, 0.1)}, "it must rise, each number once"),
        ({"quantiles": (0.0, 0.5)}, "must be numbers between 0 and 1"),
        ({"quantiles": (10, 50)}, "must be numbers between 0 and 1"),
        ({"quantiles": "0.5"}, "must be numbers between 0 and 1"),
        ({"quantiles": 0.5}, "must be numbers between 0 and 1"),
        ({"classes": ("a", "b")}, "declares both quantiles, which make it a regression, and the classes a, b"),
        ({"decided_by": "rmse"}, "decided_by is 'rmse': the decision tests one of pinball, squared, absolute"),
        ({"score": lambda self, model, batch: None}, "declares quantiles and has a method `score`"),
    ],
)
def test_an_outcome_that_cannot_be_is_refused_at_once(attributes, message):
    with pytest.raises(UserError, match=message):
        task_of(**attributes)()


@pytest.mark.parametrize("kind", [pa.string(), pa.date32()])
def test_a_regression_on_what_is_no_number_is_refused(kind):
    with pytest.raises(
        UserError, match=f"the target cost is {re.escape(str(kind))}, but a task with `quantiles` predicts a number"
    ):
        task_of(kind)()


def test_a_task_with_quantiles_is_a_regression_without_classes_and_others_are_not():
    task = task_of()()
    assert task.regression and task.classes == () and not task.likelihood
    assert Task.classes == ("no", "yes") and not Task.regression.fget(Task)


def test_labels_are_exact_numbers_and_rows_without_one_are_left_out_and_counted(prices):
    made = manifest.load(prices.data)
    given = sorted(float(row["price"]) for row in prices.rows() if row["price"])
    found = [open_rows(prices.data, split).columns["label"] for split in made.splits]
    assert all(label.dtype == np.float64 for label in found)
    assert sorted(np.concatenate(found).tolist()) == given
    assert made.rows_dropped == {"not sold yet": prices.ROWS - len(given)}


def test_the_manifest_describes_the_label_of_the_train_split(prices):
    made = manifest.load(prices.data)
    column, label = made.column("label"), open_rows(prices.data, "train").columns["label"]
    assert (column.kind, column.type, column.values, column.counts) == ("label", "double", (), ())
    assert column.count == len(label)
    assert (column.mean, column.std) == pytest.approx((label.mean(), label.std()))
    assert (column.minimum, column.maximum) == (label.min(), label.max())
    assert column.quantiles == pytest.approx(np.quantile(label, np.linspace(0, 1, 21)))
    assert made.statistics["regression"] == {"quantiles": [0.1, 0.5, 0.9], "target": "price", "unit": "EUR"}


def refused(prices, tmp_path, message, *, task="prices:Prices", **changed):
    table = [{**row, **changed} for row in prices.rows(60)]
    with pytest.raises(UserError, match=message):
        prepare(task, str(prices.write(tmp_path / "prices.csv", table)), tmp_path / "data")
    assert not (tmp_path / "data" / "manifest.json").exists()


def test_a_constant_label_is_refused(prices, tmp_path):
    refused(prices, tmp_path, "the label is 5 in every row of the train split", price="5")


def test_a_label_that_is_only_missing_is_refused(prices, tmp_path):
    refused(prices, tmp_path, r"the input has no row with a label \(not sold yet\)", price="NaN")


def test_an_infinite_label_is_refused_with_its_row(prices, tmp_path):
    refused(prices, tmp_path, r"prices.csv, line 2: the label -?inf is not finite", price="-inf")


def test_text_in_a_label_is_refused_with_its_row(prices, tmp_path):
    refused(prices, tmp_path, "line 2.*cheap", price="cheap")


# ---- a task that makes its rows itself


@pytest.mark.parametrize("values", [[1, 2, 3], [1.5, 2.5, -3.0], [True, False, True]])
def test_labels_of_any_number_type_become_float64(values):
    table = fixed_width(pa.table({"x": [1.0, 2.0, 3.0], "label": values}), "label", regression=True)
    assert table["label"].to_pylist() == [float(value) for value in values]
    figures = sketches(table, "label", train=True)["label"].column("label", ())
    assert (figures.kind, figures.type, figures.mean) == ("label", "double", pytest.approx(np.mean(values)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, None], "column label .double. must have a value; it is missing in 1 rows"),
        ([1.0, float("nan")], "missing in 1 rows"),
        ([1.0, float("inf")], "column label holds infinite values"),
        (["a", "b"], "the label label has the type string: a regression predicts a number"),
    ],
)
def test_a_label_that_is_no_number_is_refused(values, message):
    with pytest.raises(UserError, match=message):
        fixed_width(pa.table({"x": [1.0, 2.0], "label": values}), "label", regression=True)


# ---- leaks

DRAW = np.random.default_rng(0)
ROWS = 2_000
COST = DRAW.lognormal(sigma=2.0, size=ROWS)


def is_refused(column: np.ndarray, label: np.ndarray = COST) -> bool:
    try:
        leaks.check({"x": column, "label": label}, "label", (), ())
    except UserError as error:
        assert "the column x alone predicts the label" in str(error)
        return True
    return False


@pytest.mark.parametrize(
    "leak",
    [
        COST,
        np.log(COST).astype(np.float32),
        np.abs(np.log(COST) - 3).astype(np.float32) * np.sign(np.log(COST) - 3),
        1.19 * COST + 0.5,
        -COST * DRAW.normal(1, 0.01, ROWS),
    ],
    ids=["itself", "log", "bent", "with tax", "nearly"],
)
def test_a_column_that_predicts_the_number_is_refused(leak):
    assert is_refused(leak)


@pytest.mark.parametrize(
    "honest",
    [
        COST * DRAW.lognormal(sigma=0.5, size=ROWS),  # rank correlation of 0.97
        np.full(ROWS, np.nan, np.float32),
        np.arange(ROWS).astype(np.uint64),
        DRAW.normal(size=ROWS),
    ],
    ids=["signal", "missing", "identifier", "noise"],
)
def test_an_honest_column_is_not_refused(honest):
    assert not is_refused(honest)


def test_few_rows_prove_nothing():
    assert not is_refused(COST[:150], COST[:150])
