"""A record on a disk and in a bucket: read within limits, and changed only by a writer that has read it."""

import errno
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests.vgp.registry.records import WORDS, champion, key_of, promoted, registered, version, written
from vgp.base.exits import ProcessFailed, UserError
from vgp.base.storage import storage
from vgp.registry import changes, disk, documents, registry
from vgp.registry.documents import CHAMPION, FILE_NAME, Record, Version

# The client leaves broken connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def write(place, data):
    if not storage.is_remote(place.root):
        Path(place.folder).mkdir(parents=True)
    storage.overwrite(place.record_path, data)


def test_a_registry_that_is_not_there_yet_is_empty_until_it_is_changed(place):
    assert place.read() == Record(model="flights") and place.champion() is None
    place.require_writable()
    assert place.read().versions == ()
    record = place.change(lambda record: promoted(changes.register(record, version("a"), who="run"), 1))
    assert place.read() == record and place.champion().number == 1
    assert registry.models(place.root) == ["flights"]


def test_what_changes_nothing_writes_nothing(place):
    place.change(lambda record: changes.register(record, version("a"), who="run"))
    before = written(place.record_path)
    place.change(lambda record: changes.register(record, version("a"), who="run"))
    assert written(place.record_path) == before


def test_a_change_that_is_refused_leaves_the_record_and_no_lock(place):
    place.change(lambda record: changes.register(record, version("a"), who="run"))
    with pytest.raises(UserError, match="has no version 7"):
        place.change(lambda record: promoted(record, 7))
    assert champion(place.change(lambda record: promoted(record, 1))) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a valid registry record: .*EOF"),
        (b'{"format": 1, "model": "flights", "versions": [{"numb', "is not a valid registry record"),
        (b'{"format": 1, "model": "flights", "model": "other"}', "a key is given twice"),
        (b'{"format": 3, "model": "flights", "shards": 3}', "has format 3, written by a newer version"),
        (b'{"format": 1, "model": "delays"}', "is the registry of the model delays, but lies in the folder of flights"),
        (b'{"format": 1, "model": "flights", "aliases": {"champion": 1}}', "version 1, which does not exist"),
        (b"[" * 100_000, "is not a valid registry record"),
        (b"1" * 2049, "MiB, the maximum"),
    ],
)
def test_a_record_that_is_none_is_refused_in_words_and_left_alone(place, monkeypatch, data, message):
    for module in (documents, disk, sys.modules["vgp.registry.registry"]):
        monkeypatch.setattr(module, "MOST_RECORD_BYTES", 2048 if b"1111" in data else 1 << 20)
    write(place, data)
    for work in (place.read, lambda: place.change(lambda record: promoted(record, 1)), place.require_writable):
        with pytest.raises(UserError, match=message):
            work()
    assert storage.read(place.record_path, most=1 << 20) == data


def test_an_object_that_is_too_large_is_not_fetched(bucket, proxy, monkeypatch):
    monkeypatch.setattr(sys.modules["vgp.registry.registry"], "MOST_RECORD_BYTES", 1000)
    place = registry.open(f"{bucket}/large", "flights")
    write(place, b" " * 1001)
    with pytest.raises(UserError, match="registry.json is larger than"):
        place.read()
    assert [path for method, path, _ in proxy.seen if method == "GET" and "alt=media" in path] == []


def test_a_record_that_would_grow_too_large_is_not_written(place, monkeypatch):
    before = place.change(lambda record: changes.register(record, version("a"), who="run"))
    monkeypatch.setattr(documents, "MOST_RECORD_BYTES", 2048)
    with pytest.raises(UserError, match="MiB, the limit of a registry record"):
        place.change(lambda record: changes.register(record, version("b", reason="x" * 3000), who="run"))
    assert place.read() == before


@pytest.mark.parametrize(("model", "root"), [("Flights", "r"), ("../x", "r"), ("", "r"), ("a" * 64, "r")])
def test_a_name_that_vertex_ai_would_not_take_names_no_model(model, root):
    with pytest.raises(UserError, match="cannot name a model: Vertex AI takes 1 to 63"):
        registry.open(root, model)


