"""A file is written whole or not at all, and nothing is left beside it."""

import os
import stat
import threading

import pytest

from vgp.base import whole_files
from vgp.base.errors import RequestError


def test_a_new_file_and_its_folders_are_made(tmp_path):
    whole_files.write(tmp_path / "a" / "b.txt", "é")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "é".encode()
    assert os.listdir(tmp_path / "a") == ["b.txt"]


def test_rights_stay_and_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    whole_files.write(link, b"new")
    assert link.is_symlink() and target.read_text() == "new" and stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RequestError, match="a cannot be written: No space left"):
        whole_files.write(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a"]


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        whole_files.write(tmp_path / "a", "new")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_not_replaced(tmp_path, kind):
    path = tmp_path / "a"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(RequestError, match="a cannot be written: not a regular file"):
        whole_files.write(path, "new")
    assert not path.is_file() and os.listdir(tmp_path) == ["a"]


def test_readers_see_the_old_text_or_the_new_one(tmp_path):
    path = tmp_path / "a"
    texts = ["a" * 300_000, "b" * 200_000]
    path.write_text(texts[0])
    done = threading.Event()

    def alternate():
        for number in range(60):
            whole_files.write(path, texts[number % 2])
        done.set()

    writer = threading.Thread(target=alternate)
    writer.start()
    while not done.is_set():
        assert path.read_text() in texts
    writer.join()
    assert os.listdir(tmp_path) == ["a"], "nothing is left behind"


def test_writers_at_the_same_time_leave_the_whole_text_of_one(tmp_path):
    path = tmp_path / "a"
    writers = [threading.Thread(target=whole_files.write, args=(path, letter * 200_000)) for letter in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    text = path.read_text()
    assert len(text) == 200_000 and len(set(text)) == 1 and os.listdir(tmp_path) == ["a"]


def test_a_name_of_the_longest_kind_can_be_written(tmp_path):
    path = tmp_path / ("é" * 127)
    whole_files.write(path, "x")
    assert path.read_text() == "x"
