"""Training with its checkpoints in a bucket, and models that lie in one."""

import hashlib
import json
import signal
from pathlib import Path

import pytest

from training import bundle
from training.checkpoint import recovery
from training.checkpoint.store import store_at
from training.config import parse
from training.errors import Preempted, ProcessFailed, UserError
from training.evaluation.evaluate import evaluate
from training.fit import train
from training.storage import download, storage


def run(data, model, checkpoints, nproc=2, **changes):
    given = {"task": "digits:Digits", "epochs": 4, "global_batch_size": 96, "learning_rate": 0.01, **changes}
    return train(parse(given), data=data, model=model, checkpoints=checkpoints, nproc=nproc)


def bits(model, checkpoints):
    """Checksums of the model, and of model and optimizer in the last checkpoint."""
    files = [hashlib.sha256((model / name).read_bytes()).hexdigest() for name in (bundle.WEIGHTS, bundle.CARD)]
    store = store_at(checkpoints)
    manifest = recovery.read_manifest(store, recovery.committed(store, 0)[0])
    return files, manifest.step, manifest.scalars, manifest.history, [part.crc32c for part in manifest.parts]


def test_a_run_that_was_stopped_and_killed_ends_with_the_bits_of_an_uninterrupted_one(
    digits, bucket, tmp_path, monkeypatch
):
    run(digits, tmp_path / "whole", tmp_path / "checkpoints")
    place = f"{bucket}/run"
    monkeypatch.setenv("DIGITS_SIGNAL", f"1:20:{signal.SIGTERM}")
    with pytest.raises(Preempted, match=f"is saved in {place}; start again to resume"):
        run(digits, tmp_path / "model", place)
    monkeypatch.setenv("DIGITS_SIGNAL", f"1:44:{signal.SIGKILL}")
    with pytest.raises(ProcessFailed, match="was killed by SIGKILL"):
        run(digits, tmp_path / "model", f"/gcs/runs/{place.rpartition('/')[2]}", checkpoint_every_steps=3)
    monkeypatch.delenv("DIGITS_SIGNAL")
    figures = run(digits, tmp_path / "model", place)
    assert figures["resumed_from"] >= 20
    assert bits(tmp_path / "model", place) == bits(tmp_path / "whole", tmp_path / "checkpoints")
    with download.local_copy(f"{place}/training.json") as file:
        assert json.loads(Path(file).read_bytes())["steps"] == figures["steps"]
    assert len(storage.find(f"{place}/tensorboard/*tfevents*")) >= 2  # one for each start that ended


def put(folder, to):
    for path in folder.iterdir():
        storage.overwrite(f"{to}/{path.name}", path.read_bytes())


def test_a_champion_and_a_warm_start_may_lie_in_a_bucket(digits, bucket, tmp_path):
    run(digits, tmp_path / "first", tmp_path / "c1", nproc=1, epochs=1)
    put(tmp_path / "first", f"{bucket}/champion")
    losses = []
    for name, start in (("local", str(tmp_path / "first")), ("remote", f"{bucket}/champion")):
        place = tmp_path / name
        losses.append(run(digits, place, place / "c", nproc=1, epochs=1, seed=1, warm_start=start)["loss"])
    assert losses[0] == losses[1]
    results = []
    for name, champion in (("local", str(tmp_path / "first")), ("remote", f"{bucket}/champion")):
        evaluate(digits, tmp_path / "local", tmp_path / f"e-{name}", champion=champion)
        results.append((tmp_path / f"e-{name}" / "metrics.json").read_bytes())
    assert results[0] == results[1]


def test_a_champion_that_is_not_there_is_refused(digits, bucket, tmp_path):
    with pytest.raises(UserError, match="gs://runs/nothing"):
        bundle.load_card("gs://runs/nothing")


def test_a_run_can_go_on_from_another_runs_checkpoints_in_a_bucket(digits, bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("DIGITS_SIGNAL", f"0:20:{signal.SIGTERM}")
    with pytest.raises(Preempted):
        run(digits, tmp_path / "model", f"{bucket}/other")
    monkeypatch.delenv("DIGITS_SIGNAL")
    figures = run(digits, tmp_path / "model", tmp_path / "own", resume=f"{bucket}/other")
    assert figures["resumed_from"] >= 10
    with pytest.raises(UserError, match="there are no checkpoints"):
        run(digits, tmp_path / "model", tmp_path / "new", resume=f"{bucket}/nothing")


def test_a_model_cannot_be_written_to_a_bucket_directly(digits, bucket, tmp_path):
    with pytest.raises(UserError, match="/gcs/BUCKET/NAME"):
        run(digits, f"{bucket}/model", tmp_path / "checkpoints")
