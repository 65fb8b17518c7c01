"""predictions.parquet, as a script may leave it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vgp.base.exits import UserError
from vgp.evaluation import predictions_writer as ours
from vgp.evaluation import script_predictions as predictions
from vgp.evaluation import test_rows
from vgp.evaluation.predictions import Header

TWO = ("no", "yes")
THREE = ("a", "b", "c")
IDS = [7, 3, 5]
YES = np.array([0.25, 0.5, 1.0])
BOTH = np.stack([1 - YES, YES], axis=1)


@pytest.fixture
def read(tmp_path):
    def reading(columns, classes=TWO, **options):
        path = tmp_path / "predictions.parquet"
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
        return predictions.read(str(path), classes, **options)

    return reading


def floats(values, kind):
    return pa.array(values, kind)


@pytest.mark.parametrize(
    "columns",
    [
        {"p_no": 1 - YES, "p_yes": YES},
        {"p_yes": YES.astype(np.float32), "p_no": (1 - YES).astype(np.float16), "other": ["x", "y", "z"]},
        {"probability": YES},
        {"probabilities": BOTH.tolist()},
        {"probabilities": pa.array(BOTH.tolist(), pa.large_list(pa.float32()))},
        {"probabilities": pa.array(BOTH.tolist(), pa.list_(pa.float64(), 2))},
        {"challenger": YES},
    ],
    ids=["by class", "mixed types", "of the second", "lists", "large lists", "fixed lists", "ours"],
)
def test_every_form_means_the_same(read, columns):
    left = read({"row_id": pa.array(IDS, pa.int32()), **columns})
    assert left.values == pytest.approx(BOTH) and left.values.dtype == np.float32
    assert (left.row_id.tolist(), left.classes, left.label) == (IDS, TWO, None)


@pytest.mark.parametrize("classes", [TWO, THREE, ()], ids=["two", "three", "losses"])
def test_what_our_own_evaluation_wrote_is_taken(tmp_path, classes):
    random = np.random.default_rng(0)
    values = random.dirichlet(np.ones(len(classes)), 4) if classes else random.random(4)
    header = Header(task="m:T", split="test", classes=classes, weight="", models=("challenger", "champion"))
    outcome = {"label": np.arange(4) % 2} if classes else {"weight": np.ones(4, np.int64)}
    batch = {"row_id": np.arange(4), **outcome, "challenger": values, "champion": values}
    path = ours.write(tmp_path, header, [batch])
    left = predictions.read(str(path), classes, likelihood=not classes)
    assert left.values == pytest.approx(values, abs=1e-6)
    assert (left.label is None) == (not classes)


@pytest.mark.parametrize(
    ("columns", "classes", "message"),
    [
        ({"p_no": YES}, TWO, "the column p_yes is missing: the task has the classes no, yes"),
        ({"score": YES}, TWO, "it has the columns row_id, score, and needs p_no, p_yes; or probabilities"),
        ({"probability": YES, "p_no": YES, "p_yes": YES}, TWO, "more than one form, p_..., probability"),
        ({"probability": YES}, THREE, "probability is one number, and the task has 3 classes: write p_a, p_b, p_c"),
        ({"probabilities": BOTH.tolist()}, THREE, "has 6 numbers|does not have 3 numbers"),
        ({"probabilities": [[0.5, 0.5], [0.5, 0.5], [1.0]]}, TWO,
         r"does not have 2 numbers, one for each class, in 1 of 3 rows \(row_id 5: 1\)"),
        ({"probabilities": [[0.5, 0.5, 0.0]] * 3}, TWO, "has 9 numbers in 3 rows: too many"),
        ({"probabilities": [[0.5, 0.5], None, [0.5, 0.5]]}, TWO, r"probabilities is empty in 1 of 3 rows \(row_id 3\)"),
        ({"probabilities": [[0.5, 0.5], [None, 0.5], [0.5, 0.5]]}, TWO, "an empty value in 1 of 3 rows"),
        ({"probabilities": [[0.5, 0.5], [np.nan, 0.5], [0.5, 0.5]]}, TWO, "is not finite in 1 of 3 rows"),
        ({"probability": [0.5, 1.2, -0.1]}, TWO,
         r"the probability of no is outside \[0, 1\] in 2 of 3 rows \(row_id 3: -0.2, row_id 5: 1.1\)"),
        ({"p_no": YES, "p_yes": YES}, TWO, r"do not sum to 1 in 2 of 3 rows \(row_id 7: 0.5, row_id 5: 2\)"),
        ({"probability": [0.5, None, 0.5]}, TWO, r"probability is empty in 1 of 3 rows \(row_id 3\)"),
        ({"probability": [0.5, np.nan, np.inf]}, TWO, "not a finite number in 2 of 3 rows"),
        ({"probability": ["a", "b", "c"]}, TWO, "of type string, and must be of floating point numbers"),
        ({"probability": [0, 1, 1]}, TWO, "of type int64, and must be of floating point numbers"),
        ({"probability": BOTH.tolist()}, TWO, "must be of floating point numbers"),
        ({"probabilities": YES}, TWO, "must be of lists of floating point numbers"),
        ({"probability": YES, "label": ["no", "yes", "yes"]}, TWO, "label is of type string, and must be of integers"),
        ({"probability": YES, "label": [0, 2, 1]}, TWO, r"not a class, 0 to 1, in 1 of 3 rows \(row_id 3: 2\)"),
        ({"nats": YES}, TWO, "needs p_no, p_yes"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_counted_and_shown(read, columns, classes, message):
    with pytest.raises(UserError, match=message):
        read({"row_id": IDS, **columns}, classes)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"probability": YES}, {}, "the column row_id is missing: it must have the row_id"),
        ({"row_id": [1.0, 2.0, np.nan], "probability": YES}, {}, r"row_id is of type double, .* \(pandas makes it"),
        ({"row_id": [1, None, 2], "probability": YES}, {}, "row_id is empty in 1 of 3 rows"),
        ({"row_id": [], "probability": []}, {}, "it has 0 rows"),
        ({"row_id": IDS, "probability": YES}, {"likelihood": True}, "needs nats: the loss of each row"),
        ({"row_id": IDS, "nats": [1.0, np.nan, 2.0]}, {"likelihood": True}, "nats is not a finite number in 1 of 3"),
        ({"probability": YES}, {"labelled": True}, "the column label is missing"),
        ({"row_id": [1, 2, 1], "probability": YES, "label": [0, 1, 1]}, {"labelled": True}, "earlier row in 1 of 3"),
    ],
)
def test_rows_that_cannot_be_identified_are_refused(read, columns, options, message):
    with pytest.raises(UserError, match=message):
        read(columns, **options)


def test_columns_of_one_name_are_refused(read):
    table = pa.table([IDS, YES, YES], names=["row_id", "probability", "probability"])
    with pytest.raises(UserError, match="the column probability occurs twice"):
        read(table)


def test_names_of_classes_may_have_dots(read):
    columns = {"p_1": 1 - YES, "p_1.5": YES, "p_1.5.list.x": YES}
    assert read({"row_id": IDS, **columns}, ("1", "1.5")).values == pytest.approx(BOTH)


def test_rows_that_bring_their_own_labels_need_neither_row_id_nor_a_task(read):
    left = read({"label": [1, 0, 1], "p_dog": YES, "p_cat": 1 - YES}, None, labelled=True)
    assert (left.classes, left.row_id.tolist(), left.label.tolist()) == (("dog", "cat"), [0, 1, 2], [1, 0, 1])
    assert read({"label": [1, 0, 1], "probabilities": BOTH.tolist()}, None, labelled=True).classes == ("0", "1")
    with pytest.raises(UserError, match="there are 1 columns"):
        read({"label": [1, 0, 1], "p_dog": YES}, None, labelled=True)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not a table" * 50, b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_a_file_that_is_not_parquet_is_reported_in_one_line(tmp_path, content):
    (tmp_path / "predictions.parquet").write_bytes(content)
    with pytest.raises(UserError, match=r"predictions\.parquet cannot be read as Parquet") as refusal:
        predictions.read(str(tmp_path / "predictions.parquet"), TWO)
    assert "\n" not in str(refusal.value)


def test_missing_additional_and_double_rows_are_each_counted(read):
    left = read({"row_id": [3, 3, 5, 90, 91], "probability": [0.5] * 5})
    with pytest.raises(UserError) as refusal:
        test_rows.align(left, np.array([1, 2, 3, 4, 5, 6]))
    assert "each of the 6 rows of the test split, and has 5" in str(refusal.value)
    for fault in ("4 are missing (row_id 1, 2, 4, ...)", "2 are not among them (row_id 90, 91)",
                  "1 is there more than once (row_id 3)"):  # fmt: skip
        assert fault in str(refusal.value)


def test_row_ids_of_63_bits_are_distinguished_and_ids_that_a_float_has_rounded_are_reported(read):
    ids = np.array([(1 << 62) + 1, (1 << 62) + 3, 7])
    aligned = test_rows.align(read({"row_id": ids, "probability": YES}), ids[::-1])
    assert aligned({"row_id": ids[1:2]})[:, 1].tolist() == [YES[1]]
    rounded = read({"row_id": ids[[0, 2]].astype(float).astype(int), "probability": YES[:2]})
    with pytest.raises(UserError, match="1 is missing .* a conversion to floating point has rounded it"):
        test_rows.align(rounded, ids[[0, 2]])


def test_rows_in_any_order_are_matched_by_row_id_and_checked_against_the_label(read):
    left = read({"row_id": IDS, "probability": YES, "label": [0, 1, 1]})
    aligned = test_rows.align(left, np.array([3, 5, 7]), np.array([1, 1, 0]))
    assert aligned({"row_id": np.array([7, 3])})[:, 1].tolist() == [0.25, 0.5]
    with pytest.raises(UserError, match=r"differs .* in 1 of 3 rows \(row_id 5: 1 in the file, 0 in the data\)"):
        test_rows.align(left, np.array([3, 5, 7]), np.array([1, 0, 0]))


def test_a_regression_is_the_mean_and_a_column_for_each_quantile(read):
    columns = {"row_id": IDS, "q_0.9": [3.0, 4, 5], "mean": [1.5, 2, 3], "q_0.1": [1.0, 2, 2], "label": [1.25, 2, 3]}
    left = read(columns, (), quantiles=(0.1, 0.9))
    np.testing.assert_array_equal(left.values, [[1.5, 1, 3], [2, 2, 4], [3, 2, 5]])
    assert left.label.tolist() == [1.25, 2, 3] and left.values.dtype == np.float64
    aligned = test_rows.align(left, np.array([3, 5, 7]), np.array([2, 3, 1.25]))
    assert aligned({"row_id": np.array([5])}).tolist() == [[3, 2, 5]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"q_0.9": None}, "the column q_0.9 is missing: a regression has mean, q_0.1, q_0.9"),
        ({"mean": None, "p_no": YES}, "the column mean is missing"),
        ({"q_0.9": [3.0, 1, 5]}, r"the quantiles do not rise in 1 of 3 rows \(row_id 3: \[2.0, 1.0\]\)"),
        ({"mean": [1.0, float("inf"), 2]}, r"mean is not a finite number in 1 of 3 rows \(row_id 3: inf\)"),
        ({"mean": [1, 2, 3]}, "the column mean is of type int64, and must be of floating point numbers"),
    ],
)
def test_numbers_that_cannot_be_are_refused(read, changed, message):
    columns = {"row_id": IDS, "mean": [1.5, 2, 3], "q_0.1": [1.0, 2, 2], "q_0.9": [3.0, 4, 5]} | changed
    with pytest.raises(UserError, match=message):
        read({name: column for name, column in columns.items() if column is not None}, (), quantiles=(0.1, 0.9))
