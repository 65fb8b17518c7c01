import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from vgp.base.exits import UserError
from vgp.data.bundle import CARD
from vgp.data.rows import open_rows
from vgp.decision.decide import decide
from vgp.decision.report.report import markdown
from vgp.evaluation import measure, record, score
from vgp.evaluation.evaluate import evaluate
from vgp.protocol import manifest
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins
from vgp.registry import reigning

from .conftest import uncompared


@pytest.fixture
def coins():
    import coins

    return coins


@pytest.fixture
def data(coins, tmp_path):
    return coins.dataset(tmp_path / "data")


@pytest.fixture
def model(coins, data, tmp_path):
    return coins.trained(tmp_path / "model", data)


def test_the_figures_are_those_of_the_saved_predictions(coins, data, model, tmp_path):
    champion = coins.trained(tmp_path / "champion", data, slope=0.2, red=2.0)
    found = evaluate(data, model, tmp_path / "out", champion=str(champion))
    table = pq.read_table(tmp_path / "out" / "predictions.parquet").to_pydict()
    assert list(table) == [
        "row_id",
        "label",
        "group",
        "challenger",
        "champion",
        "baseline",
        "boosting",
        "colour",
        "size",
    ]
    for name in ("challenger", "champion", "baseline", "boosting"):
        assert found.models[name].scores.auc == pytest.approx(roc_auc_score(table["label"], table[name]))
        assert found.models[name].scores.loss == pytest.approx(log_loss(table["label"], table[name]))
    assert found.scalars["champion_auc"] == found.models["champion"].scores.auc < found.scalars["auc"]
    assert found.groups == coins.DAYS and set(table["colour"]) == {"blue", "red"}
    red = next(s for s in found.slices if s.value == "red")
    chosen = [i for i, colour in enumerate(table["colour"]) if colour == "red"]
    labels, scores = (np.array(table[name])[chosen] for name in ("label", "challenger"))
    assert (red.rows, red.base_rate) == (len(chosen), pytest.approx(labels.mean()))
    assert red.models["challenger"].auc == pytest.approx(roc_auc_score(labels, scores))
    assert red.interval[0] < red.models["challenger"].auc < red.interval[1]
    assert len([s for s in found.slices if s.column == "size"]) == 5
    assert sum(map(sum, found.confusion_matrix)) == found.rows == len(table["label"])
    assert decide(tmp_path / "out").reference == "champion"


def test_a_champion_with_the_same_weights_is_distinguished_from_one_that_only_predicts_alike(
    coins, data, model, tmp_path
):
    shutil.copytree(model, tmp_path / "copy")
    alike = coins.trained(tmp_path / "alike", data, slope=1.2 + 1e-6)
    for champion, same in ((model, True), (tmp_path / "copy", True), (alike, False)):
        evaluate(data, model, tmp_path / "out", champion=str(champion), baseline=False)
        assert decide(tmp_path / "out", margin=-0.5).same == same
    evaluate(data, model, tmp_path / "out", champion=str(model), baseline=False)
    decision = decide(tmp_path / "out", margin=-0.5)
    summary = markdown(evaluation=tmp_path / "out", decision=decision)
    assert not decision.promote and "the new model has exactly the champion's weights" in summary


def test_metrics_are_plain_json_and_read_back_the_same(data, model, tmp_path):
    found = evaluate(data, model, tmp_path / "out")
    text = (tmp_path / "out" / "metrics.json").read_text()
    assert json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["rows"] == found.rows
    assert record.load(tmp_path / "out") == found == measure.measure(tmp_path / "out")
    assert [len(column) for column in found.roc_curve] == [len(found.roc_curve[0])] * 3


@pytest.mark.parametrize("sides", [2, 4])
def test_no_bit_of_a_figure_depends_on_the_number_of_threads(coins, tmp_path, monkeypatch, sides):
    data = coins.dataset(tmp_path / "data", sides=sides)
    found = evaluate(data, coins.trained(tmp_path / "model", data), tmp_path / "out")
    for threads in (1, 3):
        monkeypatch.setattr(measure.cluster, "cores", lambda threads=threads: threads)
        assert measure.measure(tmp_path / "out") == found


