"""The files of a version: copied whole or not there, verified, and removed."""

import os
import signal
from pathlib import Path

import pytest

from tests.vgp.registry.records import key_of, version, written
from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.registry import changes, registry, versions

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

FILES = {"model.json": b"{}", "model.safetensors": b"weights" * 1000, "assets/empty": b"", "assets/words ä#1.txt": b"a"}


@pytest.fixture
def model(tmp_path):
    """A model's folder."""
    for name, data in FILES.items():
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_bytes(data)
    return str(tmp_path / "model")


def content(folder):
    return {
        file.path.removeprefix(f"{folder}/"): storage.read(file.path, most=1 << 20) for file in storage.below(folder)
    }


def register(place, files, name="a"):
    """The registered version of these files."""
    made = version(name, files=files)
    return place.change(lambda record: changes.register(record, made, who="run")).find_key(made.key)


def test_files_are_copied_below_the_registry_and_no_record_names_them_yet(place, model):
    files = versions.add(place, model, key_of("a"))
    assert content(place.version_folder(key_of("a"))) == FILES
    assert {name: file.bytes for name, file in files.items()} == {name: len(data) for name, data in FILES.items()}
    assert place.read().versions == ()
    versions.verify(place, register(place, files))


def test_a_copy_from_a_bucket_is_the_same(bucket, place, model):
    folder = f"{bucket}/{key_of(place.root)}/model"
    for name, data in FILES.items():
        storage.overwrite(f"{folder}/{name}", data)
    assert versions.add(place, folder, key_of("a")) == versions.add(place, model, key_of("b"))
    assert content(place.version_folder(key_of("a"))) == FILES


def test_a_second_copy_takes_what_is_there_and_mends_what_is_not_the_same(place, model, monkeypatch):
    versions.add(place, model, key_of("a"))
    folder = place.version_folder(key_of("a"))
    before = {name: written(f"{folder}/{name}") for name in FILES}
    storage.overwrite(f"{folder}/model.json", b"[")
    sent, copied, uploaded = [], versions.shutil.copyfile, versions._upload
    monkeypatch.setattr(versions.shutil, "copyfile", lambda a, b: (sent.append(Path(a).name), copied(a, b)))
    monkeypatch.setattr(versions, "_upload", lambda path, to, name: (sent.append(name), uploaded(path, to, name)))
    versions.add(place, model, key_of("a"))
    assert content(folder) == FILES
    assert all(written(f"{folder}/{name}") != before[name] for name in FILES), "young, for `sweep`"
    assert sent == ["model.json"]


def test_the_files_of_a_registered_version_are_not_touched_again(place, model):
    files = versions.add(place, model, key_of("a"))
    register(place, files)
    (Path(model) / "model.json").write_bytes(b"other")
    assert versions.add(place, model, key_of("a")) == files
    assert content(place.version_folder(key_of("a"))) == FILES


def test_a_version_whose_files_are_gone_cut_or_changed_is_reported(place, model):
    made = register(place, versions.add(place, model, key_of("a")))
    folder = place.version_folder(made.key)
    storage.overwrite(f"{folder}/model.json", b"[]")
    versions.require(place, made)  # names and sizes are right
    with pytest.raises(UserError, match=r"model.json is damaged: its checksum differs"):
        versions.verify(place, made)
    storage.overwrite(f"{folder}/model.json", b"")
    with pytest.raises(UserError, match=r"version 1 of flights is incomplete: .* model.json has 0 bytes instead of 2"):
        versions.require(place, made)
    versions.remove(place, made)
    with pytest.raises(UserError, match="model.json is gone, model.safetensors is gone|assets/empty is gone"):
        versions.require(place, made)
    assert storage.below(folder) == []
    versions.remove(place, made)  # once more is as good


def test_a_version_reigns_without_its_report(place, model, tmp_path):
    (tmp_path / "explained" / "about").mkdir(parents=True)
    (tmp_path / "explained" / "about" / "report.html").write_bytes(b"<html>")
    files = {**versions.add(place, model, key_of("a")), **versions.add(place, str(tmp_path / "explained"), key_of("a"))}
    made = register(place, files)
    versions.verify(place, made)
    storage.overwrite(f"{place.version_folder(made.key)}/about/report.html", b"")
    versions.require(place, made)
    with pytest.raises(UserError, match="about/report.html is damaged"):
        versions.verify(place, made)


def test_a_folder_without_files_or_with_too_many_is_no_model(place, model, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no files, so there is no model to register"):
        versions.add(place, str(tmp_path / "empty"), key_of("a"))
    monkeypatch.setattr(versions, "MOST_FILES", 3)
    with pytest.raises(UserError, match="holds 4 files; a version may have at most 3"):
        versions.add(place, model, key_of("a"))
    assert place.read().versions == () and storage.below(place.version_folder(key_of("a"))) == []


def test_a_bucket_that_is_not_there_takes_no_copy(bucket, model):
    with pytest.raises(UserError, match="bucket does not exist"):
        versions.add(registry.open("gs://nowhere/r", "flights"), model, key_of("a"))


def test_a_bucket_that_refuses_a_copy_is_reported_with_the_role(bucket, proxy, model):
    proxy.fail(403, method="POST", path="upload")
    with pytest.raises(UserError, match=r"the version cannot be copied: .*roles/storage.objectUser"):
        versions.add(registry.open(f"{bucket}/refused", "digits"), model, key_of("a"))


@pytest.mark.parametrize("moment", ["copyfile", "fsync", "replace", "_sync"])
def test_a_copy_that_was_killed_is_gone_on_with(tmp_path, model, moment):
    place = registry.open(str(tmp_path / "registry"), "flights")
    process = os.fork()
    if not process:
        try:
            home = {"copyfile": versions.shutil, "_sync": versions.files}.get(moment, versions.os)
            done = getattr(home, moment)

            def die(*values):
                done(*values)
                os.kill(os.getpid(), signal.SIGKILL)

            setattr(home, moment, die)
            versions.add(place, model, key_of("a"))
        finally:  # what fails in the copy must not go on as a second run of the tests
            os._exit(1)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    assert place.read().versions == ()
    versions.verify(place, register(place, versions.add(place, model, key_of("a"))))
    assert content(place.version_folder(key_of("a"))) == FILES
