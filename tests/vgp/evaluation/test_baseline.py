import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from vgp.data.rows import Rows, open_rows
from vgp.evaluation import baseline
from vgp.protocol import manifest as manifests
from vgp.protocol.manifest import Column, Manifest


def fit(manifest, rows, task):
    return baseline.fit(*baseline.sample_rows(manifest, rows, task), task)


@pytest.fixture
def prepared(tmp_path):
    import coins

    def prepare(**options):
        folder = coins.dataset(tmp_path / "data", **options)
        return manifests.load(folder), folder, coins.Coins(options)

    return prepare


def test_it_learns_what_there_is_to_learn(prepared):
    manifest, folder, task = prepared()
    model = fit(manifest, open_rows(folder, "train"), task)
    test = open_rows(folder, "test").columns
    probabilities = model(test)
    assert roc_auc_score(test["label"], probabilities[:, 1]) > 0.72
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(probabilities, model.model.predict_proba(baseline.inputs(test, model.columns)))
    assert [column.name for column in model.columns] == ["colour", "tilt", "size"]  # no id, no label, no day


def test_it_is_the_same_every_time(prepared):
    manifest, folder, task = prepared()
    rows, test = open_rows(folder, "train"), open_rows(folder, "test").columns
    first, second = (fit(manifest, rows, task)(test) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_its_work_is_bounded_and_it_says_so(prepared, monkeypatch):
    monkeypatch.setattr(baseline, "MOST_ROWS", 100)
    manifest, folder, task = prepared()
    assert fit(manifest, open_rows(folder, "train"), task).rows == 100


def test_many_values_share_the_last_column(prepared, monkeypatch):
    monkeypatch.setattr(baseline, "MOST_VALUES", 1)
    manifest, folder, task = prepared(colours=["blue", "blue", "red", "green"])
    model = fit(manifest, open_rows(folder, "train"), task)
    one_of = {"tilt": np.zeros(3, np.float32), "size": np.full(3, 0.5, np.float32)}
    values = manifest.column("colour").values
    codes = np.array([values.index(name) for name in ("blue", "red", "green")], np.int32)
    found = model({**one_of, "colour": codes})[:, 1]
    assert found[1] == found[2] != found[0]


def test_a_class_that_training_lacked_gets_probability_0(prepared):
    manifest, folder, task = prepared(sides=3)
    rows = open_rows(folder, "train")
    rows = Rows(rows.take(np.flatnonzero(rows.columns["label"] != 1)))
    found = fit(manifest, rows, task)(rows.columns)
    model = fit(manifest, open_rows(folder, "train"), task)
    inputs = baseline.inputs(rows.columns, model.columns)
    np.testing.assert_allclose(model(rows.columns), model.model.predict_proba(inputs), rtol=1e-6)
    assert found.shape[1] == 3 and found[:, 1].max() == 0 and found[:, 2].min() > 0


def test_without_anything_to_learn_the_reason_is_given(prepared):
    manifest, folder, task = prepared()
    rows = open_rows(folder, "train")
    one_class = Rows(rows.take(np.flatnonzero(rows.columns["label"] == 1)))
    with pytest.raises(ValueError, match="one class only"):
        fit(manifest, one_class, task)
    bare = Manifest(task="m:T", columns=(Column(name="label", kind="label", type="int64"),), splits={})
    with pytest.raises(ValueError, match="no number, category or vector"):
        fit(bare, rows, task)
