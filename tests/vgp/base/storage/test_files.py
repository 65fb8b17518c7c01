"""Files that other programs made: never waited for, read up to a limit, and the same from first to last look."""

import os
import signal

import pytest

from vgp.base.exits import UserError
from vgp.base.storage import files
from vgp.data import bundle
from vgp.data.rows import open_rows
from vgp.decision import decision
from vgp.evaluation import predictions, record
from vgp.protocol import manifest as manifests


@pytest.fixture(autouse=True)
def hurried():
    """Opening a pipe waits for its other end: forever."""
    signal.alarm(20)
    yield
    signal.alarm(0)


def test_a_file_that_is_there_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("a")
    assert files.read(tmp_path / "a", most=3) == files.read(tmp_path / "link") == b"abc"
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "b")
    with pytest.raises(UserError, match="link is a symbolic link, which could lead out of its folder"):
        files.read(tmp_path / "link", links=False)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "x"
    {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: path.symlink_to("/dev/zero")}[kind](path)
    with pytest.raises(UserError, match="x is .*not a regular file"):
        files.read(path)


def test_no_more_is_read_than_is_allowed(tmp_path):
    with open(tmp_path / "x", "wb") as file:
        file.truncate(1 << 40)  # all of it a hole
    with pytest.raises(UserError, match="x is larger than 64 MiB"):
        files.read(tmp_path / "x")


@pytest.mark.parametrize(
    "read",
    [manifests.load, lambda folder: open_rows(folder, "train"), bundle.load_card, record.load, decision.load,
     predictions.read],
    ids=["manifest", "rows", "card", "metrics", "decision", "predictions"],
)  # fmt: skip
def test_a_pipe_in_place_of_what_a_step_wrote_is_refused_at_once(tmp_path, read):
    for name in ("manifest.json", "model.json", "metrics.json", "decision.json", "predictions.parquet"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match="not a regular file"):
        read(tmp_path)


@pytest.mark.parametrize("read", [manifests.load, bundle.load_card, record.load], ids=["manifest", "card", "metrics"])
def test_a_description_of_a_terabyte_is_refused(tmp_path, read):
    for name in ("manifest.json", "model.json", "metrics.json"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(UserError, match="is larger than 64 MiB"):
        read(tmp_path)


def test_a_file_that_changes_between_two_looks_is_reported(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    with files.open_file(path) as file:
        version = files.version(file)
    with files.open_unchanged(path, version, "mine") as file:
        assert file.read() == b"abc"
    path.write_bytes(b"abcd")
    with pytest.raises(UserError, match="mine changed while it was read"):
        files.open_unchanged(path, version, "mine")
    path.unlink()
    with pytest.raises(UserError, match="mine was removed while it was read"):
        files.open_unchanged(path, version, "mine")
