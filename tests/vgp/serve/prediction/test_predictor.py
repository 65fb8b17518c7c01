"""Raw rows are predicted bit for bit as evaluation predicts the rows that were prepared of them."""

import base64
import csv
import gc
import hashlib
import io
import pickle
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import create_autospec

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from docs.examples.shapes import Shapes
from docs.examples.topics import Topics
from tests.helpers import declared
from tests.vgp.serve.prediction.killed import here
from vgp.base.exits import UserError
from vgp.data import bundle, image_labels, prepare, tasks
from vgp.data.bundle import ModelCard
from vgp.data.events import Events, hours
from vgp.data.rows import open_rows
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask
from vgp.evaluation.evaluate import evaluate
from vgp.protocol import manifest
from vgp.protocol.manifest import Column
from vgp.serve.prediction import database
from vgp.serve.prediction import predict as predicting
from vgp.serve.prediction.predict import predict
from vgp.serve.prediction.predictor import Predictor

HERE = "tests.vgp.serve.prediction.test_predictor"


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(predicting, "launch", here)


class Visits(TabularTask):
    """Is a shop's next hour busy? Looks back on how busy it was."""

    schema = (
        Field("shop", pa.string()),
        Field("at", pa.timestamp("s", tz="UTC")),
        Field("rain", pa.float32(), nullable=True),
        Field("staff", pa.int32()),
        Field("visitors", pa.int32(), known="after"),
    )
    key = ("shop", "at")
    time = "at"
    slices = ("shop",)
    settings = {
        **TabularTask.settings,
        "hidden": [16],
        "train": "2024-01-01:2024-01-10",
        "test": "2024-01-11:2024-01-14",
    }

    def labels(self, rows):
        return (rows.visitors > 20).cast("int64")

    def events(self, rows):
        return {"shop": Events(rows.mutate(hour=hours(rows["at"])), ("shop",), ((3, 1), (24, 1)), value="visitors")}

    def features(self, rows):
        return {
            "shop": rows.shop,
            "rain": (rows.rain + 1).ln(),
            "lately": rows.shop_mean_3_1,
            "all": rows.shop_count_24_1,
        }


def visits() -> list[dict]:
    draw = np.random.default_rng(3)
    start = np.datetime64("2024-01-01T00:00:00")
    return [
        {"shop": shop, "at": f"{start + np.timedelta64(hour, 'h')}Z", "rain": None if hour % 9 == 0 else hour % 5 / 2,
         "staff": 2, "visitors": int(draw.poisson(20 + 5 * (shop == "west")))}
        for hour in range(14 * 24) for shop in ("east", "west")
    ]  # fmt: skip


def trained(folder, data):
    """A model as its task makes it, with whatever weights it begins with."""
    dataset = manifest.load(data)
    task = tasks.load(dataset.task, dataset.options)
    torch.manual_seed(0)
    card = ModelCard(task=dataset.task, options=dataset.options, columns=dataset.columns, statistics=dataset.statistics,
                     config={"seed": 0}, steps=1, parameters=1)  # fmt: skip
    bundle.save(folder, task.model(dataset).eval(), card)
    return folder


def scored(data, model, folder):
    """The predictions of the evaluation for each test row, by its id: (rows,), (rows, C) or (rows, 1 + Q)."""
    evaluate(data, model, folder, baseline=False)
    table = pq.read_table(folder / "predictions.parquet")
    return dict(zip(table["row_id"].to_pylist(), table["challenger"].to_pylist(), strict=True))


def numbers(prediction, classes):
    """A prediction as evaluation writes it."""
    if "mean" in prediction:
        return [prediction["mean"], *prediction["quantiles"].values()]
    values = list(prediction["probabilities"].values())
    return values[1] if len(classes) == 2 else values


def equals_evaluation(predictor, rows, ids, expected, sizes=(1, 3, 12), **history):
    """Whether rows, in whatever company they are asked for, have the bits of evaluation."""
    for size in (*sizes, len(rows)):
        made = predictor.raw(rows[:size], **history)
        spoken = [numbers(each, predictor.task.classes) for each in made]
        assert spoken == [expected[number] for number in ids[:size]]


