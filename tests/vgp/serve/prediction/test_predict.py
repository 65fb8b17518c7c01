"""New data, scored shard by shard: identical bytes for any number of workers and kills."""

import csv
import json
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.killing import ask, ended, forks
from tests.vgp.serve.prediction.killed import here
from tests.vgp.serve.prediction.test_predictor import HERE, identity, scored, trained, visits
from vgp.base.exits import ProcessFailed, UserError
from vgp.data import prepare
from vgp.data.bundle import load_card
from vgp.serve.prediction import predict as predicting
from vgp.serve.prediction import row_shards
from vgp.serve.prediction.predict import Options, predict
from vgp.serve.prediction.prediction_folder import MANIFEST, PredictionFolder, PredictionRequest
from vgp.steps import prediction as step

KILLS = int(os.environ.get("TRAINING_TEST_KILLS", 0))


@pytest.fixture
def alone(monkeypatch):
    """Processes cost seconds: their shards are computed in this one, one after the other."""
    monkeypatch.setattr(predicting, "launch", here)


@pytest.fixture(scope="session")
def sold(prices, tmp_path_factory):
    """A model of prices, and all rows in a file: of every tenth the price is not known."""
    folder = tmp_path_factory.mktemp("sold")
    sold.model = prices.trained(folder / "model", prices.data, steps=3)
    sold.table = prices.write(folder / "prices.csv", prices.rows())
    return sold


def read(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def without(folder, column):
    rows = read(sold.table)
    path = folder / f"no-{column}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [name for name in rows[0] if name != column], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def rows(folder):
    return pa.concat_tables([pq.read_table(path) for path in sorted(Path(folder).glob("predictions-*.parquet"))])


def test_rows_are_predicted_once_each_with_their_id_and_the_model(sold, prices, alone, tmp_path):
    made = predict(str(sold.table), str(sold.model), str(tmp_path / "out"), options=Options(run="r1", shard_rows=500))
    table = rows(tmp_path / "out")
    assert table.column_names == [
        "row_id", "number", "mean", "quantile_0_1", "quantile_0_5", "quantile_0_9", "model", "model_version", "run",
    ]  # fmt: skip
    assert sorted(table["number"].to_pylist()) == list(range(prices.ROWS))
    assert table["row_id"].to_pylist() == sorted(identity(number) for number in range(prices.ROWS))
    assert set(table["run"].to_pylist()) == {"r1"} and table["model_version"].null_count == prices.ROWS
    expected = scored(prices.data, sold.model, tmp_path / "evaluation")
    by_id = dict(
        zip(
            table["row_id"].to_pylist(),
            zip(*(table[n].to_pylist() for n in table.column_names[2:6]), strict=True),
            strict=True,
        )
    )
    np.testing.assert_allclose([by_id[number] for number in expected], list(expected.values()), rtol=1e-5)
    price = {row["number"]: float(row["price"]) for row in prices.rows() if row["price"]}
    errors = [
        m - price[n] for n, m in zip(table["number"].to_pylist(), table["mean"].to_pylist(), strict=True) if n in price
    ]
    assert made.metrics["rmse"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))
    assert (made.metrics["labelled"], made.metrics["rows"], made.metrics["shards"]) == (1080, 1200, 3)
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert [shard["rows"] for shard in manifest["shards"]] == [500, 500, 200]
    assert [shard["bytes"] for shard in manifest["shards"]] == [
        path.stat().st_size for path in sorted((tmp_path / "out").glob("predictions-*"))
    ]


def test_the_rows_of_a_shard_follow_from_columns_that_are_lists_or_texts_too() -> None:
    columns = {"row_id": pa.int64(), "pixels": pa.list_(pa.uint8(), 1 << 18), "words": pa.list_(pa.string())}
    assert row_shards._rows_per_shard(pa.schema(columns.items())) == row_shards.LEAST_ROWS
    assert (
        row_shards._rows_per_shard(pa.schema({"pixels": pa.list_(pa.uint8(), 64)}.items()))
        == row_shards.SHARD_BYTES // 64
    )


def test_one_process_and_several_write_the_same_bytes(sold, tmp_path, monkeypatch):
    several = predict(
        str(sold.table), str(sold.model), str(tmp_path / "several"), options=Options(shard_rows=200, nproc=2)
    )
    monkeypatch.setattr(predicting, "launch", here)
    for nproc in (1, 3):
        predict(
            str(sold.table), str(sold.model), str(tmp_path / str(nproc)), options=Options(shard_rows=200, nproc=nproc)
        )
        assert content(tmp_path / str(nproc)) == content(several.folder.path)


def test_rows_without_a_label_are_predicted_alike_and_what_the_model_needs_is_asked_for_first(sold, alone, tmp_path):
    predict(str(sold.table), str(sold.model), str(tmp_path / "labelled"))
    made = predict(str(without(tmp_path, "price")), str(sold.model), str(tmp_path / "unlabelled"))
    assert made.metrics["labelled"] == 0 and "rmse" not in made.metrics
    assert rows(tmp_path / "unlabelled").equals(rows(tmp_path / "labelled"))
    for column in ("area", "number"):
        with pytest.raises(UserError, match=f"no-{column}.csv lacks the column {column}; it has"):
            predict(str(without(tmp_path, column)), str(sold.model), str(tmp_path / column))
        assert content(tmp_path / column) == {}