@pytest.mark.parametrize(("target", "name"), [("gekündigt", "gekundigt"), ("Größe (m²)", "grosse-m2")])
def test_the_model_of_a_table_is_named_after_its_target_in_plain_letters(target, name):
    declaration = f'target = "{target}"\nkind = "regression"\n[columns]\nx = "float"\n"{target}" = "float"\n'
    assert documents.choose_model_name("", "table", {"declaration": declaration}) == name


@pytest.mark.parametrize(
    ("root", "message"), [("s3://b/r", "only buckets of Google Cloud"), ("gs://", "names no bucket"), ("", "a folder")]
)
def test_a_root_that_is_no_folder_is_refused(root, message):
    with pytest.raises(UserError, match=message):
        registry.open(root, "flights")


def test_a_folder_that_cannot_be_written_is_reported_before_anything_is_done(tmp_path):
    (tmp_path / "file").write_text("no folder")
    for root in (tmp_path / "file", Path("/proc/registry")):
        with pytest.raises(UserError, match=r"cannot be (written|read)"):
            registry.open(str(root), "flights").require_writable()
    with pytest.raises(UserError, match="there is no registry at"):
        registry.models(str(tmp_path / "none"))
    (tmp_path / "flights").mkdir()
    (tmp_path / "flights" / FILE_NAME).symlink_to(tmp_path / "file")
    with pytest.raises(UserError, match="is a symbolic link"):
        registry.open(str(tmp_path), "flights").read()


def test_a_bucket_that_is_not_there_and_one_that_may_not_be_read_are_reported(bucket, proxy):
    for work in (registry.Registry.read, registry.Registry.require_writable):
        with pytest.raises(UserError, match="bucket does not exist: gs://nowhere/r/flights"):
            work(registry.open("gs://nowhere/r", "flights"))
    with pytest.raises(UserError, match="bucket does not exist: gs://nowhere/r"):
        registry.models("gs://nowhere/r")
    proxy.fail(403, method="GET")
    with pytest.raises(UserError, match="r/flights/registry.json may not be read"):
        registry.open(f"{bucket}/r", "flights").read()


def test_a_bucket_that_refuses_what_a_registry_needs_is_reported_with_the_role_and_changes_nothing(bucket, proxy):
    place = registry.open(f"{bucket}/refused", "flights")
    before = place.change(lambda record: changes.register(record, version("a"), who="run"))
    works = (place.require_writable, lambda: place.change(lambda record: promoted(record, 1)))
    for method, work in (("POST", works[0]), ("DELETE", works[0]), ("POST", works[1])):
        proxy.fail(403, method=method)
        with pytest.raises(UserError, match=r"refused/flights\S* may not be written: .*roles/storage.objectUser"):
            work()
    assert proxy.hit() == 3 and place.read() == before


def test_a_write_whose_answer_was_lost_happened_once(bucket, proxy):
    place = registry.open(f"{bucket}/lost", "flights")
    proxy.fail("lost", method="POST", path="upload")
    record = place.change(lambda record: promoted(changes.register(record, version("a"), who="run"), 1))
    assert proxy.hit() == 1
    assert place.read() == record and [one.what for one in record.events] == ["registered", "promoted"]


def challenge(place, number):
    """What the step register does: the version is registered, and takes the alias if its rival still reigns."""
    rival = champion(place.read())
    key = key_of(f"run {number}")
    record = place.change(lambda record: changes.register(record, version(f"run {number}"), who="run"))
    mine = record.find_key(key).number
    try:
        place.change(lambda record: changes.promote(record, mine, expected=rival, **WORDS, key=key))
    except changes.Conflict:
        place.change(lambda record: changes.keep(record, **WORDS, key=key))


def is_whole(record, many):
    """One champion, a chain of promotions from the first, and every challenger with its word."""
    assert len(record.versions) == many and len(record.events) == 2 * many
    chain = [one for one in record.events if one.what == "promoted"]
    assert [one.before for one in chain] == [None, *(one.version for one in chain[:-1])]
    assert champion(record) == chain[-1].version
    assert {one.key for one in record.events if one.what != "registered"} == {one.key for one in record.versions}