def test_batches_of_any_size_give_the_same_figures(data, model, tmp_path):
    first, second = (evaluate(data, model, tmp_path / str(n), batch_rows=n) for n in (7, 100_000))
    assert first.scalars == pytest.approx(second.scalars, rel=1e-6)
    assert [s.rows for s in first.slices] == [s.rows for s in second.slices]


def test_a_champion_of_other_data_is_asked_by_value_not_by_code(coins, model, data, tmp_path):
    older = coins.dataset(tmp_path / "older", colours=["red", "zinc"])  # red is 1 there, 2 in data; no blue
    champion = coins.trained(tmp_path / "champion", older, red=3.0, zinc=-9.0)
    twin = coins.trained(tmp_path / "twin", data, red=3.0)
    evaluate(data, twin, tmp_path / "out", champion=str(champion), baseline=False)
    table = pq.read_table(tmp_path / "out" / "predictions.parquet").to_pydict()
    assert table["champion"] == pytest.approx(table["challenger"])


def test_many_classes_are_measured_too(coins, tmp_path):
    data = coins.dataset(tmp_path / "data", sides=4)
    found = evaluate(data, coins.trained(tmp_path / "model", data), tmp_path / "out")
    assert len(found.confusion_matrix) == 4 and found.slice_metric == "accuracy"
    table = pq.read_table(tmp_path / "out" / "predictions.parquet")
    probabilities = np.array(table["challenger"].to_pylist())
    assert found.scalars["auc"] == pytest.approx(roc_auc_score(table["label"], probabilities, multi_class="ovr"))


def test_a_task_without_slices_groups_and_validation(coins, tmp_path):
    data = coins.dataset(tmp_path / "data", plain=True, splits=["train", "test"])
    found = evaluate(data, coins.trained(tmp_path / "model", data), tmp_path / "out")
    assert (found.slices, found.group, found.groups) == ((), "", 0)


def test_where_no_baseline_can_be_fitted_the_reason_is_given(data, model, tmp_path, monkeypatch):
    monkeypatch.setattr("vgp.evaluation.baseline.MOST_ROWS", 1)
    found = evaluate(data, model, tmp_path / "out")
    assert list(found.models) == ["challenger"]
    assert found.notes == ("No baseline: the train split has rows of one class only.",)


def test_a_baseline_of_a_sample_is_marked(data, model, tmp_path, monkeypatch):
    monkeypatch.setattr("vgp.evaluation.baseline.MOST_ROWS", 300)
    found = evaluate(data, model, tmp_path / "out")
    assert found.notes == ("The baseline was fitted on 300 of 1,200 train rows, evenly spaced.",)


@pytest.mark.parametrize("only", [0, 1])
def test_a_test_split_of_one_class_has_no_auc_which_is_reported(coins, tmp_path, only):
    data = coins.dataset(tmp_path / "data", only={"2": only})
    found = evaluate(data, coins.trained(tmp_path / "model", data), tmp_path / "out")
    assert found.roc_curve is None and "auc" not in found.scalars and found.scalars["loss"] > 0
    assert f"no row of the test split is of class {'ba'[only]}" in found.notes[0]
    assert decide(tmp_path / "out").outcome == "not decided"


def test_two_columns_that_group_rows_are_both_in_the_predictions(coins, tmp_path):
    data = coins.dataset(tmp_path / "data", group=["size", "day"])
    found = evaluate(data, coins.trained(tmp_path / "model", data), tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "predictions.parquet", columns=["group", "group_2"]).to_pydict()
    assert len(set(table["group"])) > coins.DAYS and len(set(table["group_2"])) == coins.DAYS
    assert found.group == "size" and not {c.column for c in found.drift.columns} & {"size", "day"}
    decision = decide(tmp_path / "out")
    assert decision.clusters == (len(set(table["group"])), coins.DAYS) and decision.group == "size and day"


@pytest.mark.parametrize("group", [["day", "day"], ["day", "colour", "size"]])
def test_one_column_or_two_group_rows(coins, group):
    with pytest.raises(UserError, match="name one column, or two that differ"):
        assert coins.Coins({"group": group}).groups


def refused(tmp_path, match, *arguments, **options):
    with pytest.raises(UserError, match=match):
        evaluate(*arguments, tmp_path / "out", **options)
    assert not list((tmp_path / "out").glob("*"))


