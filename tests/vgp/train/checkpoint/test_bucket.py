"""Checkpoints on a real storage server of this machine, with a proxy in between that breaks things."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import google_crc32c
import pytest
import torch

from vgp.base.exits import StoreDown, UserError
from vgp.base.storage.objects import Folder
from vgp.base.storage.storage import uri
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_store import BucketStore, DiskStore, store_at

# The client leaves broken connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

BIG = os.urandom(9 << 20)  # above 8 MiB the client uploads in several requests


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setattr(Folder, "first_pause_s", 0.1)


@pytest.fixture
def store(bucket, request):
    return BucketStore(f"{bucket}/{request.node.name}", deadline_s=60, stall_s=10)


@pytest.fixture
def chunked(monkeypatch):
    """Several requests for one upload, without several times 32 MiB."""
    monkeypatch.setattr(Folder, "upload_chunk", 1 << 20)


def views(data, size=1 << 20):
    return [memoryview(data)[start : start + size] for start in range(0, len(data), size)]


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def newest_part(store, number=0):
    return [name for name in store.names() if "step000000002-" in name][number]


def put(store, name, data):
    """Changes an object behind the store's back."""
    store.delete(name)
    store.write(name, [memoryview(data)])


# ---- objects


def test_what_was_written_is_read_and_listed(store):
    store.write("a", views(b"some bytes", 3))
    store.write("empty", [])
    assert store.read("a") == b"some bytes"
    assert store.read("empty") == b""
    assert store.names() == ["a", "empty"]
    store.delete("a")
    store.delete("a")
    assert store.names() == ["empty"]
    with pytest.raises(FileNotFoundError):
        store.read("a")


def test_other_folders_of_the_bucket_are_not_listed(bucket, store):
    for place in (f"{store}-longer", f"{store}/inside"):
        BucketStore(place).write("x", [memoryview(b"x")])
    store.write("own", [memoryview(b"x")])
    assert store.names() == ["own"]


@pytest.mark.parametrize("data", [b"small", BIG], ids=["one request", "several requests"])
def test_an_object_is_never_overwritten(store, data):
    assert store.commit("x", data[:1000])
    assert not store.commit("x", b"other")
    with pytest.raises(FileExistsError):
        store.write("x", [memoryview(b"more")])
    assert store.read("x") == data[:1000]


