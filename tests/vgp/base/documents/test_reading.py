"""Only regular files of a bounded size are read, and only as text."""

import os

import pytest

from vgp.__main__ import main
from vgp.base.documents.bounded_text import Unreadable, read
from vgp.base.errors import RequestError


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unreadable, match="not a regular file; give a file"):
        read(tmp_path / "pipe", instead="; give a file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x" * 11, "larger than"),
        (b"\xff", "byte 0 is not UTF-8"),
        ("a: 1".encode("utf-16"), "UTF-16.*save it as UTF-8"),
    ],
)
def test_what_is_too_large_or_no_text_is_refused(tmp_path, content, message):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(Unreadable, match=message):
        read(tmp_path / "a", 10)


def test_a_folder_is_reported_as_one(tmp_path):
    with pytest.raises(Unreadable, match="a folder: give a file"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["none", "a\0b", "a/b"])
def test_a_file_that_cannot_be_opened_is_the_users_mistake(tmp_path, name):
    (tmp_path / "a").write_text("x")
    with pytest.raises(RequestError):
        read(tmp_path / name)


@pytest.mark.parametrize("words", [
    ["check", "gs://b/x.json"], ["check", "gs://b/x.json", "--skip-others"], ["convert", "gs://b/x.json"],
    ["check", ".", "--compare", "gs://b/x.json", "--format", "markdown"], ["compile", "--out", "gs://b/x.json"],
    ["run", "training", "--out", "gs://b/x.json"], ["config", "--settings", "gs://b/x.json"],
])  # fmt: skip
def test_an_address_in_place_of_a_path_is_refused_as_it_was_written(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2 and "gs://b/x.json: a URI" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