def test_what_cannot_be_evaluated_is_refused_and_nothing_is_written(coins, data, model, tmp_path):
    refused(tmp_path, "it is not a prepared dataset", tmp_path, model)
    refused(tmp_path, "it is not a finished model", data, tmp_path)
    refused(tmp_path, "the later split of .* has no rows; it has .*1,200 in test", data, model, split="later")


def test_a_champion_that_cannot_be_compared_is_kept(coins, data, model, tmp_path):
    other = coins.trained(tmp_path / "other", data, task="coins:Dice")
    older = coins.trained(tmp_path / "older", coins.dataset(tmp_path / "three", sides=3))
    damaged = coins.trained(tmp_path / "damaged", data)
    (damaged / "model.safetensors").write_bytes(b"torn")
    for champion, why in (
        (other, "trained for coins:Dice, the new model for coins:Coins"),
        (older, "predicts the classes a, b, c, the new model the classes a, b"),
        (damaged, "model.safetensors"),
    ):
        evaluate(data, model, tmp_path / "out", champion=str(champion), baseline=False)
        assert why in uncompared(tmp_path / "out")


@pytest.mark.parametrize("pinned", [False, True])
def test_where_the_champion_is_gone_the_baseline_stands_in(coins, data, model, tmp_path, pinned):
    champion = str(coins.trained(tmp_path / "champion", data))
    uri = store.save(str(tmp_path / "pins"), reigning.pin_folder(champion, 0)) if pinned else champion
    (tmp_path / "champion" / "model.safetensors").unlink()
    found = evaluate(data, model, tmp_path / "out", champion=uri)
    assert "The champion's files are gone, so the new model is compared with the baseline" in found.notes[0]
    decision = decide(tmp_path / "out")
    assert decision.reference == "baseline" and decision.level == pytest.approx(0.05 / 365)
    assert "champion's files are gone (" in decision.reason and "model.safetensors was deleted)" in decision.reason


def test_a_champion_that_was_gone_before_the_run_began_is_reported_from_the_pins(data, model, tmp_path):
    pins = ChampionPins(folder="gs://b/m", problem="version 3 of coins was deleted", epoch=0)
    evaluate(data, model, tmp_path / "out", champion=store.save(str(tmp_path / "pins"), pins))
    assert "champion's files are gone (version 3 of coins was deleted)" in decide(tmp_path / "out").reason


@pytest.mark.parametrize(
    ("trained", "note"),
    [
        (
            {"train": "2013-01:2013-06", "test": "2013-07"},
            "was trained on 2013-01:2013-06, which includes 2013-04 of the test",
        ),
        ({"train": "2013-01-01:2013-04-02", "test": "2013-05"}, "which includes 2013-04-01:2013-04-02 of the test"),
        ({"train": "2013-01:2013-03", "test": "2013-04"}, ""),
        ({"train": "3 months"}, ""),
        ({"train": "1-6", "test": "7"}, ""),
        ({"train": ["no window"]}, ""),
    ],
)
def test_a_champion_that_has_learned_from_days_of_the_test_is_reported(coins, tmp_path, trained, note):
    data = coins.dataset(tmp_path / "data", train="2013-01:2013-03", test="2013-04")
    champion = coins.trained(tmp_path / "champion", coins.dataset(tmp_path / "earlier", **trained), slope=0.2)
    model = coins.trained(tmp_path / "model", data)
    found = evaluate(data, model, tmp_path / "out", champion=str(champion), baseline=False)
    assert len(found.notes) == bool(note) and note in " ".join(found.notes)


def test_a_model_that_needs_other_columns_is_refused(coins, model, tmp_path, digits):
    refused(tmp_path, "needs colour, tilt, size, which the data lacks", digits, model)


def test_a_model_does_not_need_the_categories_that_grouped_its_rows(prices, tmp_path):
    folder = prices.trained(tmp_path / "model", prices.data, steps=1, task="prices:ByCity")
    data = manifest.load(prices.data)
    lacking = data.model_copy(update={"columns": tuple(c for c in data.columns if c.name != "city")})
    batch = {name: np.array(values[:50]) for name, values in open_rows(prices.data, "test").columns.items()}
    expected = score.load(folder, data)(batch)
    del batch["city"]
    np.testing.assert_array_equal(score.load(folder, lacking)(batch), expected)
    with pytest.raises(UserError, match="needs city, which the data lacks"):
        score.load(prices.trained(tmp_path / "other", prices.data, steps=1), lacking)