def test_of_eight_at_once_one_commits(store):
    won = []
    threads = [
        threading.Thread(target=lambda n=n: won.append(store.commit("step", b"attempt %d" % n))) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 7 + [True]


def test_a_folder_chooses_its_store(tmp_path):
    assert isinstance(store_at(tmp_path), DiskStore)
    assert str(store_at("gs://b/run/")) == str(store_at("/gcs/b/run")) == "gs://b/run"
    assert isinstance(store_at("/gcs/b/run"), BucketStore)
    assert uri("/gcsx/b") == "/gcsx/b" and uri("runs/gs") == "runs/gs"


def test_a_bucket_that_is_not_there_is_the_users_to_fix(bucket):
    with pytest.raises(UserError, match="gs://elsewhere/run does not exist"):
        Folder("gs://elsewhere/run", deadline_s=1).require_writable()
    Folder(f"{bucket}/run").require_writable()
    assert BucketStore(f"{bucket}/run").names() == []


# ---- faults


@pytest.mark.parametrize("kind", [503, 429, 408, 500, "reset", "stall"])
def test_what_passes_is_tried_again(store, proxy, kind):
    store.folder.stall_s = 0.5 if kind == "stall" else 10
    proxy.fail(kind, 2, method="POST")
    store.write("a", [memoryview(b"abc")])
    proxy.fail(kind, 1, method="GET")
    assert store.read("a") == b"abc"
    proxy.fail(kind, 1, method="GET")
    assert store.names() == ["a"]
    proxy.fail(kind, 1, method="DELETE")
    store.delete("a")
    assert proxy.hit() == 5 and store.names() == []


@pytest.mark.parametrize("kind", [503, "reset", "stall"])
def test_a_large_upload_survives_faults_in_its_middle(store, proxy, chunked, kind):
    store.folder.stall_s = 0.5 if kind == "stall" else 10
    proxy.fail(kind, 1, method="PUT")
    store.write("big", views(BIG))
    sent = [method for method, _, _ in proxy.seen]
    assert sent.count("POST") == 1  # not from its first byte
    assert store.read("big") == BIG


def test_a_commit_whose_answer_is_lost_is_ours(store, proxy):
    """The second try meets the object that the first one made."""
    proxy.fail("lost", 1, method="POST")
    assert store.commit("step", b"mine")
    assert proxy.hit() == 1
    assert store.read("step") == b"mine"


def test_a_trial_whose_deletion_is_answered_into_the_void_has_been_written_all_the_same(store, proxy):
    """The second try of the deletion finds nothing: the bucket is there, and may be written."""
    proxy.fail("lost", 1, method="DELETE")
    Folder(str(store)).require_writable()
    assert proxy.hit() == 1 and store.names() == []


def test_a_commit_whose_answer_is_lost_after_another_won_is_theirs(store, proxy):
    BucketStore(str(store)).commit("step", b"them")
    proxy.fail("lost", 1, method="POST")
    assert not store.commit("step", b"mine")
    assert store.read("step") == b"them"


def test_a_large_upload_whose_answers_are_lost_arrives(store, proxy, chunked):
    proxy.fail("lost", 1, method="PUT")
    store.write("big", views(BIG))
    assert store.read("big") == BIG


@pytest.mark.parametrize("kind", ["cut", "flip"])
def test_a_download_that_arrives_damaged_is_made_again(store, proxy, kind):
    store.write("a", [memoryview(BIG)])
    proxy.fail(kind, 1, method="GET", path="alt=media")
    assert store.read("a") == BIG
    assert proxy.hit() == 1


def test_a_download_that_stays_damaged_is_an_error_of_the_object(store, proxy):
    store.write("a", [memoryview(BIG)])
    proxy.fail("flip", 2, method="GET", path="alt=media")
    with pytest.raises(OSError, match="checksum") as caught:
        store.read("a")
    assert not isinstance(caught.value, ConnectionError)


def test_a_store_that_is_down_is_given_up_after_the_deadline(bucket, proxy):
    store = BucketStore(f"{bucket}/down", deadline_s=0.5, stall_s=1)
    proxy.fail(503, float("inf"))
    for call in (lambda: store.commit("a", b"x"), lambda: store.read("a"), store.names, lambda: store.delete("a")):
        with pytest.raises(ConnectionError, match="503"):
            call()


# ---- checkpoints


def test_what_was_saved_comes_back_bit_for_bit(make, store):
    subject = make("", store=store)
    subject.train()
    saved = subject.tensors()
    subject.save(4)
    subject.train()
    step, loaded = subject.load()
    assert step == 4 and equal(loaded, saved)


def test_the_servers_checksum_is_of_the_bytes_that_it_received(store):
    """Sent without one, by another client: so it cannot be an echo of ours."""
    host, (name, folder) = os.environ["STORAGE_EMULATOR_HOST"], (store.folder.bucket, store.folder.prefix)
    address = f"{host}/upload/storage/v1/b/{name}/o?uploadType=media&name={quote(folder + 'plain', safe='')}"
    urlopen(Request(address, data=b"other bytes", method="POST")).close()
    assert store.checksum("plain") == google_crc32c.value(b"other bytes")
    assert store.size("plain") == 11


def test_what_was_saved_is_compared_with_the_servers_checksums_and_not_downloaded_again(make, bucket, proxy):
    store = BucketStore(f"{bucket}/read-back", deadline_s=20, stall_s=5)
    subject = make("", store=store)
    subject.train()
    subject.save(1)
    assert subject.writers[0].durable_step == 1
    downloads = [path for method, path, _ in proxy.seen if method == "GET" and "alt=media" in path]
    assert len(downloads) == 1 and ".json" in downloads[0]


def test_a_part_that_the_server_holds_otherwise_is_not_called_durable(make, store, capfd):
    """The bytes change between the upload and the commit."""
    subject = make("", store=store)
    write = store.write

    def altered(name, chunks):
        chunks = list(chunks)
        write(name, [*chunks[:-1], memoryview(bytes(chunks[-1])[:-1] + b"?")])

    store.write = altered
    subject.train()
    subject.save(1)
    assert subject.writers[0].durable_step is None
    assert "fails its checksum" in capfd.readouterr().err


def test_the_newest_three_stay(make, store):
    subject = make("", store=store)
    for step in range(1, 6):
        subject.train()
        subject.save(step)
    assert recovery.list_manifests(store, 0) == [f"run000-step{step:09d}.json" for step in (5, 4, 3)]
    assert len(store.names()) == 3 * 4


def test_of_two_attempts_at_a_step_one_wins_and_the_other_goes_on(make, store):
    first, second = make("", store=store), make("", store=store)
    for subject in (first, second):
        subject.train()
        subject.save(1)
    assert len(store.names()) == 1 + 3  # the loser has taken its parts away
    assert equal(second.load()[1], first.tensors())
    second.train()
    second.save(2)
    assert second.load()[0] == 2


def truncated(store):
    name = newest_part(store)
    put(store, name, store.read(name)[:-7])


def flipped(store):
    name = newest_part(store, 1)
    data = bytearray(store.read(name))
    data[len(data) // 2] ^= 4
    put(store, name, data)


def deleted(store):
    store.delete(newest_part(store, 2))


def swapped(store):
    names = [newest_part(store, number) for number in (0, 1)]
    one, other = map(store.read, names)
    put(store, names[0], other)
    put(store, names[1], one)


def manifest_flipped(store):
    data = bytearray(store.read("run000-step000000002.json"))
    data[len(data) // 2] ^= 1
    put(store, "run000-step000000002.json", data)


@pytest.mark.parametrize("harm", [truncated, flipped, deleted, swapped, manifest_flipped])
def test_a_damaged_checkpoint_is_passed_over_with_one_line(make, store, harm):
    subject = make("", store=store)
    for step in (1, 2):
        subject.train()
        subject.save(step)
    harm(store)
    said = []
    assert subject.load(said)[0] == 1
    assert len(said) == 1 and said[0].startswith("checkpoint skipped: run000-step000000002")


def test_a_store_that_is_down_at_the_start_is_no_reason_to_start_anew(make, bucket, proxy):
    store = BucketStore(f"{bucket}/resume", deadline_s=1, stall_s=1)
    subject = make("", store=store)
    subject.save(1)
    proxy.fail(503, float("inf"), path="alt=media")
    with pytest.raises(ConnectionError):
        subject.load()


def test_training_outlives_an_outage_shorter_than_the_patience(make, bucket, proxy, capfd):
    subject = make("", store=BucketStore(f"{bucket}/outage", deadline_s=60, stall_s=10), patience_s=600)
    subject.save(1)
    subject.store.folder.deadline_s = 0.5
    proxy.fail(503, float("inf"))
    subject.save(2)
    proxy.faults.clear()
    subject.store.folder.deadline_s = 60
    subject.train()
    saved = subject.tensors()
    subject.save(3)
    step, loaded = subject.load()
    assert step == 3 and equal(loaded, saved)
    warnings = capfd.readouterr().err.splitlines()
    assert len(warnings) == 1
    assert warnings[0].startswith("warning: checkpoint of step 2 was not saved: ") and "503" in warnings[0]


def test_training_fails_when_the_patience_has_ended(make, bucket, proxy):
    subject = make("", store=BucketStore(f"{bucket}/patience", deadline_s=0.3, stall_s=1), patience_s=1)
    proxy.fail("reset", float("inf"))
    subject.save(1)
    time.sleep(1)
    with pytest.raises(StoreDown, match=r"gs://runs/patience|step000000002"):
        subject.save(2)


def test_a_kill_at_any_moment_of_saving_leaves_the_newest_readable():
    """A drill has more kills."""
    kills = os.environ.get("TRAINING_TEST_KILLS", "4")
    command = [sys.executable, "-m", "benchmarks.kills", "--store", "bucket", "--kills", kills, "--megabytes", "1"]
    done = subprocess.run(command, cwd=Path(__file__).parents[4], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    assert f"{kills} kills" in done.stdout
