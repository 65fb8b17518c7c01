import numpy as np
import pytest

from vgp.evaluation import examples, predictions
from vgp.evaluation.evaluate import evaluate
from vgp.evaluation.examples import format_value
from vgp.protocol import manifest, outcome
from vgp.protocol.manifest import Column


def test_the_largest_values_come_first_and_of_equals_the_first_rows():
    assert examples.largest(np.array([1.0, 5, 3, 5, 3, 3]), 4).tolist() == [1, 3, 2, 4]
    assert examples.largest(np.array([2.0]), 4).tolist() == [0]


@pytest.mark.parametrize(
    "column, element, text",
    [
        (Column(name="c", kind="category", type="int32", values=("", "red")), np.int32(1), "red"),
        (Column(name="c", kind="category", type="int32", values=("", "red")), np.int32(0), "(missing)"),
        (Column(name="c", kind="category", type="int32", values=("", "x" * 200)), np.int32(1), "x" * 77 + "..."),
        (Column(name="n", kind="number", type="float"), np.float32(1234.5678), "1234.6"),
        (Column(name="n", kind="number", type="float"), np.float32("nan"), "(missing)"),
        (Column(name="i", kind="id", type="int64"), np.int64(1 << 59), str(1 << 59)),
    ],
)
def test_values_are_written_as_people_know_them(column, element, text):
    assert format_value(column, element) == text


@pytest.fixture
def evaluated(tmp_path, monkeypatch):
    import coins

    def make(private=(), **options):
        monkeypatch.setattr(coins.Coins, "private", private)
        data = coins.dataset(tmp_path / "data", **options)
        model = coins.trained(tmp_path / "model", data)
        return data, evaluate(data, model, tmp_path / "out"), predictions.read(tmp_path / "out")

    return make


def test_both_kinds_of_sure_errors_are_shown_and_what_the_baseline_knew_better(evaluated):
    data, found, saved = evaluated()
    missed, alarms, better = found.examples.lists
    assert [row.actual for row in missed.rows] == ["b"] * 6 and [row.actual for row in alarms.rows] == ["a"] * 6
    losses, rival = saved.losses("challenger"), saved.losses("baseline")
    worst = np.sort(losses[saved.label == 1])[::-1][:6]
    assert [row.loss for row in missed.rows] == pytest.approx(worst.tolist())
    gap = np.sort(losses - rival)[::-1][:6]
    assert [row.loss - row.rival_loss for row in better.rows] == pytest.approx(gap.tolist())
    assert {row.values["colour"] for row in missed.rows} <= {"blue", "red"}
    assert missed.rows[0].predicted.startswith("a, ")


def test_a_row_is_shown_with_its_own_values(evaluated):
    data, found, saved = evaluated()
    import pyarrow.parquet as pq

    files = manifest.load(data).splits["test"]
    rows = {row["row_id"]: row for file in files for row in pq.read_table(data / file.path).to_pylist()}
    for row in found.examples.lists[0].rows:
        tilt = rows[int(row.row_id)]["tilt"]
        assert row.values["tilt"] == ("(missing)" if np.isnan(tilt) else f"{tilt:.5g}")
        assert row.values["day"] == str(rows[int(row.row_id)]["day"])


def test_several_classes_have_the_highest_losses_and_the_surest_errors(evaluated):
    _, found, saved = evaluated(sides=4)
    worst, sure, _ = found.examples.lists
    assert [row.loss for row in worst.rows] == pytest.approx(np.sort(saved.losses("challenger"))[::-1][:6].tolist())
    assert all(row.predicted.split(",")[0] != row.actual for row in sure.rows)


def test_private_columns_are_left_out_and_a_star_leaves_out_all_rows(evaluated):
    _, found, _ = evaluated(private=("tilt", "colour"))
    assert all(set(row.values) == {"day", "size"} for listed in found.examples.lists for row in listed.rows)
    assert found.examples.withheld == ("tilt", "colour")


def test_a_star_leaves_out_every_row(evaluated):
    _, found, _ = evaluated(private=("*",))
    assert found.examples.lists == () and found.examples.withheld == ("*",)


def test_classes_that_are_numbers_are_shown_with_the_name_of_the_target():
    assert outcome.in_words(("0", "1.0"), "survived") == ("survived = 0", "survived = 1.0")
    assert outcome.in_words(("no", "2nd"), "survived") == ("no", "2nd") and outcome.in_words(("0", "1"), "") == (
        "0",
        "1",
    )