def test_logits_in_place_of_probabilities_are_refused(coins, tmp_path):
    data = coins.dataset(tmp_path / "data", logits=True)
    refused(tmp_path, "Coins.predict must return probabilities", data, coins.trained(tmp_path / "model", data))


@pytest.fixture
def fairs():
    import fairs

    return fairs


@pytest.fixture
def judged(fairs, tmp_path):
    """Decides between two models that give the day's crowd opposite weights: both are wrong."""

    def judge(task, **options):
        folder = tmp_path / task.__name__
        data = fairs.prepared(folder, task, seed=36, **options)
        models = [fairs.model(folder / name, data, slope) for name, slope in (("new", 0.1), ("old", -0.1))]
        evaluate(data, models[0], folder / "out", champion=str(models[1]), baseline=False)
        return decide(folder / "out")

    return judge


def test_luck_of_days_promotes_a_table_with_a_time_only_if_its_author_takes_rows_for_independent(judged, fairs):
    """Of 60 such tables 10 promote in one night if their rows count by themselves, and none by days."""
    alone, unnamed, named = judged(fairs.ByRow), judged(fairs.Fairs), judged(fairs.ByDay)
    assert alone.promote and (alone.group, alone.clusters) == ("", ())
    assert "on the same 1,200 rows. The new model's log loss is" in alone.details
    assert not unnamed.promote and (unnamed.clusters, unnamed.rows) == ((20,), alone.rows)
    assert (
        "on the same 1,200 rows in 20 groups (by day of at, because the task names no group). The new model's log loss"
        in unnamed.details
    )
    assert "neighbouring groups are assumed" in unnamed.details
    assert (
        named.lower_bound == unnamed.lower_bound
        and "in 20 groups (by day). The new model's log loss is" in named.details
    )


def test_days_that_are_too_few_are_reported_with_what_helps(judged, fairs):
    assert judged(fairs.Fairs, test="12 days").reason == (
        "Keep the champion: the test data has only 12 groups of rows (by day of at, because the task names no "
        "group); the test needs 15 at the level for 365 decisions a year. Test on more days, for example with a longer "
        "window `test`."
    )


def without_days(path):
    """A manifest or a card as it was before rows of a table with a time were grouped by its days."""
    text = json.loads(path.read_text())
    text["columns"] = [column for column in text["columns"] if column["name"] != "_day"]
    path.write_text(json.dumps(text))


def test_a_champion_from_before_its_rows_were_grouped_by_day_is_compared_and_recognised(fairs, tmp_path):
    data = fairs.prepared(tmp_path / "days")
    new, old = (fairs.model(tmp_path / name, data, 0.1) for name in ("new", "old"))
    without_days(old / CARD)
    found = evaluate(data, new, tmp_path / "out", champion=str(old), baseline=False)
    assert decide(tmp_path / "out").same
    shown = [row.values for listed in found.examples.lists for row in listed.rows]
    assert shown and not any("_day" in values for values in shown), "the time gives the day"
    rows = fairs.prepared(tmp_path / "rows", fairs.ByRow)
    challenger = fairs.model(tmp_path / "by_row", rows, 0.2)
    card = json.loads((new / CARD).read_text()) | {"task": "fairs:ByRow"}
    (new / CARD).write_text(json.dumps(card))
    evaluate(rows, challenger, tmp_path / "next", champion=str(new), baseline=False)
    assert decide(tmp_path / "next").metric == "loss"


def test_data_that_was_prepared_without_days_is_refused_with_what_to_do(fairs, tmp_path):
    data = fairs.prepared(tmp_path / "days")
    model = fairs.model(tmp_path / "model", data, 0.1)
    without_days(data / "manifest.json")
    with pytest.raises(UserError, match='has no day column.* Prepare the data again, or declare group = "row"'):
        evaluate(data, model, tmp_path / "out", baseline=False)
