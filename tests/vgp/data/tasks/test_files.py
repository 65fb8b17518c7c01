"""Files as they are, in a dataset's folder."""

import json
import os

import pytest

from vgp.base.exits import UserError
from vgp.base.storage import client, download
from vgp.data.prepare import prepare, read_pinned_input
from vgp.data.tasks import files
from vgp.data.tasks.files import find_files
from vgp.protocol import manifest
from vgp.protocol import pins as store
from vgp.protocol.pins import DataPins, Request
from vgp.steps.pins.resolve import resolve

FILES = {"a/1.jpg": b"one", "a/b/2.jpg": b"two" * 9, "manifest.json": b"{}", ".hidden": b"h", "empty": b""}


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "raw" / name).write_bytes(content)
    return tmp_path / "raw"


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != manifest.HIDDEN_NAME
    }


def test_every_file_comes_in_its_folder_and_the_manifest_is_hidden(folder, tmp_path, capsys):
    made = prepare("files", str(folder), tmp_path / "data")
    assert contents(tmp_path / "data") == FILES == contents(folder)
    assert manifest.load(tmp_path / "data") == made and [s.path for s in made.sources] == sorted(FILES)
    assert "copied 5 files, 33 bytes, as they are" in capsys.readouterr().err
    assert prepare("files", str(folder), tmp_path / "again").fingerprint == made.fingerprint
    (folder / "empty").write_bytes(b"no more")
    assert prepare("files", str(folder), tmp_path / "again").fingerprint != made.fingerprint


def test_what_was_there_from_an_earlier_preparation_goes(folder, tmp_path):
    data = tmp_path / "data"
    prepare("files", str(folder), data)
    (data / "notes.txt").write_text("mine")
    prepare("files", str(folder / "a" / "b"), data)
    assert contents(data) == {"2.jpg": FILES["a/b/2.jpg"], "notes.txt": b"mine"} and not (data / "a").exists()
    outside = tmp_path / "outside"
    outside.write_text("not ours to remove")
    document = json.loads((data / manifest.HIDDEN_NAME).read_text())
    document["sources"][0]["path"] = "../outside"
    (data / manifest.HIDDEN_NAME).write_text(json.dumps(document))
    prepare("files", "", data)
    assert outside.exists() and manifest.load(data).sources == ()


def test_a_preparation_that_fails_or_was_killed_leaves_no_file_of_its_own(folder, tmp_path, monkeypatch):
    data, whole = tmp_path / "data", files._copy

    def breaking(file, target, name):
        if name == "empty":
            raise UserError("the disk is gone")
        return whole(file, target, name)

    monkeypatch.setattr(files, "_copy", breaking)
    with pytest.raises(UserError, match="the disk is gone"):
        prepare("files", str(folder), data)
    assert not data.exists()
    (data / "a").mkdir(parents=True)  # as a kill leaves it
    (data / "a" / "1.jpg").write_text("half")
    (data / "UNFINISHED").write_text(json.dumps(sorted(FILES)))
    monkeypatch.undo()
    prepare("files", str(folder / "a" / "b" / "2.jpg"), data)
    assert contents(data) == {"2.jpg": FILES["a/b/2.jpg"]}


def test_without_data_the_folder_is_empty(tmp_path):
    assert prepare("files", "", tmp_path / "data").sources == () and contents(tmp_path / "data") == {}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("{0}/a", ["1.jpg", "b/2.jpg"]),
        ("{0}/**/*.jpg", ["a/1.jpg", "a/b/2.jpg"]),
        ("{0}/a/b/*", ["2.jpg"]),
        ("{0}/a/1.jpg, {0}/a/b", ["1.jpg", "2.jpg"]),
        ("{0}/a,{0}/a/1.jpg", ["1.jpg", "b/2.jpg"]),
    ],
)
def test_names_are_paths_below_what_was_given(folder, given, names):
    assert list(find_files(given.format(folder))) == names