def test_rows_of_a_regression_have_the_bits_of_evaluation(prices, tmp_path):
    model = prices.trained(tmp_path / "model", prices.data, steps=3)
    expected = scored(prices.data, model, tmp_path / "evaluation")
    by_id = {identity(row["number"]): {**row, "area": float(row["area"]), "price": None} for row in prices.rows()}
    predictor = Predictor.load(model)
    equals_evaluation(predictor, [by_id[number] for number in expected], list(expected), expected)
    assert list(predictor.raw([*by_id.values()][:1])[0]["quantiles"]) == ["0.1", "0.5", "0.9"]


def test_a_row_may_lack_the_label_and_what_no_feature_is_made_of_and_nothing_else(prices, tmp_path):
    predictor = Predictor.load(prices.trained(tmp_path / "model", prices.data, steps=1))
    row = {"city": "Ulm", "area": None, "street": 7}
    (alone,) = predictor.raw([row])
    assert [alone] * 2 == predictor.raw([{**row, "price": 3.5, "number": 12, "more": []}] * 2)
    with pytest.raises(UserError, match=r"rows, row 2 lacks the column city; it has area, street\."):
        predictor.raw([row, {"area": 20.0, "street": 7}])
    with pytest.raises(UserError, match="rows, row 2, column area: 'large' is not of type double"):
        predictor.raw([row, {**row, "area": "large"}])
    with pytest.raises(UserError, match="column city is empty"):
        predictor.raw([{**row, "city": None}])
    assert predictor.raw([]) == []


