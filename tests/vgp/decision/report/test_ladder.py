"""The report shows the capacity attempts of the run that made the model, from the launcher's document."""

import json
import shutil
from pathlib import Path

import pytest

from vgp.decision.report import ladder, page

DOCUMENT = Path(__file__).parents[3] / "data/ladder.json"


@pytest.fixture
def model(tmp_path):
    """The path of a model as a step on Vertex AI is given it; its run climbed a ladder."""
    folder = tmp_path / "runs/capacity/training-1a/train-0123456789ab"
    folder.mkdir(parents=True)
    shutil.copy(DOCUMENT, folder)
    (folder / "progress.json").write_text("{}")
    return tmp_path / "runs/123456789012/training-1a/train_4567890123/model"


def drawn(model):
    return page.environment().get_template("ladder.html").render(ladder.context(model))


def test_every_attempt_is_a_row_with_time_money_and_what_was_lost(model):
    (way,) = ladder.context(model)["ways"]
    assert [(row.rung, row.held, row.usd, row.lost) for row in way.rows] == [
        ("spot-8xH100", "2h 00m", "$40.00", "37"),
        ("flex-8xH100", "", "", ""),
        ("8xA100", "6h 00m", "$240.00", ""),
    ]  # fmt: skip
    assert (way.total.rung, way.total.held, way.total.usd) == ("3 rungs", "8h 00m", "$280.00")
    text = drawn(model)
    assert "preempted: a machine was taken away" in text and "deadline 2026-11-20 14:00 UTC" in text


def test_the_page_names_the_run_whose_way_it_was(model):
    assert f"The step train of the run {json.loads(DOCUMENT.read_text())['run']} ran on a ladder" in drawn(model)


def test_the_days_of_the_prices_stand_beside_the_money_where_they_are_told(model, tmp_path):
    assert "for $280.00 at list prices, 37 steps" in drawn(model)
    document = json.loads(DOCUMENT.read_text())
    for rung, day in zip(document["rungs"], ("2026-07-30", "2026-01-01", "2026-07-09"), strict=True):
        rung["price_date"] = day
    (tmp_path / "runs/capacity/training-1a/train-0123456789ab/ladder.json").write_text(json.dumps(document))
    assert "at list prices of 2026-07-09 to 2026-07-30, 37 steps" in drawn(model)


@pytest.mark.parametrize("name", ["waiting", "probes"], ids=["", "of an earlier version"])
def test_jobs_that_waited_are_a_sentence_and_what_they_held_in_vain_is_in_the_total(model, tmp_path, name):
    document = json.loads(DOCUMENT.read_text())
    granted, lost = {"outcome": "granted", "hours": 0.0, "usd": 0.0}, {"outcome": "preempted", "hours": 0.1, "usd": 2.0}
    document[name] = [granted, {"outcome": "stockout", "hours": 0.0, "usd": None}, {"outcome": None}, lost]
    (tmp_path / "runs/capacity/training-1a/train-0123456789ab/ladder.json").write_text(json.dumps(document))
    (way,) = ladder.context(model)["ways"]
    assert "4 times" in way.waiting and "1 got machines" in way.waiting and "6m 00s for $2.00" in way.waiting
    assert (way.total.held, way.total.usd) == ("8h 06m", "$282.00") and way.waiting in drawn(model)


def test_a_model_of_this_machine_or_of_a_run_without_a_ladder_tells_nothing(model, tmp_path):
    assert drawn(tmp_path / "model").strip() == ""
    assert drawn(str(model).replace("training-1a", "training-2")).strip() == ""


def test_text_of_the_document_is_text_and_what_is_damaged_is_passed_over(model, tmp_path):
    folder = tmp_path / "runs/capacity/training-1a"
    document = json.loads(DOCUMENT.read_text())
    document["attempts"] = [
        {"rung": "<b>", "words": "<script>", "outcome": "failed", "hours": 1, "usd": None, "number": "x"}
    ]
    (folder / "train-0123456789ab/ladder.json").write_text(json.dumps(document))
    for name, text in {"a": "{", "b": "[]", "c": '{"format": 2}', "d": '{"format": 1}'}.items():
        (folder / name).mkdir()
        (folder / name / "ladder.json").write_text(text)
    text = drawn(model)
    assert text.count("<h2>") == 1 and "&lt;script&gt;" in text and "<script>" not in text
    assert "at least $0.00" in text


def test_a_store_that_does_not_answer_costs_the_section_and_not_the_report(model, monkeypatch, capsys):
    def broken(folder):
        raise ConnectionError(f"{folder} could not be reached")

    monkeypatch.setattr(ladder.storage, "below", broken)
    assert drawn(model).strip() == ""
    assert "warning: the report lacks the attempts" in capsys.readouterr().err