def test_names_that_collide_or_cannot_be_are_refused(folder, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "1.jpg").touch()
    with pytest.raises(UserError, match=r"other/1\.jpg and .*raw/a/1\.jpg have one relative path, '1\.jpg'"):
        find_files(f"{folder}/a,{tmp_path}/other")
    (tmp_path / "other" / "a").touch()
    with pytest.raises(UserError, match="other/a is a file, and .*a/1.jpg is in a folder of that name"):
        find_files(f"{folder},{tmp_path}/other/a")
    for reserved in ("UNFINISHED", ".manifest.json"):
        (tmp_path / reserved).touch()
        with pytest.raises(UserError, match="is reserved in the data's folder"):
            find_files(str(tmp_path / reserved))
    with pytest.raises(UserError, match="matches no file"):
        find_files(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "a//x", "a/./x", ".", "x\0y"])
def test_a_name_that_leads_out_of_the_folder_is_refused(name):
    with pytest.raises(UserError, match="which is outside of the data's folder"):
        files._require_safe(name, f"gs://b/{name}")


def test_a_link_above_itself_is_not_followed_for_ever(folder):
    (folder / "loop").symlink_to(folder)
    (folder / "linked.jpg").symlink_to(folder / "a" / "1.jpg")
    assert sorted(find_files(str(folder))) == sorted([*FILES, "linked.jpg"])


def request(data):
    return Request(data=str(data), task="vgp.data.tasks.files:Files", task_options={}, champion="")


def pinned(data, tmp_path, run="r"):
    return resolve(request(data), f"{tmp_path}/pins", pipeline="training", run=run).data


def test_exactly_the_pinned_files_are_copied(folder, tmp_path):
    uri = pinned(folder, tmp_path)
    assert pinned(folder, tmp_path) == uri and [f.title for f in store.load(uri, DataPins).files] == sorted(FILES)
    (folder / "later").write_text("after the pins")
    given, options = read_pinned_input(uri, "files")
    prepare("files", given, tmp_path / "data", options=options)
    assert contents(tmp_path / "data") == FILES
    (folder / "empty").write_text("written to")
    with pytest.raises(UserError, match="empty changed after it was pinned"):
        prepare("files", given, tmp_path / "data", options=options)


def test_a_script_that_brings_its_own_data_runs_every_night(tmp_path):
    """Nothing shows whether the file has changed: the pins are those of one run, so no later one takes its results."""
    first, second = (pinned("", tmp_path, run) for run in ("r", "s"))
    assert first != second and store.load(first, DataPins).unpinned
    given, options = read_pinned_input(first, "files")
    assert prepare("files", given, tmp_path / "none", options=options).sources == ()


def test_of_a_bucket_the_pinned_generations_are_copied(versions, tmp_path, monkeypatch):
    """Large ones come in pieces; names that only a bucket can have are refused."""
    bucket = client.bucket("kept")
    large = os.urandom(100_000)
    monkeypatch.setattr(download, "CHUNK_BYTES", 30_000)
    for name, content in (("set/a/1.bin", large), ("set/2.txt", b"first")):
        bucket.blob(name).upload_from_string(content)
    uri = pinned("gs://kept/set", tmp_path)
    bucket.blob("set/2.txt").upload_from_string(b"second")
    bucket.blob("set/3.txt").upload_from_string(b"new")
    prepare("files", uri, tmp_path / "data")
    assert contents(tmp_path / "data") == {"a/1.bin": large, "2.txt": b"first"}
    prepare("files", "gs://kept/set/2.txt,gs://kept/set/3.txt", tmp_path / "now")
    assert contents(tmp_path / "now") == {"2.txt": b"second", "3.txt": b"new"}
    bucket.blob("odd//x").upload_from_string(b"x")
    with pytest.raises(UserError, match="gs://kept/odd//x would be copied to '/x'"):
        prepare("files", "gs://kept/odd", tmp_path / "odd")