def test_the_first_step_asks_for_a_column_that_the_model_needs_with_the_nearest_name(sold, tmp_path, capsys):
    text = sold.table.read_text()
    asked = {"model": str(sold.model), "task": load_card(sold.model).task, "to": str(tmp_path / "pins")}
    (tmp_path / "new.csv").write_text(text.replace("area", "aera", 1))
    with pytest.raises(SystemExit) as ended:
        step.resolve(data=str(tmp_path / "new.csv"), **asked)
    printed = capsys.readouterr().err
    assert ended.value.code == 2 and "new.csv lacks the column area; it has" in printed
    assert "Is 'aera' meant to be 'area'?" in printed
    assert step.resolve(data=str(without(tmp_path, "price")), **asked).data, "the label may come later"


def test_parquet_and_json_lines_may_lack_the_label_too(sold, alone, tmp_path):
    predict(str(sold.table), str(sold.model), str(tmp_path / "csv"))
    listed = read(sold.table)
    typed = [
        {"number": int(r["number"]), "street": int(r["street"]), "city": r["city"], "area": float(r["area"])}
        for r in listed
    ]
    pq.write_table(pa.Table.from_pylist(typed), tmp_path / "new.parquet")
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, typed)))
    for name in ("new.parquet", "new.jsonl"):
        predict(str(tmp_path / name), str(sold.model), str(tmp_path / f"out-{name}"))
        assert rows(tmp_path / f"out-{name}").equals(rows(tmp_path / "csv"))


def test_a_folder_holds_one_prediction_and_one_that_is_done_is_not_computed_again(sold, alone, tmp_path, monkeypatch):
    given = str(sold.table), str(sold.model), str(tmp_path / "out")
    predict(*given)
    before = content(tmp_path / "out")
    monkeypatch.setattr(predicting, "launch", lambda *a, **b: pytest.fail("scored again"))
    predict(*given)
    assert content(tmp_path / "out") == before
    with pytest.raises(
        UserError, match=r"holds the predictions of another request, which differs in run\. Choose a new"
    ):
        predict(*given, options=Options(run="another"))
    here = PredictionFolder(str(tmp_path / "version"))
    asked = PredictionRequest(version=2, weights={}, task="prices", rows=0, shards=())
    here.begin(asked)
    with pytest.raises(UserError, match=r"which differs in version \(2 there, 3 now\)\."):
        here.begin(asked.model_copy(update={"version": 3}))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear reader")
    with pytest.raises(UserError, match=r"holds other files than predictions \(thesis.txt\)"):
        predict(*given[:2], str(tmp_path / "mine"))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is not writable"):
        predict(*given[:2], str(tmp_path / "file"))


def test_a_shard_that_was_damaged_is_computed_again(sold, alone, tmp_path):
    given, options = (str(sold.table), str(sold.model), str(tmp_path / "out")), Options(shard_rows=400)
    predict(*given, options=options)
    before = content(tmp_path / "out")
    (tmp_path / "out" / MANIFEST).unlink()
    (tmp_path / "out" / "predictions-00001.parquet").write_bytes(before["predictions-00001.parquet"][:-9])
    (tmp_path / "out" / "predictions-00002.parquet").unlink()
    predict(*given, options=options)
    assert content(tmp_path / "out") == before


def _stays(path, missing_ok=False):
    """As after a kill."""


class Killed(BaseException):
    """What nothing catches."""


def test_a_run_that_dies_at_any_file_goes_on_with_the_next(sold, alone, tmp_path, monkeypatch):
    given, options = (str(sold.table), str(sold.model)), Options(shard_rows=400)
    predict(*given, str(tmp_path / "whole"), options=options)
    link, lives = os.link, {"left": 0, "after": False}

    def dying(source, target):
        lives["left"] -= 1
        if lives["left"] or lives["after"]:
            link(source, target)
        if not lives["left"]:
            raise Killed

    monkeypatch.setattr(os, "link", dying)
    for after in (False, True):
        out, died = tmp_path / f"after-{after}", 0
        for number in range(1, 9):
            lives.update(left=number, after=after)
            with monkeypatch.context() as patch, suppress(Killed):
                patch.setattr(Path, "unlink", _stays)  # what was begun
                predict(*given, str(out), options=options)
                break
            died += 1
        lives["left"] = 0
        predict(*given, str(out), options=options)
        assert died > 3 and content(out) == content(tmp_path / "whole")


