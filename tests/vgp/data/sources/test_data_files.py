from pathlib import Path

import pytest

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.data.sources.data_files import resolve


def test_several_files_globs_and_folders_are_taken_once_each(tmp_path: Path):
    for name in ("b.csv", "a.csv", "sub.jsonl", "SHOUTED.CSV", "._b.csv"):
        (tmp_path / name).write_text("a\n1\n")
    (tmp_path / "notes.txt").write_text("no data")
    twice = f"{tmp_path}/b.csv, {tmp_path}/[ab].csv,{tmp_path}"
    assert [Path(file.path).name for file in resolve(twice)] == ["b.csv", "a.csv", "SHOUTED.CSV", "sub.jsonl"]


def test_a_file_that_has_several_names_is_taken_once(tmp_path: Path):
    """The first of them is its name; without a key nothing else would show that its rows came twice."""
    place = tmp_path / "a.csv"
    place.write_text("a\n1\n")
    (tmp_path / "link.csv").symlink_to(place)
    (tmp_path / "hard.csv").hardlink_to(place)
    ways = ("link.csv", "a.csv", f"../{tmp_path.name}/a.csv", "/a.csv", "*.csv")
    assert [file.path for file in resolve(",".join(f"{tmp_path}/{way}" for way in ways))] == [f"{tmp_path}/link.csv"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "no input"),
        (" , ", "no input"),
        ("{0}/none-*.csv", "matches no file"),
        ("https://example.com/x.csv", "data is not downloaded from the web.* Copy it to a bucket once"),
        ("{0}/twice/a.csv,s3://bucket/x.csv", "only buckets of Google Cloud .gs://. can be read"),
        ("{0}/x.txt", "x.txt is not a table that is read here: its name must end in .csv, .* call it .csv or .tsv"),
        ("{0}/x.json", "x.json is not a table .* one object on each line, call it .jsonl"),
        ("{0}/*", "is not a table"),
        ("{0}/twice", "twice/a.csv and .*/twice/a.csv.gz seem to be the same table: name one of them"),
    ],
)
def test_input_that_is_not_there_or_no_table_is_refused(tmp_path: Path, data: str, message: str):
    (tmp_path / "twice").mkdir()
    for name in ("x.txt", "x.json", "twice/a.csv", "twice/a.csv.gz"):
        (tmp_path / name).write_text("a\n1\n")
    with pytest.raises(UserError, match=message):
        resolve(data.format(tmp_path))


def test_both_of_two_files_that_are_named_are_taken(tmp_path: Path):
    for name in ("a.csv", "a.jsonl"):
        (tmp_path / name).write_text("a\n1\n")
    assert len(resolve(f"{tmp_path}/a.csv,{tmp_path}/a.jsonl")) == 2


# ---- what writers of tables leave beside their files is no data, here and in a bucket; nor is a table without its log

#: As Spark, Hive, Delta, Beam and macOS leave them.
FILES = (
    "spark/_SUCCESS", "spark/_committed_7", "spark/_temporary/0/part-1.parquet", "spark/._SUCCESS.crc",
    "spark/.part-0.parquet.crc", "spark/.hive-staging/x.parquet", "spark/part-0.parquet",
    "spark/_year=2024/_month=2/part-1.parquet", "spark/year=2024/.part-2.parquet", "spark/year=2024/part-2.parquet",
    "failed/_temporary/0/part-0.parquet", "failed/_part-0.csv",
    "delta/_delta_log/0.json", "delta/a.parquet", "delta/_change_data/b.parquet", "delta/day=1/h=2/c.parquet",
    "berg/metadata/v1.metadata.json", "berg/data/day=1/a.parquet", "hudi/.hoodie/hoodie.properties", "hudi/a.parquet",
    "plain/metadata/readme.json", "plain/data/a.parquet", "csv/_delta_log/0.json", "csv/a.csv",
)  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> str:
    root = tmp_path_factory.mktemp("written")
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    return str(root)


@pytest.fixture(scope="module")
def there(bucket) -> str:
    for name in FILES:
        storage.overwrite(f"{bucket}/written/{name}", b"x")
    return f"{bucket}/written"


@pytest.fixture(params=["here", "there"])
def root(request) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ("spark", ["part-0.parquet"]),
        ("spark/*", ["part-0.parquet"]),
        ("spark/**", ["_year=2024/_month=2/part-1.parquet", "part-0.parquet", "year=2024/part-2.parquet"]),
        ("spark/**/*.parquet", ["_year=2024/_month=2/part-1.parquet", "part-0.parquet", "year=2024/part-2.parquet"]),
        ("spark/*/*.parquet", ["year=2024/part-2.parquet"]),
        ("spark/_temporary/0", ["_temporary/0/part-1.parquet"]),
        ("spark/_temporary/*/*.parquet", ["_temporary/0/part-1.parquet"]),
        ("spark/_temporary/0/part-1.parquet", ["_temporary/0/part-1.parquet"]),
        ("spark/_temp*/**/*.parquet", ["_temporary/0/part-1.parquet"]),
        ("spark/year=2024/.part-2.parquet", ["year=2024/.part-2.parquet"]),
        ("failed/_part*.csv", ["../failed/_part-0.csv"]),
        ("plain/data", ["../plain/data/a.parquet"]),
        ("csv", ["../csv/a.csv"]),
        ("delta/a.parquet", ["../delta/a.parquet"]),
    ],
)
def test_hidden_names_are_no_data_unless_they_are_named(root, data, names):
    expected = [f"{root}/spark/{name}".replace("spark/../", "") for name in names]
    assert [storage.plain(file.path) for file in resolve(f"{root}/{data}")] == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("failed", "matches only files such as .*failed/_part-0.csv.* finish the job that writes them"),
        ("failed/**/*.parquet", "matches only files such as .*_temporary/0/part-0.parquet"),
        ("delta", "delta is a table of Delta: .* only _delta_log knows which.*format.'delta'.*write.parquet"),
        ("delta/", "delta is a table of Delta"),
        ("delta/*.parquet", "delta is a table of Delta"),
        ("delta/day=1/h=2", "delta is a table of Delta"),
        ("delta/**/*.parquet", "delta is a table of Delta"),
        ("[bd]*/**/*.parquet", "berg is a table of Iceberg: .* only metadata knows"),
        ("berg/data/**", "berg is a table of Iceberg"),
        ("hudi", "hudi is a table of Hudi: .* only .hoodie knows"),
    ],
)
def test_folders_without_data_and_tables_with_a_log_are_refused_with_the_fix(root, data, message):
    with pytest.raises(UserError, match=message):
        resolve(f"{root}/{data}")
