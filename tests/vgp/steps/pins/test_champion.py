"""The champion is pinned apart from the data, and evaluation reads what was pinned."""

import os
import shutil

import pytest

from vgp.base.exits import UserError
from vgp.data import bundle
from vgp.evaluation.evaluate import evaluate
from vgp.steps import run_request


@pytest.fixture
def coins():
    import coins

    return coins


def test_a_new_champion_changes_the_run_and_not_the_data(pin, champion):
    first = pin(task="visits:Own", champion=champion, run="one")
    (champion / "model.safetensors").write_text("other weights")
    second = pin(task="visits:Own", champion=champion, run="one")
    assert first.data == second.data and first.champion != second.champion and first.digest != second.digest
    assert pin(task="visits:Own", run="one").champion == ""


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_champion_that_is_none_is_an_error_before_anything_is_read(pin, champion, name):
    (champion / name).unlink()
    with pytest.raises(UserError, match=rf"champion = .*champion: the folder has no {name}, so it holds no model"):
        pin("no such data", champion=champion)


def test_evaluation_reads_the_pinned_champion_or_reports_that_it_changed(pin, coins, tmp_path):
    data = coins.dataset(tmp_path / "data")
    model, champion = (coins.trained(tmp_path / name, data, slope=s) for name, s in (("model", 1.2), ("old", 0.2)))
    uri = pin(task="visits:Own", champion=champion).champion
    figures = [evaluate(data, model, tmp_path / "out", champion=str(c), baseline=False).models for c in (champion, uri)]
    assert figures[0] == figures[1]
    assert bundle.load_card(uri) == bundle.load_card(champion)
    shutil.copy(model / "model.safetensors", champion / "model.safetensors")
    note = evaluate(data, model, tmp_path / "out", champion=uri, baseline=False).notes[0]
    assert f"The champion was not compared: {champion}/model.safetensors changed after it was pinned" in note


def test_a_model_that_an_option_names_is_pinned_with_the_data(pin, champion, read):
    options = {"vocabulary_of": str(champion)}
    first = pin(task="language_model", options=options)
    (champion / "model.json").write_text("{ }")
    uri = read(first.data)["options"]["vocabulary_of"]
    with pytest.raises(UserError, match=f"{champion}/model.json changed after it was pinned"):
        bundle.load_card(uri)
    assert pin(task="language_model", options=options).data != first.data
    with pytest.raises(UserError, match=r"vocabulary_of = /nowhere: the folder has no model\.json"):
        pin(task="language_model", options={"vocabulary_of": "/nowhere"})


def test_a_run_is_checked_before_it_starts(champion, visits, pin, tmp_path):
    raw = visits.write(tmp_path / "raw", a=(0, 40))
    run = {
        "task": "visits:Visits",
        "task_options": {},
        "champion": "",
        "data": str(raw),
        "margin": 0,
        "confidence": 0.9,
    }
    pins = pin(raw).uri
    run_request.check_request(**run, pins=pins)
    run_request.check_request(**run, as_of="2026-02-01")
    for wrong, words in [
        ({"champion": str(tmp_path)}, "has no model.json"),
        ({"as_of": "soon"}, "'soon' is not a time"),
        ({"as_of": "2026-02-01", "task": "visits:Untimed"}, "has no time windows"),
        ({"pins": "here"}, "is not a pins document"),
        ({"pins": pins, "task_options": {"hidden": [2]}}, "with task_options"),
    ]:
        with pytest.raises(ValueError, match=words):
            run_request.check_request(**{**run, **wrong})
    os.truncate(pins, 10)
    with pytest.raises(ValueError, match="was edited"):
        run_request.check_request(**run, pins=pins)