@pytest.mark.parametrize("place", ["disk", "bucket"], indirect=True)
def test_many_that_end_at_once_leave_one_champion_and_a_history_without_gaps(place):
    many = 8 if storage.is_remote(place.root) else 40  # a hundred: tools/drills/registry.py
    threads = [threading.Thread(target=challenge, args=(place, number)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    is_whole(place.read(), many)


def dying(work, line):
    """Does the work in a process that is killed at its n-th line that writes; False if it lived to its end."""
    process = os.fork()
    if not process:
        left = line

        def trace(frame, event, _):
            nonlocal left
            if not frame.f_code.co_filename.endswith("registry/disk.py"):
                return None
            left -= event == "line"
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL


def test_a_kill_at_any_line_leaves_the_record_before_or_after_and_a_repetition_ends_the_work(tmp_path):
    place = registry.open(str(tmp_path), "flights")
    place.change(lambda record: promoted(registered("a", "b"), 1))

    def work():
        return place.change(lambda record: changes.promote(record, 2, expected=1, **WORDS, key="k"))

    before, line, seen = Path(place.record_path).read_bytes(), 0, set()
    while dying(work, line):
        seen.add(champion(place.read()))
        assert champion(work()) == 2 and len(place.read().events) == 4
        Path(place.record_path).write_bytes(before)
        line += 1
    assert seen == {1, 2} and line > 20
    assert sorted(path.name for path in Path(place.folder).iterdir()) == [FILE_NAME, "registry.lock"]


def test_a_full_disk_is_reported_and_leaves_the_record_as_it_was(tmp_path, monkeypatch):
    place = registry.open(str(tmp_path), "flights")
    before = place.change(lambda record: registered("a"))

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk.os, "fsync", full)
        with pytest.raises(UserError, match="the registry cannot be written at .*: No space left on device"):
            place.change(lambda record: promoted(record, 1))
    assert place.read() == before
    assert sorted(path.name for path in Path(place.folder).iterdir()) == [FILE_NAME, "registry.lock"]


def test_a_place_that_takes_no_versions_is_not_writable_even_if_its_record_is(tmp_path):
    place = registry.open(str(tmp_path), "flights")
    place.change(lambda record: registered("a"))
    (Path(place.folder) / disk.VERSIONS).write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be written at .*/versions: .* use another registry"):
        place.require_writable()


def test_a_lock_that_is_held_all_the_time_is_an_error_that_names_it(tmp_path, monkeypatch):
    place = registry.open(str(tmp_path), "flights")
    monkeypatch.setattr(disk, "LOCK_DEADLINE_S", 0.05)
    with (
        disk.hold_lock(Path(place.folder) / "registry.lock", 1),
        pytest.raises(ProcessFailed, match="was held by another"),
    ):
        place.change(lambda record: registered("a"))
    assert len(place.change(lambda record: registered("a")).versions) == 1


def test_equal_records_have_equal_bytes(tmp_path):
    record = promoted(registered("a", "b"), 1)
    data = documents.encode_record("r", record)
    assert documents.encode_record("r", documents.decode_record("r", "flights", data)) == data
    assert json.loads(data)["aliases"] == {CHAMPION: 1}


def test_a_registry_that_was_moved_has_the_reports_of_its_versions_where_they_lie_now(tmp_path):
    place = registry.open(str(tmp_path / "before"), "flights")
    folder = place.version_folder("a" * 64)
    version = Version(key="a" * 64, model=folder, report=f"{folder}/about/report.html")
    assert place.with_present_folder(version) == version
    moved = registry.open(str(tmp_path / "after"), "flights").with_present_folder(version)
    assert moved.report == f"{tmp_path}/after/flights/versions/{'a' * 64}/about/report.html"
    elsewhere = version.model_copy(update={"report": "gs://b/runs/report.html"})
    assert place.with_present_folder(elsewhere).report == "gs://b/runs/report.html"
