from pathlib import Path

import pytest

from vgp.base.exits import UserError
from vgp.data.sources.resolve import resolve


def test_several_files_globs_and_folders_are_taken_once_each(tmp_path: Path):
    for name in ("b.csv", "a.csv", "sub.jsonl", "SHOUTED.CSV", "._b.csv"):
        (tmp_path / name).write_text("a\n1\n")
    (tmp_path / "notes.txt").write_text("no data")
    twice = f"{tmp_path}/b.csv, {tmp_path}/[ab].csv,{tmp_path}"
    assert [Path(file.path).name for file in resolve(twice)] == ["b.csv", "a.csv", "SHOUTED.CSV", "sub.jsonl"]


def test_a_file_that_has_several_names_is_taken_once(tmp_path: Path):
    """The first of them is its name; without a key nothing else would tell that its rows came twice."""
    place = tmp_path / "a.csv"
    place.write_text("a\n1\n")
    (tmp_path / "link.csv").symlink_to(place)
    (tmp_path / "hard.csv").hardlink_to(place)
    ways = ("link.csv", "a.csv", f"../{tmp_path.name}/a.csv", "/a.csv", "*.csv")
    assert [file.path for file in resolve(",".join(f"{tmp_path}/{way}" for way in ways))] == [f"{tmp_path}/link.csv"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", "no input"),
        (" , ", "no input"),
        ("{0}/none-*.csv", "matches no file"),
        ("https://example.com/x.csv", "nothing is downloaded from the web.* Copy it to a bucket once"),
        ("{0}/twice/a.csv,s3://bucket/x.csv", "of buckets those of Google Cloud are read"),
        ("{0}/x.txt", "x.txt is not a table that is read here: its name must end in .csv, .* call it .csv or .tsv"),
        ("{0}/x.json", "x.json is not a table .* one object on each line, call it .jsonl"),
        ("{0}/*", "is not a table"),
        ("{0}/twice", "twice/a.csv and .*/twice/a.csv.gz seem to be the same table: name one of them"),
    ],
)
def test_input_that_is_not_there_or_no_table_is_refused(tmp_path: Path, data: str, says: str):
    (tmp_path / "twice").mkdir()
    for name in ("x.txt", "x.json", "twice/a.csv", "twice/a.csv.gz"):
        (tmp_path / name).write_text("a\n1\n")
    with pytest.raises(UserError, match=says):
        resolve(data.format(tmp_path))


def test_both_of_two_files_that_are_named_are_taken(tmp_path: Path):
    for name in ("a.csv", "a.jsonl"):
        (tmp_path / name).write_text("a\n1\n")
    assert len(resolve(f"{tmp_path}/a.csv,{tmp_path}/a.jsonl")) == 2