def test_requests_of_several_threads_share_one_database_and_no_row_and_leave_no_file(prices, tmp_path, monkeypatch):
    opened = create_autospec(database.connect, side_effect=database.connect)
    monkeypatch.setattr(database, "connect", opened)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    predictor = Predictor.load(prices.trained(tmp_path / "model", prices.data, steps=1))
    asked = [[{"city": "Ulm", "area": 10.0 + number, "street": 7}] * (number + 1) for number in range(8)]
    alone = [predictor.raw(rows) for rows in asked]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(predictor.raw, asked)) == alone
    assert len({str(made[0]) for made in alone}) == 8 and opened.call_count == 1
    assert [path for path in tmp_path.glob("predict-*/*") if path.name != "spill"] == []
    copied = pickle.loads(pickle.dumps(predictor.database))
    del predictor
    gc.collect()
    assert not list(tmp_path.glob("predict-*"))
    with copied.engine() as engine:
        assert engine._connection.sql("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]


def test_a_value_that_training_never_saw_is_as_one_that_is_missing(prices, tmp_path):
    predictor = Predictor.load(prices.trained(tmp_path / "model", prices.data, steps=1))
    row = {"area": 30.0, "street": 7}
    assert predictor.raw([{**row, "city": "Oslo"}]) == predictor.raw([{**row, "city": "Rom"}])
    assert predictor.raw([{**row, "city": "Oslo"}]) != predictor.raw([{**row, "city": "Ulm"}])


def test_rows_of_a_declared_table_have_the_bits_of_evaluation(tmp_path):
    table = declared.passengers(tmp_path)
    options = {"declaration": declared.TOML, "hidden": [16]}
    prepare.prepare("table", str(table), tmp_path / "data", options=options, workers=1)
    model = trained(tmp_path / "model", tmp_path / "data")
    expected = scored(tmp_path / "data", model, tmp_path / "evaluation")
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    for row in rows:
        row["id"], row["age"] = int(row["id"]), None if row["age"] == "?" else float(row["age"])
    predictor = Predictor.load(model)
    by_id = {identity(row["id"]): row for row in rows}
    equals_evaluation(predictor, [by_id[number] for number in expected], list(expected), expected)


def identity(*key) -> int:
    """The id of a row by its key, as `vgp.data.identity` states it."""
    *first, last = [f"{len(part)}:{part}" if isinstance(part, str) else str(part) for part in key]
    text = "|".join([*first, last])
    return int(hashlib.md5(text.encode()).hexdigest()[::-1][-15:], 16)


def test_a_task_that_looks_back_takes_earlier_rows_and_reports_their_absence(tmp_path):
    rows = visits()
    with (tmp_path / "visits.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    prepare.prepare(f"{HERE}:Visits", str(tmp_path / "visits.csv"), tmp_path / "data", workers=1)
    model = trained(tmp_path / "model", tmp_path / "data")
    expected = scored(tmp_path / "data", model, tmp_path / "evaluation")
    predictor = Predictor.load(model)
    micros = [int(np.datetime64(row["at"][:-1], "us").astype(int)) for row in rows]
    ids = [identity(row["shop"], at) for row, at in zip(rows, micros, strict=True)]
    asked = [i for i, number in enumerate(ids) if number in expected][-3:]
    new = [{name: value for name, value in rows[i].items() if name != "visitors"} for i in asked]
    before = [row for i, row in enumerate(rows) if i not in asked]
    # The last ones: none of them looks back on a row without its visitors.
    equals_evaluation(
        predictor, new[-1:], [ids[asked[-1]]], expected, history=[*before, *(rows[i] for i in asked[:-1])]
    )
    with pytest.raises(UserError, match="Visits computes shop from other rows: give the earlier rows"):
        predictor.raw(new)
    with pytest.raises(UserError, match="history, row 2 lacks the column visitors"):
        predictor.raw(new, history=[rows[0], {**new[0]}])
    assert predictor.raw(new, history=[])  # nothing has happened yet


def test_images_are_predicted_from_their_files(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (20, 30, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    task = Shapes({})
    made = task.inputs([{"image": file.getvalue()}, {"image": base64.b64encode(file.getvalue()).decode()}], {})
    assert made["image"][0] == made["image"][1] and len(made["image"][0].as_py()) == task._width
    with pytest.raises(UserError, match="row 1: image must be the bytes of an image file"):
        task.inputs([{"image": "no base64!"}], {})


def test_a_folder_of_images_is_predicted_without_their_classes(alone, tmp_path):
    for number in range(6):
        path = tmp_path / "images" / ("circle" if number < 2 else "") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (40 * number, 0, 0)).save(path)
    task = Shapes({})
    columns = (Column(name="image", kind="vector", type=f"fixed_size_binary[{task._width}]", width=task._width),)
    statistics = {name: task.chosen[name] for name in ("size", "channels")}
    card = ModelCard(
        task="docs.examples.shapes:Shapes", columns=columns, statistics=statistics, config={}, steps=1, parameters=1
    )
    model = task.model(card.manifest())
    bundle.save(tmp_path / "model", model.eval(), card)
    made = predict(str(tmp_path / "images"), str(tmp_path / "model"), str(tmp_path / "out"))
    assert (made.metrics["rows"], made.metrics["labelled"]) == (6, 2)
    table = pq.read_table(tmp_path / "out" / "predictions-00000.parquet")
    raw = Predictor.load(tmp_path / "model").raw([{"image": (tmp_path / "images" / "5.png").read_bytes()}])
    number = table["row_id"].to_pylist().index(image_labels.hash_name("5.png"))
    assert table["prediction"][number].as_py() == raw[0]["class"]


def test_rows_of_another_task_have_the_columns_that_training_saw(digits, tmp_path):
    model = trained(tmp_path / "model", digits)
    data = tmp_path / "data"
    shutil.copytree(digits, data)
    expected = {}
    rows = open_rows(data, "validation")
    evaluate(data, model, tmp_path / "evaluation", baseline=False, split="validation")
    table = pq.read_table(tmp_path / "evaluation" / "predictions.parquet")
    expected = dict(zip(table["row_id"].to_pylist(), table["challenger"].to_pylist(), strict=True))
    given = [{"pixels": row.tolist()} for row in rows.columns["pixels"]]
    predictor = Predictor.load(model)
    equals_evaluation(predictor, given, rows.columns["row_id"].tolist(), expected)
    with pytest.raises(UserError, match="the column pixels must be a list of 64 numbers in each row"):
        predictor.raw([{"pixels": [1.0, 2.0]}])


def test_texts_are_made_of_words_as_training_makes_them():
    task = Topics({"words": 4})
    assert task.inputs([{"text": "Rain, and wind"}], {})["words"].to_pylist()[0][3] == 0
