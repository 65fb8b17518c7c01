import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vgp.base.exits import UserError
from vgp.evaluation import predictions, predictions_writer
from vgp.evaluation.predictions import Header, Names
from vgp.evaluation.ranked import normalise


def header(**changes):
    fields = {"task": "m:T", "split": "test", "classes": ("no", "yes"), "models": ("challenger",)}
    return Header(**{**fields, **changes})


def batch(first, count, classes=2):
    random = np.random.default_rng(first)
    return {
        "row_id": np.arange(first, first + count),
        "label": random.integers(0, classes, count),
        "challenger": random.dirichlet(np.ones(classes), count).astype(np.float32),
        "colour": Names(random.integers(0, 3, count), ("(missing)", "blue", "red")),
        "group": Names(random.integers(0, 2, count), ("1", "2")),
    }


@pytest.mark.parametrize("classes", [2, 5])
def test_what_is_written_in_batches_is_read_as_one(tmp_path, monkeypatch, classes):
    parts = [batch(0, 70, classes), batch(70, 30, classes)]
    named = header(classes=tuple("abcde"[:classes]), group="day", slices=("colour",))
    predictions_writer.write(tmp_path, named, iter(parts))
    data = predictions.read(tmp_path)
    assert len(data) == 100 and data.header == named and data.binary is (classes == 2)
    label, table = (np.concatenate([part[name] for part in parts]) for name in ("label", "challenger"))
    assert data.label.tolist() == label.tolist()
    exact = normalise(table) if classes > 2 else np.stack([1 - table[:, 1].astype(float), table[:, 1]], axis=1)
    losses = -np.log(exact[np.arange(100), label])
    np.testing.assert_allclose(data.losses("challenger"), losses, rtol=1e-6)
    assert data.read_scores("challenger").classes().tolist() == exact.argmax(axis=1).tolist()
    if classes > 2:
        (codes, by_class), *_ = data.by_class("challenger")
        assert list(codes) == list(range(classes))
        np.testing.assert_allclose(by_class.T, exact, rtol=1e-6)
        monkeypatch.setattr(predictions, "MOST_CLASS_BYTES", 4 * 100 * 2)
        assert [len(codes) for codes, _ in data.by_class("challenger")] == [2, 2, 1]
        np.testing.assert_array_equal(np.concatenate([table for _, table in data.by_class("challenger")]), by_class)
    colours, groups = ([part[n].values[code] for part in parts for code in part[n].codes] for n in ("colour", "group"))
    assert [data.slices["colour"].values[code] for code in data.slices["colour"].codes] == colours
    assert len(set(zip(data.group.codes.tolist(), groups, strict=True))) == 2


def test_two_classes_are_one_plain_column(tmp_path):
    part = batch(0, 10)
    predictions_writer.write(tmp_path, header(), [part])
    table = pq.read_table(tmp_path / "predictions.parquet")
    assert table.column_names == ["row_id", "label", "challenger"]
    assert table["challenger"].to_numpy() == pytest.approx(part["challenger"][:, 1])


@pytest.mark.parametrize("name", ["label", "champion", "group"])
def test_a_slice_may_not_take_a_name_that_is_taken(tmp_path, name):
    with pytest.raises(UserError, match=f"cannot be named '{name}'"):
        predictions_writer.write(tmp_path, header(slices=(name,)), [batch(0, 3)])


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path):
    def broken():
        yield batch(0, 10)
        raise UserError("the model went away")

    for batches in (broken(), [], [batch(0, 0)]):
        with pytest.raises(UserError):
            predictions_writer.write(tmp_path, header(), batches)
        assert list(tmp_path.iterdir()) == []


def test_other_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="not a finished evaluation"):
        predictions.read(tmp_path)
    path = tmp_path / "predictions.parquet"
    path.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(UserError, match="cannot be read"):
        predictions.read(tmp_path)
    pq.write_table(pa.table({"label": [1]}), path)
    with pytest.raises(UserError, match="evaluate did not write it"):
        predictions.read(tmp_path)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e151])
@pytest.mark.parametrize("column", ["label", "challenger"])
def test_numbers_of_which_no_figure_can_be_made_are_refused(tmp_path, column, wrong):
    values = {"label": np.zeros(3), "challenger": np.zeros((3, 2))}
    values[column][1] = wrong
    numbers = header(classes=(), quantiles=(0.5,), target="price")
    predictions_writer.write(tmp_path, numbers, [{"row_id": np.arange(3), **values}])
    with pytest.raises(UserError, match=r"are not finite or exceed 1e\+150. For such large labels"):
        predictions.read(tmp_path).read_regression("challenger")


def test_losses_without_any_weight_are_refused(tmp_path):
    rows = {"row_id": np.arange(3), "weight": np.zeros(3, np.int64), "challenger": np.ones(3)}
    predictions_writer.write(tmp_path, header(classes=(), weight="tokens"), [rows])
    with pytest.raises(UserError, match=r"the row weights in tokens are negative or all 0"):
        predictions.read(tmp_path)


def test_a_group_column_loses_unused_names_and_gives_a_row_without_a_value_a_group_of_its_own(tmp_path, monkeypatch):
    rows = batch(0, 5) | {"group": Names(np.array([3, 0, 0, 1, 3]), ("", "a", "unused", "(missing)"))}
    predictions_writer.write(tmp_path, header(group="user"), [rows])
    group = predictions.read(tmp_path).groupings[0]
    assert [group.values[code] for code in group.codes] == ["", "", "", "a", ""]
    assert len(set(group.codes.tolist())) == 5 and "unused" not in group.values
    monkeypatch.setattr(predictions, "MOST_NAMED", 3)
    group = predictions.read(tmp_path).groupings[0]
    assert group.values == () and len(set(group.codes.tolist())) == 5
