"""Objects on a real storage server of this machine, fetched past a proxy that alters, replaces and loses bytes."""

import gzip
import sys
import urllib.request
from types import SimpleNamespace

import pytest

from vgp.base.exits import ProcessFailed, UserError
from vgp.base.storage import client, download, inflate, storage
from vgp.data import bundle
from vgp.protocol import manifest as manifests
from vgp.steps import calls as steps

CONTENT = b"".join(b"%d,%d\n" % (i, i * i) for i in range(3000))


@pytest.fixture(autouse=True)
def chunked(monkeypatch):
    monkeypatch.setattr(download, "CHUNK_BYTES", 10_000)


@pytest.fixture
def stored(bucket, proxy):
    storage.overwrite(f"{bucket}/raw/a.csv", CONTENT)
    return f"{bucket}/raw/a.csv"


def test_an_object_of_several_chunks_arrives_whole(stored, proxy, tmp_path):
    download.copy(stored, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert sum("alt=media" in path for _, path, _ in proxy.seen) == -(-len(CONTENT) // 10_000)


def test_an_empty_object_is_an_empty_file(bucket, proxy, tmp_path):
    storage.overwrite(f"{bucket}/raw/empty.csv", b"")
    download.copy(f"{bucket}/raw/empty.csv", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b""


@pytest.mark.parametrize("chunk", [0, 1, -1])
def test_a_byte_that_is_altered_on_the_way_is_fetched_again_with_a_warning(stored, proxy, tmp_path, capfd, chunk):
    chunks = -(-len(CONTENT) // 10_000)
    for _ in range(chunk % chunks):
        proxy.fail("none", path="alt=media")
    proxy.fail("flip", path="alt=media")
    download.copy(stored, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT and proxy.hit() == chunk % chunks + 1
    assert capfd.readouterr().err == f"warning: {stored} arrived damaged (wrong checksum); downloading again\n"


def test_bytes_that_stay_altered_are_refused_by_name_with_both_checksums(stored, proxy, tmp_path):
    proxy.fail("flip", float("inf"), path="alt=media")
    with pytest.raises(
        ProcessFailed, match=rf"{stored} arrived damaged, twice: .* [0-9a-f]{{8}}, the server's [0-9a-f]"
    ):
        download.copy(stored, tmp_path / "a")


def test_a_connection_that_breaks_in_the_middle_of_an_answer_is_made_again(stored, proxy, tmp_path):
    proxy.fail("cut", path="alt=media")
    download.copy(stored, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT and proxy.hit() == 1


def test_an_object_that_is_replaced_while_it_is_read_is_an_error_with_its_name(stored, proxy, tmp_path, monkeypatch):
    upstream, take = proxy.upstream, proxy.take
    asked = []

    def replaces(method, path):
        if "alt=media" in path:
            asked.append(path)
            if len(asked) == 2:
                put(upstream, stored, CONTENT.replace(b"1", b"2"))
        return take(method, path)

    monkeypatch.setattr(proxy, "take", replaces)
    with pytest.raises(UserError, match=f"{stored} was replaced or deleted while it was read"):
        download.copy(stored, tmp_path / "a")


def put(server, path, data):
    """Writes an object past the proxy."""
    bucket, name = storage.split(path)
    url = f"{server}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}"
    urllib.request.urlopen(urllib.request.Request(url, data, method="POST")).close()


def test_what_is_stored_compressed_is_checked_as_it_lies_and_then_unpacked(bucket, proxy, tmp_path, monkeypatch):
    for name in ("x.csv", "x.csv.gz"):
        blob = client.bucket("runs").blob(f"raw/{name}")
        blob.content_encoding = "gzip"
        blob.upload_from_string(gzip.compress(CONTENT))
        download.copy(f"{bucket}/raw/{name}", tmp_path / name)
    assert (tmp_path / "x.csv").read_bytes() == CONTENT
    assert gzip.decompress((tmp_path / "x.csv.gz").read_bytes()) == CONTENT
    monkeypatch.setattr(inflate, "MAX_BYTES", 1000)
    monkeypatch.setattr(inflate, "MAX_RATIO", 1)
    with pytest.raises(UserError, match="x.csv inflates to more than"):
        download.copy(f"{bucket}/raw/x.csv", tmp_path / "y")


def test_an_object_that_is_too_large_or_does_not_fit_the_disk_is_not_fetched(stored, proxy, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=f"{stored} is larger than 0 MiB"):
        download.copy(stored, tmp_path / "a", most=100)
    monkeypatch.setattr(inflate, "RESERVE_BYTES", 1 << 60)
    download.copy(stored, tmp_path / "small files may use the last of the disk")
    monkeypatch.setattr(inflate.shutil, "disk_usage", lambda _: SimpleNamespace(free=5000))
    monkeypatch.setattr(inflate, "RESERVE_BYTES", 100)
    with pytest.raises(UserError, match=f"{stored} does not fit into {tmp_path}"):
        download.copy(stored, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_an_object_that_is_not_there_is_an_error(bucket, proxy, tmp_path):
    for name in ("runs/raw/none.csv", "nowhere/raw/none.csv"):
        with pytest.raises(UserError, match=f"gs://{name} does not exist"):
            download.copy(f"gs://{name}", tmp_path / "a")


def test_one_altered_digit_changes_nothing_of_a_dataset(bucket, proxy, tmp_path, capfd, monkeypatch):
    """It was accepted: another digit in one number of a million, and exit code 0."""
    monkeypatch.setattr(download, "CHUNK_BYTES", 32 << 20)
    rows = [f"{i},{'true' if i % 3 else 'false'},{i * 7 % 13}" for i in range(500)]
    table = "\n".join(["id,yes,size", *rows]).encode()  # ends with a digit
    storage.overwrite(f"{bucket}/rows/a.csv", table)
    (tmp_path / "altered_task.py").write_text(TASK)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []
    for times in (0, 1):
        proxy.fail("flip", times, path="alt=media")
        steps.prepare(f"{bucket}/rows/*.csv", tmp_path / f"{times}", task="altered_task:Mine")
        made.append(manifests.load(tmp_path / f"{times}"))
    assert proxy.hit() == 1 and made[0] == made[1]
    proxy.fail("flip", float("inf"), path="alt=media")
    capfd.readouterr()
    with pytest.raises(SystemExit) as stop:
        steps.prepare(f"{bucket}/rows/*.csv", tmp_path / "damaged", task="altered_task:Mine")
    assert stop.value.code == 1 and not (tmp_path / "damaged").exists()
    *_, last = capfd.readouterr().err.splitlines()
    assert last.startswith(f"failed: {bucket}/rows/a.csv arrived damaged, twice")


TASK = """
import pyarrow as pa
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask


class Mine(TabularTask):
    schema = (Field("id", pa.int64()), Field("size", pa.int64()), Field("yes", pa.bool_(), known="after"))
    key = ("id",)
    target = "yes"
"""


@pytest.mark.parametrize("name", [bundle.CARD, bundle.WEIGHTS])
def test_a_champion_with_a_flipped_byte_is_fetched_again_and_then_refused_in_one_sentence(
    digits, bucket, proxy, tmp_path, monkeypatch, name
):
    from digits import Digits

    monkeypatch.setattr(download, "CHUNK_BYTES", 32 << 20)
    data = manifests.load(digits)
    card = bundle.ModelCard(task="digits:Digits", columns=data.columns, config={}, steps=1, parameters=1)
    bundle.save(tmp_path / "model", Digits().model(data), card)
    for path in (tmp_path / "model").iterdir():
        storage.overwrite(f"{bucket}/champion/{path.name}", path.read_bytes())
    assert "digits" in sys.modules
    proxy.fail("flip", 1, path=f"{name}?alt=media")
    assert bundle.load(f"{bucket}/champion")[2] == card and proxy.hit() == 1
    proxy.fail("flip", float("inf"), path=f"{name}?alt=media")
    with pytest.raises(ProcessFailed, match=f"champion/{name} arrived damaged, twice"):
        bundle.load(f"{bucket}/champion")
