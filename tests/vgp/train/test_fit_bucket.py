"""Training with its checkpoints in a bucket, and models that lie in one."""

import hashlib
import json
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from vgp.base.exits import Preempted, ProcessFailed, UserError
from vgp.base.storage import download, objects, storage
from vgp.data import bundle
from vgp.evaluation.evaluate import evaluate
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_store import store_at
from vgp.train.fit import train
from vgp.train.loop import profiling
from vgp.train.train_config import parse_config


def run(data, model, checkpoints, nproc=2, **changes):
    given = {"task": "digits:Digits", "epochs": 4, "global_batch_size": 96, "learning_rate": 0.01, **changes}
    return train(parse_config(given), data=data, model=model, checkpoints=checkpoints, nproc=nproc)


def bits(model, checkpoints):
    """Checksums of the model, and of model and optimizer in the last checkpoint."""
    files = [hashlib.sha256((model / name).read_bytes()).hexdigest() for name in (bundle.WEIGHTS, bundle.CARD)]
    store = store_at(checkpoints)
    manifest = recovery.read_manifest(store, recovery.list_manifests(store, 0)[0])
    return files, manifest.step, manifest.scalars, manifest.history, [part.crc32c for part in manifest.parts]


@pytest.fixture(scope="module")
def whole(digits, tmp_path_factory):
    """A run that nothing interrupts, on the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "helpers")
        folder = tmp_path_factory.mktemp("whole")
        run(digits, folder / "model", folder / "checkpoints")
    return folder


def test_a_run_that_was_stopped_and_killed_ends_with_the_bits_of_an_uninterrupted_one(
    whole, digits, bucket, tmp_path, monkeypatch
):
    """And so does another run that goes on from the stopped one's checkpoints, which it leaves as they are."""
    place = f"{bucket}/run"
    monkeypatch.setenv("DIGITS_SIGNAL", f"1:20:{signal.SIGTERM}")
    with pytest.raises(Preempted, match=f"is saved in {place}; start again to resume"):
        run(digits, tmp_path / "model", place)
    monkeypatch.delenv("DIGITS_SIGNAL")
    names = store_at(place).names()
    figures = run(digits, tmp_path / "other", tmp_path / "own", resume=place)
    assert figures["resumed_from"] >= 10 and store_at(place).names() == names
    assert bits(tmp_path / "other", tmp_path / "own") == bits(whole / "model", whole / "checkpoints")
    monkeypatch.setenv("DIGITS_SIGNAL", f"1:20:{signal.SIGKILL}")
    with pytest.raises(ProcessFailed, match="was killed by SIGKILL"):
        run(digits, tmp_path / "model", f"/gcs/runs/{place.rpartition('/')[2]}", checkpoint_every_steps=3)
    monkeypatch.delenv("DIGITS_SIGNAL")
    figures = run(digits, tmp_path / "model", place)
    assert figures["resumed_from"] >= 20
    assert bits(tmp_path / "model", place) == bits(whole / "model", whole / "checkpoints")
    with download.local_copy(f"{place}/training.json") as file:
        assert json.loads(Path(file).read_bytes())["steps"] == figures["steps"]
    assert len(storage.find(f"{place}/tensorboard/*tfevents*")) >= 2  # one for each start that ended


def put(folder, to):
    for path in folder.iterdir():
        storage.overwrite(f"{to}/{path.name}", path.read_bytes())


def test_a_champion_and_a_warm_start_may_lie_in_a_bucket(whole, digits, bucket, tmp_path):
    put(whole / "model", f"{bucket}/champion")
    steady = {"epochs": 0.1, "learning_rate": 1e-9, "seed": 1}  # weights stay what they were at the start
    run(digits, tmp_path / "warm", tmp_path / "c", nproc=1, warm_start=f"{bucket}/champion", **steady)
    start, end = (load_file(folder / bundle.WEIGHTS) for folder in (whole / "model", tmp_path / "warm"))
    trained = [name for name, tensor in start.items() if tensor.is_floating_point() and "running" not in name]
    assert trained and all(torch.allclose(start[name], end[name], atol=1e-6) for name in trained)
    results = []
    for name, champion in (("local", str(whole / "model")), ("remote", f"{bucket}/champion")):
        evaluate(digits, tmp_path / "warm", tmp_path / f"e-{name}", champion=champion)
        results.append((tmp_path / f"e-{name}" / "metrics.json").read_bytes())
    assert results[0] == results[1]


def test_a_champion_that_is_not_there_is_refused(digits, bucket, tmp_path):
    with pytest.raises(UserError, match="gs://runs/nothing"):
        bundle.load_card("gs://runs/nothing")


def test_a_run_cannot_go_on_from_a_folder_of_a_bucket_without_checkpoints(digits, bucket, tmp_path):
    with pytest.raises(UserError, match="there are no checkpoints"):
        run(digits, tmp_path / "model", tmp_path / "new", resume=f"{bucket}/nothing")


def test_a_model_cannot_be_written_to_a_bucket_directly(digits, bucket, tmp_path):
    with pytest.raises(UserError, match="/gcs/BUCKET/NAME"):
        run(digits, f"{bucket}/model", tmp_path / "checkpoints")


def test_a_profile_is_asked_for_in_a_bucket_and_written_there(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(profiling, "_ASK_EVERY_S", 0.05)
    place = f"{bucket}/asked"
    storage.overwrite(f"{place}/{profiling.REQUEST}", b"7")
    requests, deadline = profiling.Requests(place), time.monotonic() + 60
    while not (steps := requests.take()) and time.monotonic() < deadline:
        time.sleep(0.05)
    requests.close()
    assert steps == 7 and storage.below(place) == []
    (tmp_path / "trace").write_bytes(b"whole")
    objects.put(tmp_path / "trace", f"{place}/profile/trace")
    assert [file.path for file in storage.below(place)] == [f"{place}/profile/trace"]
