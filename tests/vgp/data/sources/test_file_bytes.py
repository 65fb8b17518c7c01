"""Objects of a bucket, here while they are read: a few at a time, in order, and gone afterwards."""

import gzip
import os

import pyarrow as pa
import pytest

from vgp.base.exits import UserError
from vgp.base.storage import download, storage
from vgp.base.storage.finding import File
from vgp.data.schema import Field
from vgp.data.sources import file_bytes
from vgp.data.sources.data_files import Reading, resolve
from vgp.data.sources.table_files import Files

FIELDS = (Field("a", pa.int64()), Field("b", pa.string()))
NAMES = [f"{i:02}.csv{'.gz' * (i % 2)}" for i in range(12)]


@pytest.fixture(scope="module")
def folder(bucket):
    for i, name in enumerate(NAMES):
        text = f"a,b\n{i},x\n{i},y\n".encode()
        storage.overwrite(f"{bucket}/staged/{name}", gzip.compress(text) if name.endswith("gz") else text)
    return f"{bucket}/staged"


def files_of(data: str, scratch) -> Files:
    scratch.mkdir(exist_ok=True)
    return Files(resolve(data), FIELDS, Reading(), scratch, threads=2)


def test_objects_are_read_in_order_a_few_lie_here_at_a_time_and_none_afterwards(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(file_bytes, "BLOCK_BYTES", 1)  # no two are read together
    lying: list[int] = []
    copy = download.copy
    monkeypatch.setattr(download, "copy", lambda path, to: (copy(path, to), lying.append(len(os.listdir(to.parent)))))
    files = files_of(folder, tmp_path / "scratch")
    rows = pa.Table.from_batches(files.batches())
    assert rows["a"].to_pylist() == [i for i in range(12) for _ in "xy"]
    assert [source.path for source in files.sources] == [f"{folder}/{name}" for name in NAMES]
    assert len(lying) == 12 and max(lying) <= file_bytes.AHEAD
    assert files.place(7, 1) == f"{folder}/{NAMES[7]}, line 3"
    assert os.listdir(tmp_path / "scratch") == []


def test_large_objects_are_not_fetched_ahead_of_their_turn(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(file_bytes, "AHEAD_BYTES", 20)
    fetched: list[str] = []
    copy = download.copy
    monkeypatch.setattr(download, "copy", lambda path, to: (fetched.append(path), copy(path, to)))
    staged = file_bytes.stage_files(resolve(f"{folder}/*.csv"), tmp_path)
    next(staged)
    assert len(fetched) <= 2
    staged.close()
    assert os.listdir(tmp_path) == []


def test_an_error_leaves_nothing_lying(folder, bucket, tmp_path):
    storage.overwrite(f"{bucket}/wrong/a.csv", b"a,b\n1,x\nz,y\n")
    with pytest.raises(UserError, match=f"{bucket}/wrong/a.csv, line 3, column a: 'z' is not of type int64"):
        list(files_of(f"{bucket}/wrong, {folder}", tmp_path / "scratch").batches())
    assert os.listdir(tmp_path / "scratch") == []


def test_a_pinned_object_is_read_in_its_generation_or_not_at_all(bucket, tmp_path):
    path = f"{bucket}/pinned/a.csv"
    storage.overwrite(path, b"a,b\n1,x\n")
    [file] = resolve(path)
    pinned = File(f"{path}#{file.generation}", file.bytes, file.generation)
    storage.overwrite(path, b"a,b\n2,x\n")
    with pytest.raises(UserError, match=rf"{path} was replaced or deleted after it was pinned"):
        list(Files([pinned], FIELDS, Reading(), tmp_path).batches())
