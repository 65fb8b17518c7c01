"""A storage server that is down when a step starts: waited for with a warning, then one line and an exit code."""

import errno
import os
import threading
import time

import pytest

from vgp.base.exits import ProcessFailed
from vgp.base.storage import client, download, files, storage
from vgp.base.storage.objects import Folder
from vgp.data import bundle
from vgp.data.prepare import prepare
from vgp.protocol import manifest as manifests
from vgp.steps import calls as steps

# The client leaves broken connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setattr(Folder, "first_pause_s", 0.1)
    monkeypatch.setattr(client, "NOTICE_S", 0.0)  # pauses are random: all of them together may be short
    monkeypatch.setattr(client, "READ_DEADLINE_S", 1.2)


def train(digits, folder, place, **changes):
    given = {"epochs": 1, "global_batch_size": 300, "checkpoint_patience_s": 1.2, **changes}
    return steps.train(digits, folder / "model", place, nproc=1, **given)


def comes_back(proxy):
    """The bucket answers again some time after it was asked first, whenever that is."""
    while not proxy.hit():
        time.sleep(0.02)
    time.sleep(client.NOTICE_S + 0.5)
    proxy.faults.clear()


def failed(capfd, call):
    """The error of a step that fails, without its one warning."""
    with pytest.raises(SystemExit) as stop:
        call()
    assert stop.value.code == 69
    warning, *rest, error = capfd.readouterr().err.splitlines()
    assert warning.startswith("warning: gs://runs/") and "retrying for up to" in warning
    assert not rest and error.startswith("failed: gs://runs/") and "could not be reached" in error
    return error


@pytest.mark.parametrize("kind", [503, "reset"])
def test_a_run_whose_bucket_is_down_at_the_start_waits_and_then_fails_in_one_line(
    digits, bucket, proxy, tmp_path, capfd, kind
):
    proxy.fail(kind, float("inf"))
    error = failed(capfd, lambda: train(digits, tmp_path, f"{bucket}/down-{kind}"))
    assert "1.2" in error


def test_a_run_goes_on_when_its_bucket_comes_back_and_a_resume_that_cannot_read_does_not_start_anew(
    digits, bucket, proxy, tmp_path, capfd, monkeypatch
):
    """Of the second start the bucket lists and takes objects, but gives none: the ranks find that out."""
    proxy.fail(503, float("inf"))
    threading.Thread(target=comes_back, args=(proxy,), daemon=True).start()
    with monkeypatch.context() as patient:
        patient.setattr(client, "READ_DEADLINE_S", 60.0)
        assert train(digits, tmp_path, f"{bucket}/resume", checkpoint_patience_s=60)["steps"] == 4
    assert "retrying for up to 60 s" in capfd.readouterr().err.splitlines()[0]
    names = {file.path for file in storage.find(f"{bucket}/resume/run*")}
    proxy.fail(503, float("inf"), path="safetensors?alt=media")
    capfd.readouterr()
    with pytest.raises(SystemExit) as stop:
        train(digits, tmp_path, f"{bucket}/resume")
    assert stop.value.code == 69
    said = capfd.readouterr().err.splitlines()
    assert said[-1].startswith("failed: gs://runs/resume/run000-step") and "checkpoint_patience_s=1.2" in said[-1]
    assert not any("Traceback" in line for line in said)
    assert {file.path for file in storage.find(f"{bucket}/resume/run*")} == names


def test_preparing_from_a_bucket_that_is_down_fails_in_one_line(bucket, proxy, tmp_path, capfd):
    proxy.fail(503, float("inf"))
    failed(capfd, lambda: steps.prepare(f"{bucket}/raw/*.csv", tmp_path / "data", task="flights"))


def test_a_bucket_that_goes_down_while_it_is_read_fails_in_one_line(bucket, proxy, tmp_path):
    storage.overwrite(f"{bucket}/raw/a.csv", b"a,b\n1,2\n" * 1000)
    proxy.fail(503, float("inf"), path="alt=media")
    with pytest.raises(ProcessFailed, match="could not be reached"):
        download.copy(f"{bucket}/raw/a.csv", tmp_path / "a.csv")
    with pytest.raises(ProcessFailed, match="raw/a.csv could not be reached"):
        prepare("flights", f"{bucket}/raw/a.csv", tmp_path / "data", workers=2)


def test_a_champion_in_a_bucket_that_is_down_fails_in_one_line(digits, bucket, proxy, tmp_path, capfd):
    from digits import Digits

    data = manifests.load(digits)
    card = bundle.ModelCard(task="digits:Digits", columns=data.columns, config={}, steps=1, parameters=1)
    bundle.save(tmp_path / "model", Digits().model(data), card)
    proxy.fail(503, float("inf"))
    call = lambda: steps.evaluate(digits, tmp_path / "model", tmp_path / "out", champion=f"{bucket}/champion")  # noqa: E731
    failed(capfd, call)
    with pytest.raises(ProcessFailed):
        bundle.load_card(f"{bucket}/champion")


def test_a_mount_whose_store_is_down_is_no_error_of_the_user(digits, tmp_path, monkeypatch, capfd):
    """As gcsfuse raises it; what is refused for good stays the user's."""
    for number, code in ((errno.EIO, 69), (errno.EACCES, 2)):

        def refuse(*values, number=number, **names):
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch, pytest.raises(SystemExit) as stop:
            patch.setattr(files.os, "open", refuse)
            train(digits, tmp_path, tmp_path / "checkpoints")
        assert stop.value.code == code
        assert f"manifest.json cannot be read: {os.strerror(number)}" in capfd.readouterr().err


def test_a_server_that_is_not_there_is_the_same(bucket, proxy, tmp_path, capfd):
    proxy.close()  # nothing listens there any more
    failed(capfd, lambda: steps.prepare(f"{bucket}/raw/*.csv", tmp_path / "data", task="flights"))