@pytest.mark.skipif(not KILLS, reason="a drill: TRAINING_TEST_KILLS=200")
def test_kills_at_any_moment_lose_no_row_and_double_none(sold, alone, tmp_path):
    draw = random.Random(5)
    options = Options(shard_rows=30, nproc=2)
    began = time.monotonic()
    predict(str(sold.table), str(sold.model), str(tmp_path / "whole"), options=options)
    whole, seconds = content(tmp_path / "whole"), time.monotonic() - began
    out, kills = 0, 0
    with forks(Path(__file__).parent / "killed.py", tmp_path) as process:
        while kills < KILLS:
            values = {"data": str(sold.table), "model": str(sold.model), "folder": str(tmp_path / f"out-{out}")}
            victim = ask(process, {}, **values, shard_rows=30)
            time.sleep(draw.uniform(0, seconds))
            os.kill(victim, signal.SIGKILL)
            code = ended(process)
            kills += code == -signal.SIGKILL
            left = content(tmp_path / f"out-{out}") if (tmp_path / f"out-{out}").exists() else {}
            assert all(whole[name] == data for name, data in left.items() if not name.startswith("."))
            if code == 0:  # it was done: the next kills are of another
                assert left == whole
                out += 1
        ask(process, {}, **values, shard_rows=30)
        assert ended(process) == 0 and content(values["folder"]) == whole


def test_a_process_that_dies_is_reported_with_the_shard_that_it_was_at_and_the_rest_goes_on(
    sold, tmp_path, monkeypatch
):
    given, options = (str(sold.table), str(sold.model)), Options(shard_rows=200, nproc=2)

    def killed(target, request, **values):
        """Rank 1 ends its first shard, and dies at its second."""
        here(target, request.model_copy(update={"numbers": [0, 1, 2]}), **values)
        raise ProcessFailed("rank 1 was killed by SIGKILL, perhaps for its memory.")

    monkeypatch.setattr(predicting, "launch", killed)
    with pytest.raises(ProcessFailed, match=r"SIGKILL.*\nrank 0 was at predictions-00004.parquet, rank 1 was at "
                       r"predictions-00003.parquet. 3 shards are missing; run the command again"):  # fmt: skip
        predict(*given, str(tmp_path / "out"), options=options)
    monkeypatch.setattr(predicting, "launch", here)
    predict(*given, str(tmp_path / "out"), options=options)
    predict(*given, str(tmp_path / "whole"), options=options)
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_days_that_are_not_predicted_are_looked_back_on(alone, tmp_path):
    with (tmp_path / "visits.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(visits()[0]))
        writer.writeheader()
        writer.writerows(visits())
    prepare.prepare(f"{HERE}:Visits", str(tmp_path / "visits.csv"), tmp_path / "data", workers=1)
    model = trained(tmp_path / "model", tmp_path / "data")
    expected = scored(tmp_path / "data", model, tmp_path / "evaluation")
    predict(str(tmp_path / "visits.csv"), str(model), str(tmp_path / "out"), options=Options(window="1 day"))
    table = rows(tmp_path / "out")
    assert {at.day for at in table["at"].to_pylist()} == {14} and set(table["shop"].to_pylist()) == {"east", "west"}
    assert table["at"].type == pa.timestamp("us", tz="UTC")
    scores = dict(zip(table["row_id"].to_pylist(), table["probability_yes"].to_pylist(), strict=True))
    np.testing.assert_allclose(list(scores.values()), [expected[number] for number in scores], rtol=1e-5)
    with pytest.raises(UserError, match="the data has rows from 2024-01-01 to 2024-01-14, none in this window"):
        predict(str(tmp_path / "visits.csv"), str(model), str(tmp_path / "o"), options=Options(window="2025-03"))


def test_rows_unlike_those_of_training_are_reported_and_may_end_the_run(sold, alone, tmp_path):
    text = sold.table.read_text().replace("Ulm", "Oslo")
    (tmp_path / "north.csv").write_text(text)
    made = predict(str(tmp_path / "north.csv"), str(sold.model), str(tmp_path / "out"))
    assert made.words[-2] == "drift: 1 of 2 columns have shifted since training, with a large shift: city."
    page = (tmp_path / "out" / "drift.html").read_text()
    assert "never seen in training" in page and "Oslo" in page
    assert 'class="panel wide"><div class="scroll">' in page and page.count("<div") == page.count("</div>")
    with pytest.raises(UserError, match=r"the data has drifted, and nothing was scored: city \("):
        predict(str(tmp_path / "north.csv"), str(sold.model), str(tmp_path / "o"), options=Options(stop_on_drift=True))
    assert not list((tmp_path / "o").glob("predictions-*"))


def test_a_prediction_in_a_bucket_goes_on_where_it_was_left(sold, alone, bucket, tmp_path):
    given, options = (str(sold.table), str(sold.model)), Options(shard_rows=400)
    predict(*given, str(tmp_path / "here"), options=options)
    there = PredictionFolder(f"{bucket}/predictions/{tmp_path.name}")
    predict(*given, there.path, options=options)
    there.store.delete(MANIFEST)
    there.store.delete("predictions-00001.parquet")
    predict(*given, there.path, options=options)
    assert {name: there.store.read(name) for name in there.names()} == content(tmp_path / "here")
