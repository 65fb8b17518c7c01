import numpy as np
import pytest
from sklearn.inspection import permutation_importance

from vgp.data.rows import read_sample
from vgp.evaluation import importance, score
from vgp.protocol import manifest


@pytest.fixture
def coin(tmp_path):
    """A dataset, its manifest, and a model that looks at the tilt and a little at the colour, never at the size."""
    import coins

    folder = tmp_path
    data = coins.dataset(folder / "data")
    dataset = manifest.load(data)
    return data, dataset, score.load(coins.trained(folder / "model", data, red=0.4), dataset)


def test_the_loss_grows_by_what_scikit_learn_finds(coin):
    data, dataset, model = coin
    found = importance.importance(model, data, dataset, "test")
    ours = {column.column: column for column in found.columns}
    assert found.columns[0].column == "tilt" and found.columns[0].increase > 0.2
    assert ours["size"].increase == ours["size"].deviation == 0
    assert (found.rows, found.repeats, found.unit) == (1_200, 3, "log loss in nats")
    names = ["colour", "tilt", "size"]
    batch = read_sample(data, dataset.splits["test"], dataset.columns, 5_000)
    inputs = np.stack([batch[name].astype(np.float64) for name in names], axis=1)

    class Estimator:
        def fit(self, inputs, label):
            return self

        def score(self, inputs, label):
            columns = {n: inputs[:, i].astype(batch[n].dtype) for i, n in enumerate(names)}
            table = model({**batch, **columns})
            return np.log(table[np.arange(len(label)), label]).mean()

    theirs = permutation_importance(Estimator(), inputs, batch["label"], n_repeats=20, random_state=0)
    for i, name in enumerate(names):
        assert ours[name].increase == pytest.approx(
            theirs.importances_mean[i], abs=float(5 * theirs.importances_std[i] + 1e-9)
        )
    assert found.loss == pytest.approx(-Estimator().score(inputs, batch["label"]), rel=1e-6)


def test_a_column_is_shuffled_alike_whatever_other_columns_there_are(coin):
    batch = {"tilt": np.arange(50), "size": np.arange(50)}
    alone = importance._shuffle_column({"tilt": np.arange(50)}, "tilt", 1)["tilt"]
    assert (importance._shuffle_column(batch, "tilt", 1)["tilt"] == alone).all() and (alone != np.arange(50)).any()
    assert (importance._shuffle_column(batch, "tilt", 2)["tilt"] != alone).any()


def test_a_larger_model_is_given_fewer_rows_and_one_too_large_a_sentence(coin, monkeypatch):
    data, dataset, model = coin
    monkeypatch.setattr(importance, "LEAST_ROWS", 100)
    monkeypatch.setattr(importance, "OPERATIONS", 2 * 3 * 3 * 250)  # two weights, three columns, three repeats
    assert importance.importance(model, data, dataset, "test").rows == pytest.approx(250, abs=10)
    monkeypatch.setattr(importance, "OPERATIONS", 10)
    assert "of this size: 2 weights" in importance.importance(model, data, dataset, "test").note
    monkeypatch.setattr(importance, "MOST_COLUMNS", 2)
    assert importance.importance(model, data, dataset, "test").note == (
        "Not computed for more than 2 columns; there are 3."
    )
