import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, mean_squared_error, r2_score

from vgp.base.exits import UserError
from vgp.decision import decide as deciding
from vgp.decision.decide import decide
from vgp.evaluation import measure, predictions, predictions_writer, record
from vgp.evaluation.collect import collect
from vgp.evaluation.evaluate import evaluate
from vgp.evaluation.predictions import Header

from .conftest import names, uncompared

SHARES = (0.1, 0.5, 0.9)
NORMAL = np.array([-1.2816, 0.0, 1.2816])
DAYS, ROWS = 30, 1_500


def labels(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is known of each row, its label, and its day; the days share some luck."""
    random = np.random.default_rng(seed)
    day = np.arange(ROWS) % DAYS
    signal = random.normal(size=ROWS)
    return signal, 100 + 10 * signal + 5 * random.normal(size=ROWS) + 2 * random.normal(size=DAYS)[day], day


def model(signal: np.ndarray, *, seed: int = 1, noise: float = 0.0, spread: float = 5.4) -> np.ndarray:
    """Mean and quantiles, (N, 4)."""
    mean = 100 + 10 * signal + noise * np.random.default_rng(seed).normal(size=len(signal))
    return np.column_stack([mean, mean[:, None] + spread * NORMAL])


@pytest.fixture
def save(tmp_path):
    def write(label, day=None, *, decided_by="pinball", unit="minutes", slices=None, same=False, constant=(), **models):
        header = Header(
            task="m:T", split="test", classes=(), quantiles=SHARES, target="delay", unit=unit, decided_by=decided_by,
            models=tuple(models), group="" if day is None else "day", slices=tuple(slices or ()), same=same,
            constant=constant,
        )  # fmt: skip
        batch = {"row_id": np.arange(len(label)), "label": label, **models}
        batch |= {name: names(values) for name, values in (slices or {}).items()}
        batch |= {} if day is None else {"group": names(day)}
        cut = [{name: column[piece] for name, column in batch.items()} for piece in (slice(0, 700), slice(700, None))]
        predictions_writer.write(tmp_path / "evaluation", header, cut)
        return tmp_path / "evaluation"

    return write


def test_predictions_are_read_as_they_were_written(save):
    signal, label, day = labels()
    data = predictions.read(save(label, day, challenger=model(signal)))
    np.testing.assert_array_equal(data.label, label)
    np.testing.assert_array_equal(data.read_regression("challenger"), model(signal).T)
    assert data.weight is None and data.header.quantiles == SHARES


def test_every_figure_is_in_the_record_for_each_model_and_slice(save):
    signal, label, day = labels()
    ours, theirs = model(signal), model(signal, noise=8)
    folder = save(label, day, challenger=ours, boosting=theirs, slices={"half": day % 2})
    found = measure.measure(folder)
    figures = found.regression
    assert figures is not None and record.load(folder) == found
    assert (figures.target, figures.unit, figures.absolute_of) == ("delay", "minutes", "median")
    for name, predicted in (("challenger", ours), ("boosting", theirs)):
        measured = figures.models[name]
        assert measured.scores.rmse == pytest.approx(mean_squared_error(label, predicted[:, 0]) ** 0.5)
        assert measured.rmse_interval[0] < measured.scores.rmse < measured.rmse_interval[1]
        assert measured.r2_interval[0] < measured.scores.r2 < measured.r2_interval[1] < 1
        assert sum(measured.residual_counts) + measured.residuals_below + measured.residuals_above == ROWS
        assert found.models[name].scores.loss == pytest.approx(measured.scores.mean_pinball)
    good = figures.models["challenger"]
    assert [c.observed for c in good.calibration] == pytest.approx(SHARES, abs=0.03)
    assert good.scores.coverage == pytest.approx((0.8,), abs=0.04) and good.scores.width == pytest.approx(
        (13.84,), 1e-3
    )
    even = day % 2 == 0
    part = next(s for s in figures.slices if s.value == "0")
    assert (part.rows, part.label) == (even.sum(), pytest.approx(label[even].mean()))
    assert part.models["boosting"].mae == pytest.approx(mean_absolute_error(label[even], theirs[even, 2]))
    assert found.scalars["r2"] == good.scores.r2 and found.scalars["coverage_80"] == good.scores.coverage[0]
    assert found.scalars["boosting_rmse"] == figures.models["boosting"].scores.rmse
    assert found.slice_metric == "loss" and found.slices[0].interval is not None


def test_a_constant_label_has_no_r2_and_a_note_says_so(save):
    signal, label, _ = labels()
    found = measure.measure(save(np.full(ROWS, 7.0), challenger=model(signal)))
    assert found.regression.models["challenger"].scores.r2 is None and "r2" not in found.scalars
    assert found.notes == ("R2 is undefined: the label is 7 in every row of the test split.",)


def mean_loss(kind: str, label: np.ndarray, predicted: np.ndarray) -> float:
    if kind == "squared":
        return mean_squared_error(label, predicted[:, 0])
    if kind == "absolute":
        return mean_absolute_error(label, predicted[:, 2])
    return float(np.mean([mean_pinball_loss(label, predicted[:, 1 + i], alpha=q) for i, q in enumerate(SHARES)]))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("pinball", "mean pinball loss in minutes"),
        ("squared", "mean squared error in squared minutes"),
        ("absolute", "mean absolute error in minutes"),
    ],
)
def test_the_stated_loss_decides_and_is_named_with_its_unit(save, kind, words):
    signal, label, day = labels()
    new, old = model(signal), model(signal, noise=6)
    found = decide(save(label, day, decided_by=kind, challenger=new, champion=old))
    assert found.promote and found.metric == kind and words in found.reason
    assert found.challenger_value == pytest.approx(mean_loss(kind, label, new))
    assert found.difference == pytest.approx(mean_loss(kind, label, old) - mean_loss(kind, label, new))
    assert 0 < found.lower_bound < found.difference < found.upper_bound


def test_the_margin_is_in_the_unit_of_the_loss(save):
    signal, label, day = labels()
    folder = save(label, day, decided_by="squared", challenger=model(signal), champion=model(signal, noise=6))
    bound = decide(folder).lower_bound
    assert bound > 2 and decide(folder, margin=bound - 1).promote
    refused = decide(folder, margin=bound + 1)
    assert not refused.promote and f"margin of {bound + 1:g} than" in refused.reason
    with pytest.raises(UserError, match="margin = nan"):
        decide(folder, margin=float("nan"))


@pytest.mark.parametrize("unit", [1e-13, 1e9])
def test_a_decision_does_not_depend_on_the_unit(save, unit):
    signal, label, day = labels()
    new, old, slices = model(signal, noise=2, seed=2), model(signal, noise=2), {"half": day % 2}
    plain = decide(save(label, day, challenger=new, champion=old, slices=slices))
    found = decide(save(label * unit, day, challenger=new * unit, champion=old * unit, slices=slices))
    assert found.promote == plain.promote and found.lower_bound == pytest.approx(plain.lower_bound * unit)
    assert [s.p_value for s in found.slices] == pytest.approx([s.p_value for s in plain.slices])


def test_quantiles_that_are_further_off_than_the_champions_are_a_veto(save):
    signal, label, day = labels()
    narrow, old = model(signal, spread=2), model(signal, noise=6, spread=8)
    found = decide(save(label, day, decided_by="squared", challenger=narrow, champion=old))
    assert found.lower_bound > 0 and not found.promote and found.calibration.worse
    assert f"its calibration error is {found.calibration.challenger:.2%}" in found.reason
    # 2 of the true 5.4: the 0.1 quantile lies at 0.475 deviations below, under which 32% of labels are.
    assert found.calibration.challenger == pytest.approx((2 / 3) ** 0.5 * 0.22, abs=0.02)


def test_quantiles_that_are_right_on_average_only_are_off(save):
    """Too wide in one half of the rows and too narrow in the other."""
    signal, label, day = labels()
    blind = model(signal)
    blind[:, 1:] = blind[:, :1] + np.where(signal > 0, 12.0, 3.6)[:, None] * NORMAL
    shares = (label[:, None] < blind[:, 1:]).mean(axis=0)
    assert shares == pytest.approx(SHARES, abs=0.04)
    found = decide(save(label, day, challenger=blind, champion=model(signal)))
    assert found.calibration.challenger > 0.05 and found.calibration.reference < 0.03 and found.calibration.worse


def test_a_slice_that_is_worse_is_a_veto(save):
    signal, label, day = labels()
    new = np.where((day % 3 == 0)[:, None], model(signal, noise=9), model(signal))
    found = decide(save(label, day, challenger=new, champion=model(signal, noise=7), slices={"third": day % 3}))
    assert [s.value for s in found.worse_slices] == ["0"] and not found.promote


def test_gradient_boosting_that_is_better_makes_a_candidate_of_the_network(save):
    signal, label, day = labels()
    new, old, trees = model(signal, noise=4), model(signal, noise=9), model(signal)
    found = decide(save(label, day, challenger=new, baseline=old, boosting=trees))
    assert found.outcome == "candidate" and found.reference == "baseline"
    assert [rival.model for rival in found.rivals] == ["boosting"]
    assert found.best_rival.value == pytest.approx(mean_loss("pinball", label, trees))
    assert found.best_rival.difference == pytest.approx(found.challenger_value - found.best_rival.value)
    assert "a network is not worth it here." in found.reason
    assert "none" not in found.reason and "linear-regression baseline" in found.reason
    worse = decide(save(label, day, challenger=new, baseline=old, boosting=old))
    assert worse.promote and worse.best_rival.upper_bound < 0 and "radient boosting" not in worse.reason
    line = decide(save(label, day, challenger=new, champion=old, baseline=trees, boosting=old))
    assert line.outcome == "candidate" and ". The linear-regression baseline (mean pinball" in line.reason


def test_a_mean_that_is_worse_than_the_median_of_the_labels_is_never_promoted(save):
    """Outliers in training ruin the mean of the labels, the line and the network's mean, and no quantile of either."""
    signal, label, day = labels()
    new, old = model(signal), model(signal, noise=9)
    new[:, 0] += 1_000
    old[:, 0] += 5_000
    constant = (3_000.0, 100.0, *np.quantile(label, SHARES))
    found = decide(save(label, day, challenger=new, baseline=old, constant=constant), approve="despite_rivals")
    assert found.better and found.outcome == "candidate"
    assert [(c.what, c.metric, c.better) for c in found.constants] == [
        ("the quantiles", "pinball", False), ("the median", "squared", True),
    ]  # fmt: skip
    assert "worse than a constant: mean squared error in squared minutes" in found.reason
    fine = decide(save(label, day, challenger=model(signal), baseline=old, constant=constant))
    assert fine.promote and fine.better_constant is None


def test_no_bit_of_a_figure_depends_on_the_number_of_threads(save, monkeypatch):
    signal, label, day = labels()
    folder = save(label, day, challenger=model(signal), champion=model(signal, noise=1), slices={"day": day})
    found = []
    for cores in (1, 3):
        monkeypatch.setattr("vgp.protocol.cluster.cores", lambda cores=cores: cores)
        found.append(measure.measure(folder))
    assert found[0] == found[1]


# ---- from a table to a decision


def test_a_network_learns_a_number_and_its_quantiles_and_is_judged_on_them(prices, tmp_path):
    new = prices.trained(tmp_path / "new", prices.data, 120)
    old = prices.trained(tmp_path / "old", prices.data, 5)
    found = evaluate(prices.data, new, tmp_path / "out", champion=str(old))
    table = pq.read_table(tmp_path / "out" / "predictions.parquet").to_pydict()
    label = np.array(table["label"])
    for name, measured in found.regression.models.items():
        mean, *quantiles = np.array(table[name]).T
        assert measured.scores.r2 == pytest.approx(r2_score(label, mean))
        pinball = [mean_pinball_loss(label, q, alpha=s) for q, s in zip(quantiles, prices.QUANTILES, strict=True)]
        assert measured.scores.pinball == pytest.approx(pinball)
    assert list(found.regression.models) == ["challenger", "champion", "baseline", "boosting"]
    ours = found.regression.models["challenger"].scores
    assert ours.r2 > 0.6 and ours.coverage[0] == pytest.approx(0.8, abs=0.1)
    result = decide(tmp_path / "out")
    assert result.promote and "mean pinball loss in EUR" in result.reason
    assert json.loads((tmp_path / "out" / "decision.json").read_text())["unit"] == "EUR"


def test_a_champion_of_other_quantiles_or_another_label_is_kept(prices, tmp_path):
    new, data = prices.trained(tmp_path / "new", prices.data, 1), prices.data
    for changed, message in (
        ({"quantiles": [0.25, 0.5, 0.75]}, "price in EUR with the quantiles 0.25, 0.5, 0.75, the new model the number"),
        ({"unit": "USD"}, "predicts the number price in USD with"),
    ):
        card = json.loads((new / "model.json").read_text())
        card["statistics"]["regression"] |= changed
        old = tmp_path / f"old {changed}"
        old.mkdir()
        (old / "model.safetensors").write_bytes((new / "model.safetensors").read_bytes())
        (old / "model.json").write_text(json.dumps(card))
        evaluate(data, new, tmp_path / "out", champion=str(old), baseline=False)
        assert message in uncompared(tmp_path / "out")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda table: table[:, :2], r"returned shape \(\d+, 2\) for \d+ rows, a mean and 3 quantiles"),
        (lambda table: table.flip(1), "must return ascending quantiles; in"),
        (lambda table: table * float("inf"), "must return finite numbers"),
    ],
)
def test_predictions_that_cannot_be_are_refused(prices, tmp_path, monkeypatch, answer, message):
    new = prices.trained(tmp_path / "new", prices.data, 1)
    predict = prices.Prices.predict
    monkeypatch.setattr(prices.Prices, "predict", lambda self, module, batch: answer(predict(self, module, batch)))
    with pytest.raises(UserError, match=message):
        evaluate(prices.data, new, tmp_path / "out", baseline=False)


def test_a_script_is_judged_by_the_same_figures(prices, tmp_path):
    new = prices.trained(tmp_path / "new", prices.data, 20)
    found = evaluate(prices.data, new, tmp_path / "ours", baseline=False).regression
    table = pq.read_table(tmp_path / "ours" / "predictions.parquet")
    numbers = np.array(table["challenger"].to_pylist())
    folder = tmp_path / "script"
    folder.mkdir()
    (folder / "model.txt").write_text("a model")
    columns = {name: numbers[:, i] for i, name in enumerate(("mean", "q_0.1", "q_0.5", "q_0.9"))}
    pq.write_table(
        pa.table({"row_id": table["row_id"], "label": table["label"], **columns}), folder / "predictions.parquet"
    )
    collect(str(folder), "", prices.data, prices.Prices())
    left = evaluate(prices.data, folder, tmp_path / "theirs", champion=str(new), baseline=False).regression
    assert left.models["challenger"] == left.models["champion"] == found.models["challenger"]


def test_rivals_are_the_champion_first():
    assert deciding.RIVALS == ("champion", "baseline")
