"""What each step calls: the next attempt goes on from the one before, with the checkpoints that are its own."""

import json
import os
import signal

import pytest

from vgp.protocol import manifest as manifests
from vgp.protocol import pins as store
from vgp.protocol.pins import DataPins
from vgp.steps import calls as steps
from vgp.train import fit
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_store import DiskStore

SETTINGS = {"task": "digits:Digits", "learning_rate": 0.01}


def test_a_new_cache_epoch_keeps_the_checkpoints(digits, tmp_path):
    prepared = manifests.load(digits)
    document = DataPins(pipeline="training", task=prepared.task, options=prepared.options, epoch=1)
    renewed, other = (document.model_copy(update=change) for change in ({"epoch": 2}, {"asked": "b.csv"}))
    one, two, three = (
        steps._load_data_pins(store.save(f"{tmp_path}/pins", pins), prepared, digits)[1]
        for pins in (document, renewed, other)
    )
    assert one == two != three


def train(digits, folder, attempt, **changes):
    """One attempt at a step of a pipeline, with an output folder of its own."""
    output = folder / "123456789012" / "run" / f"train_{attempt}" / "checkpoints"
    given = {**SETTINGS, "epochs": 2, "global_batch_size": 96, "microbatches": 1, **changes}
    given.pop("task")
    return steps.train(digits, folder / "model", output, nproc=1, **given)


def test_an_attempt_goes_on_where_the_one_before_was_stopped_even_with_resume_never(digits, tmp_path, monkeypatch):
    monkeypatch.setenv("DIGITS_SIGNAL", f"0:9:{signal.SIGTERM}")
    with pytest.raises(SystemExit) as stop:
        train(digits, tmp_path, 1111111, resume="never")
    assert stop.value.code == 75
    monkeypatch.delenv("DIGITS_SIGNAL")
    figures = train(digits, tmp_path, 2222222, resume="never")
    assert figures["resumed_from"] >= 5
    assert json.loads((tmp_path / "model" / "model.json").read_text())["config"]["seed"] == 0
    asked = []
    monkeypatch.setattr(fit, "launch", lambda target, request, **settings: asked.append(request))
    for seed in (0, 1):
        train(digits, tmp_path, 3333333, resume="never", seed=seed)
    same, other = asked
    assert same.start.folder == figures["checkpoints"] != other.start.folder
    assert (same.start.run, other.start.run, other.config.seed) == (0, -1, 1)


def test_resume_never_means_never_for_another_job_in_the_same_folder(digits, tmp_path, monkeypatch):
    """A custom job on Vertex AI with a chosen folder: its id separates a restart from a new job."""

    def start(job, stopping=False):
        monkeypatch.setenv("CLOUD_ML_JOB_ID", job)
        monkeypatch.setenv("DIGITS_SIGNAL", f"0:9:{signal.SIGTERM}" if stopping else "-1:0:0")
        given = {"epochs": 2, "global_batch_size": 96, "microbatches": 1, "resume": "never"}
        return steps.train(digits, tmp_path / "model", tmp_path / "chosen", nproc=1, **given)

    store = DiskStore(tmp_path / "chosen")
    for job, number in (("100", 0), ("200", 1)):  # both could be gone on from
        with pytest.raises(SystemExit) as stop:
            start(job, stopping=True)
        assert stop.value.code == 75
        assert recovery.find_newest_run(store) == number and recovery.list_manifests(store, number)
    assert start("200")["resumed_from"] >= 5
    assert recovery.find_newest_run(store) == 1


def test_threads_of_an_evaluation_sleep_while_they_wait(digits, tmp_path, monkeypatch):
    """Set before torch is imported: spinning threads on busy cores took twice as long."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "")
    monkeypatch.delenv("OMP_WAIT_POLICY")
    with pytest.raises(SystemExit):
        steps.evaluate(digits, tmp_path / "no model", tmp_path / "out")
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
