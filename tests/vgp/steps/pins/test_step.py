"""The step `resolve`, and the same from a shell."""

import json

import pytest

from vgp.protocol import manifest
from vgp.steps import __main__ as main
from vgp.steps import calls as steps


@pytest.fixture
def raw(visits, tmp_path):
    return visits.write(tmp_path / "raw", a=(0, 40))


def test_the_path_of_the_record_names_root_and_project(raw, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("TRAINING_PINS", raising=False)
    record = tmp_path / "root" / "123456789012" / "training-1" / "resolve_-4711471147" / "record"
    result = steps.resolve(record, pipeline="training", run="training-1", data=str(raw), task="visits:Visits")
    assert result.uri == f"{tmp_path}/root/pins/{result.digest}.json"
    assert json.loads((tmp_path / "root" / "pins" / f"{result.digest}.json").read_text())["project"] == "123456789012"
    assert json.loads(record.read_text())["words"] == list(result.words) == capsys.readouterr().err.splitlines()


def test_numbers_arrive_from_a_pipeline_as_floats_and_mean_the_same(raw, tmp_path):
    whole, floats = (
        steps.resolve(tmp_path / "record", pipeline="p", data=str(raw), task="visits:Visits", task_options=options)
        for options in ({"hidden": [64]}, {"hidden": [64.0]})
    )
    assert whole.digest == floats.digest


def test_later_steps_take_the_pins(raw, tmp_path, visits, capsys):
    pins = steps.resolve(tmp_path / "record", pipeline="p", data=str(raw), task=visits.TASK)
    made = steps.prepare("", tmp_path / "data", task=visits.TASK, pins=pins.data)
    assert made.options == {"train": "2026-01-01:2026-01-31", "test": "2026-02-01:2026-02-10"}
    other = steps.resolve(tmp_path / "record", pipeline="p", data=str(raw), task=visits.TASK, as_of="2026-02-05")
    with pytest.raises(SystemExit) as stop:
        steps.train(tmp_path / "data", tmp_path / "m", tmp_path / "c", task=visits.TASK, pins=other.data)
    assert stop.value.code == 2 and "was not prepared from" in capsys.readouterr().err
    assert manifest.load(tmp_path / "data") == made


def test_from_a_shell(raw, tmp_path, capsys, monkeypatch):
    command = ["resolve", "--data", str(raw), "--task", "visits:Visits", "--to", str(tmp_path / "here"), "--json"]
    main.main([*command, "--dry-run"])
    planned = json.loads(capsys.readouterr().out)
    assert not (tmp_path / "here").exists() and planned.keys() > {"digest", "uri", "data", "champion", "words"}
    main.main(command)
    assert json.loads(capsys.readouterr().out) == planned
    assert planned["uri"] == f"{tmp_path}/here/pins/{planned['digest']}.json"
    main.main(["prepare", str(tmp_path / "data"), "--task", "visits:Visits", "--pins", planned["data"]])
    with pytest.raises(SystemExit) as stop:
        main.main([*command, "--as-of", "never"])
    assert stop.value.code == 2 and "error: as_of = 'never' is not a time" in capsys.readouterr().err
