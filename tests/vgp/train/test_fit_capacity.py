"""A training that a launcher follows: fenced off, forgotten, and gone on with elsewhere."""

import json
import os
import threading
import time

import pytest

from vgp.base.exits import Preempted, UserError
from vgp.base.storage import files
from vgp.train.fit import train
from vgp.train.train_config import parse_config


def run(folder, data, nproc=2, **changes):
    given = {"task": "digits:Digits", "global_batch_size": 96, "learning_rate": 0.01, **changes}
    return train(
        parse_config(given), data=data, model=folder / "model", checkpoints=folder / "checkpoints", nproc=nproc
    )


@pytest.fixture
def control(tmp_path, monkeypatch):
    folder = tmp_path / "control"
    folder.mkdir()
    monkeypatch.setenv("TRAINING_CAPACITY", str(folder))
    monkeypatch.setenv("TRAINING_ATTEMPT", "a1")
    return folder


def beat(folder, attempt="a1", orphan_s=2.5):
    values = {"format": 1, "attempt": attempt, "at": "2026-11-22T10:00:00Z", "every_s": 0.2, "orphan_s": orphan_s}
    files.write(folder / "heartbeat.json", json.dumps(values).encode())


def test_a_job_that_another_one_has_replaced_ends_before_it_writes_anything(control, digits, tmp_path):
    beat(control, "a2")
    with pytest.raises(Preempted, match="names attempt a2, and this is a1. Nothing was written"):
        run(tmp_path, digits)
    assert sorted(os.listdir(tmp_path)) == ["control"] and os.listdir(control) == ["heartbeat.json"]


def test_a_job_that_its_launcher_forgets_saves_on_all_ranks_and_stops(control, digits, tmp_path, capfd):
    """The job has reported its step; the same request resumes from there."""

    def beat_until(name):
        """Until the job has reported a value that is not 0."""
        path = control / "progress.json"
        while not path.exists() or not json.loads(files.read(path))[name]:
            beat(control)
            time.sleep(0.1)

    launcher = threading.Thread(target=beat_until, args=["step"], daemon=True)
    launcher.start()
    with pytest.raises(Preempted, match=r"step (\d+) of 25000 is saved in .*; start again to resume") as stop:
        run(tmp_path, digits, epochs=2000, checkpoint_every_steps=60)
    launcher.join(60)
    progress = json.loads(files.read(control / "progress.json"))
    assert f"step {progress['step']} of 25000" in str(stop.value)
    assert progress["saved_step"] == progress["step"] and progress["steps"] == 25000 and progress["attempt"] == "a1"
    assert progress["seconds_per_step"] > 0 and progress["save_s"] > 0 and progress["start_s"] > 0
    assert "stopping: no heartbeat from the launcher for 2.5 s (orphan_s)" in capfd.readouterr().err
    assert progress["from_step"] == 0
    launcher = threading.Thread(target=beat_until, args=["from_step"], daemon=True)
    launcher.start()
    with pytest.raises(Preempted):
        run(tmp_path, digits, epochs=2000, checkpoint_every_steps=60)
    launcher.join(60)
    assert json.loads(files.read(control / "progress.json"))["from_step"] == progress["saved_step"]


@pytest.mark.parametrize(
    ("name", "value", "changes", "words"),
    [
        ("TRAINING_WORLD_SIZES", "1,6", {"exact": True}, "exact=true needs powers of two, not .* on 1? ?.*processes"),
        (
            "TRAINING_WORLD_SIZES",
            "1,8",
            {"microbatches": 4},
            "microbatches=4 cannot be assigned to 8 processes .*a rung",
        ),
        ("TRAINING_WORLD_SIZES", "8 GPUs", {}, "give the processes of every rung, such as 8,16"),
        ("TRAINING_PREEMPTIONS_PER_HOUR", "often", {}, "give a number above 0"),
    ],
)
def test_a_rung_that_cannot_be_gone_on_with_is_refused_before_anything_starts(
    digits, tmp_path, monkeypatch, name, value, changes, words
):
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=words):
        run(tmp_path, digits, 1, **changes)
    assert not list((tmp_path / "checkpoints").glob("run*"))
