"""Copies that a kill left below a registry go, and nothing that a release is at work on."""

import json
import os
import threading
import time

import pytest

from tests.helpers.run_wing import forget_client
from tests.vgp.registry.records import WORDS, key_of, version
from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.registry import changes, registry, sweep, verbs, versions

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_bytes(b"{}")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"weights" * 1000)
    return str(tmp_path / "model")


def aged(place, monkeypatch, *names):
    """These copies as of two days ago; in a bucket, whose server keeps the time, all of them."""
    if storage.is_remote(place.root):
        return monkeypatch.setattr(sweep, "UNTOUCHED_S", 0.0)
    before = time.time() - 2 * 86_400
    for name in names:
        for file in storage.below(place.version_folder(key_of(name))):
            os.utime(file.path, (before, before))


def left(place, name):
    return len(storage.below(place.version_folder(key_of(name))))


def test_a_copy_that_no_record_names_goes_once_it_is_old_and_versions_stay(place, model, monkeypatch):
    files = versions.add(place, model, key_of("named"))
    made = version("named", files=files)
    place.change(lambda record: changes.register(record, made, who="run"))
    versions.add(place, model, key_of("orphan"))
    report = verbs.clean(place.root, "", dry_run=False)
    assert not report["changed"] and report["copies"][0]["key"] == key_of("orphan") and not report["copies"][0]["goes"]
    assert report["said"] == f"nothing is left behind in {place.root}; 1 copy stays: a release may be at work there"
    aged(place, monkeypatch, "orphan", "named")
    report = verbs.clean(place.root, "flights", dry_run=True)
    assert report["said"] == f"1 copy of no version would be removed from {place.root}, 0.0 MiB"
    assert left(place, "orphan") == 2 and not report["changed"]
    report = verbs.clean(place.root, "", dry_run=False)
    assert report["said"] == f"1 copy of no version was removed from {place.root}, 0.0 MiB" and report["changed"]
    assert [(one["files"], one["bytes"], one["deleted"]) for one in report["copies"]] == [(2, 7002, None)]
    assert left(place, "orphan") == 0
    versions.verify(place, place.read().versions[0])
    assert verbs.clean(place.root, "", dry_run=False)["said"] == f"nothing is left behind in {place.root}"
    assert json.dumps(report)


def test_the_first_release_of_a_model_leaves_a_copy_and_no_record(place, model, monkeypatch):
    versions.add(place, model, key_of("first"))
    aged(place, monkeypatch, "first")
    assert registry.models(place.root) == []
    assert [one["model"] for one in verbs.clean(place.root, "", dry_run=False)["copies"]] == ["flights"]
    assert left(place, "first") == 0
    with pytest.raises(UserError, match="has no model 'delays'"):
        verbs.clean(place.root, "delays", dry_run=False)


def test_what_a_killed_deletion_left_goes_at_once(place, model):
    made = version("deleted", files=versions.add(place, model, key_of("deleted")))
    place.change(lambda record: changes.register(record, made, who="run"))
    place.change(lambda record: changes.delete(record, 1, **WORDS, key="then a kill"))
    (report,) = verbs.clean(place.root, "", dry_run=False)["copies"]
    assert (report["deleted"], report["goes"], left(place, "deleted")) == (1, True, 0)


@pytest.fixture
def checked(cloud, monkeypatch, tmp_path):
    """A registry in a bucket whose server heeds the precondition of a deletion."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", cloud.endpoint("storage"))
    forget_client()
    yield registry.open(f"gs://test-bucket/{tmp_path.name}", "flights")
    monkeypatch.undo()
    forget_client()


@pytest.mark.parametrize("home", ["disk", "bucket"])
def test_a_release_that_goes_on_with_an_old_copy_while_it_is_removed_loses_no_file(request, home, model, tmp_path):
    """The step is tried again the day after a kill, between the look at what it left and its removal."""
    place = request.getfixturevalue("checked") if home == "bucket" else registry.open(str(tmp_path / "r"), "flights")
    versions.add(place, model, key_of("late"))
    with pytest.MonkeyPatch.context() as patch:
        aged(place, patch, "late")
        (copy,) = sweep.find_copies(place)
        assert copy.goes
    files = versions.add(place, model, key_of("late"))
    assert not sweep.remove(place, copy)
    made = version("late", files=files)
    versions.verify(place, place.change(lambda record: changes.register(record, made, who="run")).versions[0])


def test_of_what_is_removed_under_its_hands_a_release_makes_each_file_again(checked, model, monkeypatch):
    versions.add(checked, model, key_of("late"))
    aged(checked, monkeypatch, "late")
    (copy,) = sweep.find_copies(checked)
    looked, gone = versions._read_facts, []

    def removed_once_it_was_looked_at(target, name):
        facts = looked(target, name)
        gone.append(sweep.remove(checked, copy))
        return facts

    monkeypatch.setattr(versions, "_read_facts", removed_once_it_was_looked_at)
    made = version("late", files=versions.add(checked, model, key_of("late")))
    assert gone == [True, False], "the first file anew already, the other not yet"
    versions.verify(checked, checked.change(lambda record: changes.register(record, made, who="run")).versions[0])


def test_on_a_disk_a_removal_waits_for_a_copy_that_is_being_made(tmp_path, model, monkeypatch):
    place = registry.open(str(tmp_path / "registry"), "flights")
    versions.add(place, model, key_of("late"))
    aged(place, monkeypatch, "late")
    (copy,) = sweep.find_copies(place)
    with versions.copy_lock(place):
        sweeping = threading.Thread(target=sweep.remove, args=(place, copy))
        sweeping.start()
        sweeping.join(0.2)
        assert sweeping.is_alive() and left(place, "late") == 2
        for file in storage.below(copy.folder):
            os.utime(file.path)
    sweeping.join()
    assert left(place, "late") == 2


def test_what_is_no_copy_of_ours_is_left_alone(place, model, monkeypatch):
    monkeypatch.setattr(sweep, "UNTOUCHED_S", 0.0)
    versions.add(place, model, key_of("mine"))
    folder = f"{place.folder}/versions/notes"
    if not storage.is_remote(folder):
        os.mkdir(folder)
        os.symlink(model, f"{place.folder}/versions/{key_of('link')}")
    storage.overwrite(f"{folder}/todo.txt", b"dear reader")
    assert len(verbs.clean(place.root, "", dry_run=False)["copies"]) == 1
    assert storage.read(f"{folder}/todo.txt", most=99) == b"dear reader" and os.listdir(model)


def test_a_bucket_that_refuses_is_reported_with_the_role(bucket, proxy, model, monkeypatch):
    place = registry.open(f"{bucket}/swept", "flights")
    made = version("a", files=versions.add(place, model, key_of("a")))
    place.change(lambda record: changes.register(record, made, who="run"))
    versions.add(place, model, key_of("orphan"))
    monkeypatch.setattr(sweep, "UNTOUCHED_S", 0.0)
    proxy.fail(403, method="DELETE")
    with pytest.raises(UserError, match=r"the version cannot be deleted: .*roles/storage.objectUser"):
        verbs.clean(place.root, "", dry_run=False)
    proxy.fail(403, method="DELETE")
    with pytest.raises(UserError, match=r"the version cannot be deleted: .*roles/storage.objectUser"):
        verbs.delete(place.root, "", "1", "", "")
