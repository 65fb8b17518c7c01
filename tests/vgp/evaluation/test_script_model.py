"""What a script left, from its folder to the page: collected, evaluated, decided, shown."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vgp.base.exits import UserError
from vgp.data import bundle
from vgp.data.tasks import load
from vgp.data.tasks.files import Files
from vgp.decision.decide import decide
from vgp.decision.report import report
from vgp.evaluation import collect, collected, measure, record
from vgp.evaluation.evaluate import evaluate
from vgp.protocol import manifest
from vgp.registry import reigning
from vgp.steps import calls as steps
from vgp.steps import run_request

from .conftest import uncompared

COMMAND = ["python", "train.py", "--note", "<b>3</b>"]


@pytest.fixture
def coins():
    import coins

    return coins


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[2] / "helpers"))
    import coins

    return coins.dataset(tmp_path_factory.mktemp("script") / "data", rows=20)


@pytest.fixture(scope="module")
def rows(prepared):
    return pq.read_table(sorted(prepared.glob("test-*.parquet")))


@pytest.fixture
def left(tmp_path, prepared):
    """What a script left: a weight, and what is given; taken up from the dataset `data`."""

    def make(name="model", predictions=None, metrics=None, data=prepared, take_up=True):
        folder, checkpoints = tmp_path / name, tmp_path / f"{name}-checkpoints"
        for made in (folder / "weights", checkpoints):
            made.mkdir(parents=True)
        (folder / "weights" / "0.bin").write_bytes(b"12345")
        report = {"command": COMMAND, "launch": "torchrun", "nodes": 2, "processes": 4, "checkpoint_folder": "/kept"}
        (checkpoints / "script.json").write_text(json.dumps({**report, "seconds": 61.0, "exit_code": 0}))
        if predictions is not None:
            pq.write_table(pa.table(predictions), folder / "predictions.parquet")
        if metrics is not None:
            (folder / "metrics.json").write_text(json.dumps(metrics))
        if take_up:
            dataset = manifest.load(data)
            collect.collect(str(folder), str(checkpoints), data, load(dataset.task, dataset.options))
        return folder

    return make


def chances(rows, slope=1.1):
    return 1 / (1 + np.exp(-slope * np.nan_to_num(rows["tilt"].to_numpy())))


def predicted(rows, slope=1.1, **more):
    """Probabilities in an order of their own."""
    order = np.random.default_rng(0).permutation(len(rows))
    columns = {"row_id": rows["row_id"].to_numpy(), "probability": chances(rows, slope), **more}
    return {name: np.asarray(column)[order] for name, column in columns.items()}


def page_of(tmp_path, data, model, decision):
    report.write(tmp_path / "r.html", data=data, model=model, evaluation=tmp_path / "out", decision=decision)
    return (tmp_path / "r.html").read_text()


def test_collected_files_are_reported_and_kept_beside_the_model(left, prepared, rows, tmp_path, capsys):
    folder = left(predictions=predicted(rows), metrics={"loss": 0.5})
    printed = capsys.readouterr().err
    assert f"model: 1 file, 5 bytes, in {folder}" in printed and "metrics.json: loss 0.5" in printed
    assert "predictions.parquet: 400 rows, every row of the test split" in printed
    kept = collected.load(str(folder))
    assert (kept.files, kept.bytes, kept.metrics, kept.predictions) == (1, 5, {"loss": 0.5}, 400)
    assert (kept.launched.command, kept.launched.nodes, kept.launched.checkpoints) == (tuple(COMMAND), 2, "/kept")
    taken = steps.collect(folder, tmp_path / "model-checkpoints", prepared)
    assert (taken.checkpoints, taken.metrics) == ("/kept", {"loss": 0.5}) and collected.load(str(folder)) == kept


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "the script wrote no model: its AIP_MODEL_DIR, .*, has no file"),
        ({"metrics.json": "{}"}, r"has only metrics\.json"),
        ({"weights.bin": ""}, r"has only weights\.bin, empty"),
        ({"w": "x", "metrics.json": '{"a": NaN}'}, r"metrics\.json: it has NaN"),
        ({"w": "x", "predictions.parquet": "{}"}, r"predictions\.parquet cannot be read as Parquet"),
        ({"w": "x", "predictions.parquet/part-0.parquet": "x"}, "is a folder of 1 files, as Spark and Dask write"),
        ({"w": "x", "collected.json": "[]"}, r"collected\.json, a name that"),
    ],
)
def test_files_that_cannot_be_collected_are_an_error_with_the_reason(prepared, coins, tmp_path, files, message):
    folder = tmp_path / "model"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with pytest.raises(UserError, match=message):
        collect.collect(str(folder), "", prepared, load("coins:Coins"))
    assert files.get("collected.json", "") == "[]" or not (folder / "collected.json").exists()


def test_links_are_no_model(prepared, coins, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").symlink_to("/etc/hostname")
    with pytest.raises(UserError, match="wrote no model.*links are not followed"):
        collect.collect(str(tmp_path / "model"), "", prepared, load("coins:Coins"))


def test_files_that_are_nearly_called_so_are_named(left, prepared, coins, tmp_path, capsys):
    folder = left(take_up=False)
    (folder / "weights" / "predictions-0.parquet").write_text("x")
    collect.collect(str(folder), "", prepared, load("coins:Coins"))
    assert "no predictions.parquet (found weights/predictions-0.parquet; rename it" in capsys.readouterr().err


def test_a_script_is_judged_on_the_same_rows_as_the_baseline(left, coins, prepared, rows, tmp_path):
    """The figures are those of a model of ours that computes the same probabilities."""
    module = coins.trained(tmp_path / "ours", prepared, slope=1.1)
    found = evaluate(prepared, left(predictions=predicted(rows), metrics={"own": 0.125}), tmp_path / "out")
    same = evaluate(prepared, module, tmp_path / "other")
    theirs = {name: value for name, value in same.scalars.items() if name != "threshold"}  # of validation rows
    assert found.scalars == pytest.approx(theirs, abs=1e-6)
    assert found.models["baseline"] == same.models["baseline"] and found.groups == coins.DAYS
    assert [(s.column, s.value, s.rows) for s in found.slices] == [(s.column, s.value, s.rows) for s in same.slices]
    assert measure.measure(tmp_path / "out") == found and found.script.metrics == {"own": 0.125}
    table = pq.read_table(tmp_path / "out" / "predictions.parquet")
    assert table["row_id"].to_pylist() == rows["row_id"].to_pylist()
    decision = decide(tmp_path / "out")
    assert decision.reference == "baseline"
    page = page_of(tmp_path, prepared, tmp_path / "model", decision)
    for part in ("Calibration", "AUC by slice", "0.125", "not verified", "2 values: red"):
        assert part in page
    assert "| own | 0.125 |" in report.markdown(evaluation=tmp_path / "out")


@pytest.mark.parametrize("scored", [True, False])
def test_a_warning_of_the_launcher_is_in_the_log_the_record_and_the_report(
    left, prepared, rows, tmp_path, capsys, scored
):
    """Such as that the processes never met."""
    folder = left(predictions=predicted(rows) if scored else None, take_up=False)
    path = tmp_path / "model-checkpoints" / "script.json"
    warning = "warning: the 2 processes never connected to each other."
    path.write_text(json.dumps(json.loads(path.read_text()) | {"warnings": [warning]}))
    dataset = manifest.load(prepared)
    taken = collect.collect(str(folder), str(path.parent), prepared, load(dataset.task, dataset.options))
    assert taken.launched.warnings == (warning,) and warning in capsys.readouterr().err
    found = evaluate(prepared, folder, tmp_path / "out")
    assert found.notes[0] == warning
    decision = decide(tmp_path / "out")
    assert warning in page_of(tmp_path, prepared, folder, decision)
    assert warning in report.markdown(evaluation=tmp_path / "out", decision=decision)


@pytest.mark.parametrize("kind", ["ours", "script"])
def test_a_script_meets_a_champion_on_the_same_rows(left, coins, prepared, rows, tmp_path, kind):
    model = left(predictions=predicted(rows))
    weak = {"ours": lambda: coins.trained(tmp_path / "old", prepared, slope=0.1),
            "script": lambda: left("old", predictions=predicted(rows, slope=0.1))}[kind]()  # fmt: skip
    found = evaluate(prepared, model, tmp_path / "out", champion=str(weak), baseline=False)
    decision = decide(tmp_path / "out", nights=4)
    assert decision.outcome == "promote" and decision.reference == "champion"
    assert found.models["champion"].scores.loss > found.models["challenger"].scores.loss + 0.01
    back = evaluate(prepared, weak, tmp_path / "back", champion=str(model), baseline=False)
    assert back.models["challenger"].scores == found.models["champion"].scores
    assert decide(tmp_path / "back").outcome == "keep"


def test_a_champion_of_other_rows_is_kept_and_the_difference_is_reported(left, prepared, rows, tmp_path):
    model = left(predictions=predicted(rows))
    labels = rows["label"].to_numpy()
    for name, columns, message in (
        ("fewer", {k: v[:-2] for k, v in predicted(rows).items()}, "2 are missing"),
        ("labelled", predicted(rows, label=1 - labels), "its label differs from the label of the data in 400"),
    ):
        old = left(name, predictions=columns, take_up=False)
        evaluate(prepared, model, tmp_path / "out", champion=str(old), baseline=False)
        assert message in uncompared(tmp_path / "out")
    none = left("none")
    for gone in (tmp_path, none):
        assert "gone" in evaluate(prepared, model, tmp_path / "out", champion=str(gone), baseline=False).notes[0]
    with pytest.raises(UserError, match=r"champion = .*none: this script's folder has no predictions\.parquet"):
        reigning.check_folder(str(none))


def test_equal_row_ids_of_other_data_are_not_taken_for_the_same_rows(left, prepared, rows, tmp_path):
    """Every preparation numbers its test rows from 0: only the data itself or the labels distinguish them."""
    model = left(predictions=predicted(rows))
    old = left("old", predictions=predicted(rows))
    kept = collected.load(str(old))
    collected.save(str(old), kept.model_copy(update={"rows": "0" * 64}))
    evaluate(prepared, model, tmp_path / "out", champion=str(old), baseline=False)
    why = uncompared(tmp_path / "out")
    assert "belongs to other prepared data, " in why and "or write the column label" in why
    pq.write_table(pa.table(predicted(rows, label=rows["label"].to_numpy())), old / "predictions.parquet")
    assert not evaluate(prepared, model, tmp_path / "out", champion=str(old), baseline=False).notes
    (old / "collected.json").unlink()
    pq.write_table(pa.table(predicted(rows)), old / "predictions.parquet")
    notes = evaluate(prepared, model, tmp_path / "out", champion=str(old), baseline=False).notes
    assert notes == (f"The predictions in {old} are matched to these rows only by row_id.",)


def test_a_pinned_champion_is_known_by_its_pinned_files(left, prepared, rows, tmp_path):
    from vgp.protocol import pins as store

    model, old = left(predictions=predicted(rows)), left("old", predictions=predicted(rows, slope=0.1))
    pins = reigning.pin_folder(str(old), 0)
    assert [file.title for file in pins.files] == ["predictions.parquet", "collected.json"]
    uri = store.save(str(tmp_path / "pins"), pins)
    assert evaluate(prepared, model, tmp_path / "out", champion=uri, baseline=False).models.keys() >= {
        "challenger",
        "champion",
    }
    (old / "predictions.parquet").write_bytes(b"")
    evaluate(prepared, model, tmp_path / "out", champion=uri, baseline=False)
    assert "changed after it was pinned" in uncompared(tmp_path / "out")


def test_a_script_that_left_its_model_in_a_bucket_is_taken_up_and_pinned_there(
    left, coins, prepared, rows, bucket, tmp_path
):
    from vgp.base.storage import client
    from vgp.protocol import pins as store

    folder = left(predictions=predicted(rows), metrics={"loss": 0.5}, take_up=False)
    for path in folder.rglob("*"):
        if path.is_file():
            client.bucket("runs").blob(f"1/r/model/{path.relative_to(folder)}").upload_from_filename(path)
    taken = collect.collect("/gcs/runs/1/r/model/", "", prepared, load("coins:Coins", manifest.load(prepared).options))
    assert (taken.files, taken.bytes, taken.metrics) == (1, 5, {"loss": 0.5})
    assert collected.load("gs://runs/1/r/model") == taken
    uri = store.save(str(tmp_path / "pins"), reigning.pin_folder(f"{bucket}/1/r/model", 0))
    found = evaluate(prepared, "/gcs/runs/1/r/model", tmp_path / "out", champion=uri, baseline=False)
    assert found.models["champion"] == found.models["challenger"] and found.script == taken
    client.bucket("runs").blob("1/r/model/predictions.parquet").delete()
    gone = evaluate(prepared, str(folder), tmp_path / "out", champion=uri, baseline=False)
    assert "The champion's files are gone" in gone.notes[-1] and "predictions.parquet was deleted" in gone.notes[-1]
    client.bucket("runs").blob("1/r/model/predictions.parquet/part-0").upload_from_string(b"x")
    with pytest.raises(UserError, match="is a folder of 1 files, as Spark and Dask write"):
        collect.collect("gs://runs/1/r/model", "", prepared, load("coins:Coins"))


def test_without_predictions_nothing_is_decided_and_the_figures_are_shown(left, prepared, tmp_path):
    evaluate(prepared, left("first", metrics={}), tmp_path / "out")
    for stale in ("predictions.parquet", "decision.json"):
        (tmp_path / "out" / stale).write_text("of another model")
    model = left(metrics={"val/loss": 0.25, "a|b": 1, "top_k": 2})
    found = evaluate(prepared, model, tmp_path / "out")
    assert not found.scored and found.scalars == {} and found.roc_curve is None
    decision = decide(tmp_path / "out", margin=-0.5)
    assert (decision.outcome, decision.promote) == ("not decided", False)
    reason = "Not decided: the script wrote no predictions.parquet, so its model cannot be compared."
    assert decision.reason == reason
    text = report.markdown(evaluation=tmp_path / "out", decision=decision)
    assert text.startswith(f"# Coins\n\n{reason}\n") and "| val/loss | 0.25 |" in text
    assert r"| a\|b | 1 |" in text and r"top\_k" in text
    page = page_of(tmp_path, prepared, model, decision)
    for part in ("Not decided", "python train.py --note &#39;&lt;b&gt;3&lt;/b&gt;&#39;", "val/loss", "0.25", "torchrun",
                 "Versions of the evaluation", "rate of b"):  # fmt: skip
        assert part in page
    assert "How well it predicts" not in page and "<b>3</b>" not in page


def test_a_model_of_ours_that_a_script_saved_is_one_of_ours(coins, prepared, tmp_path):
    model = coins.trained(tmp_path / "model", prepared)
    assert not collected.is_script(str(model))
    (model / "predictions.parquet").write_text("left over")
    assert not collected.is_script(str(model)) and bundle.load_card(model).steps == 4
    shutil.copytree(model, tmp_path / "boosted")
    (tmp_path / "boosted" / "model.safetensors").unlink()  # model.json is also what XGBoost writes
    assert collected.is_script(str(tmp_path / "boosted"))


# ---- files as they are, with labels of the script's own


@pytest.fixture
def files(tmp_path):
    steps.prepare("", tmp_path / "files", task="files")
    return tmp_path / "files"


def own(rows, n=200):
    label = (np.random.default_rng(1).random(n) < 0.3).astype(np.int64)
    yes = np.clip(0.15 + 0.6 * label + 0.2 * np.random.default_rng(2).random(n), 0, 1)
    return {"label": label, "p_dog": 1 - yes, "p_cat": yes}


def test_rows_that_a_script_labelled_are_held_against_the_base_rates(left, files, rows, tmp_path):
    columns = own(rows)
    found = evaluate(files, left(predictions=columns, data=files), tmp_path / "out")
    assert (found.classes, found.rows, found.split) == (("dog", "cat"), 200, "")
    rate = columns["label"].mean()
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    assert found.models["baseline"].scores.loss == pytest.approx(entropy, abs=1e-5)
    decision = decide(tmp_path / "out")
    assert decision.outcome == "promote" and "the base rates of the labels" in decision.reason
    assert decision.calibration is None and "no train rows" in found.notes[0]
    page = page_of(tmp_path, files, tmp_path / "model", decision)
    assert "200 rows" in page and "The script reads its own data" in page
    assert record.load(tmp_path / "out") == found


def test_a_champion_of_own_rows_must_have_the_same_rows_and_labels(left, coins, prepared, files, rows, tmp_path):
    columns = own(rows)
    model = left(predictions=columns, data=files)
    better = columns["label"] * 0.98 + 0.01
    old = left("old", predictions={**columns, "p_dog": 1 - better, "p_cat": better}, data=files)
    evaluate(files, model, tmp_path / "out", champion=str(old))
    assert decide(tmp_path / "out").outcome == "keep"
    for name, change, message in (
        ("labels", {"label": 1 - columns["label"]}, "label differs from the label of the data in 200 of 200"),
        ("ids", {"row_id": np.arange(200) + 1}, "1 is missing (row_id 0), 1 is not among them (row_id 200)"),
        ("names", {"p_dog": columns["p_cat"], "p_cow": columns["p_dog"], "p_cat": None}, "predicts the classes"),
    ):
        predictions = {key: value for key, value in {**columns, **change}.items() if value is not None}
        other = left(name, predictions=predictions, data=files)
        evaluate(files, model, tmp_path / "out", champion=str(other), baseline=False)
        assert message in uncompared(tmp_path / "out")
    ours = coins.trained(tmp_path / "ours", prepared)
    evaluate(files, model, tmp_path / "out", champion=str(ours), baseline=False)
    assert "predicts prepared rows" in uncompared(tmp_path / "out")


def test_our_own_training_and_models_are_refused_for_files_as_they_are(coins, prepared, files, tmp_path, capsys):
    with pytest.raises(SystemExit):
        steps.train(files, tmp_path / "model", tmp_path / "checkpoints", task="files")
    assert "Name the script as command = [...] under [steps.train], or choose another task" in capsys.readouterr().err
    request = {"task": "files", "task_options": {}, "champion": "", "margin": 0.0, "confidence": 0.95, "data": ""}
    with pytest.raises(ValueError, match="the built-in training needs rows"):
        run_request.check_request(**request, with_task=False)
    run_request.check_request(**request, with_training=False)
    with pytest.raises(UserError, match="is not the output folder of a script, and the task files copies files"):
        evaluate(files, coins.trained(tmp_path / "ours", prepared), tmp_path / "out")
    with pytest.raises(UserError, match="Files has no option 'train'"):
        Files({"train": "1-6"})
