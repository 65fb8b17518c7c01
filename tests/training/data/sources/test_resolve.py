from pathlib import Path

import pytest

from training.data.sources.resolve import resolve
from training.errors import UserError


def test_several_files_globs_and_folders_are_taken_once_each(tmp_path: Path):
    for name in ("b.csv", "a.csv", "sub.csv"):
        (tmp_path / name).write_text("a\n1\n")
    (tmp_path / "notes.txt").write_text("no data")
    given_twice = f"{tmp_path}/b.csv, {tmp_path}/[ab].csv,{tmp_path}"
    assert [Path(file.path).name for file in resolve(given_twice)] == ["b.csv", "a.csv", "sub.csv"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", "no input"),
        (" , ", "no input"),
        ("{0}/none-*.csv", "matches no file"),
        ("{0}/x.txt", "not a table that is read here: its name must end in .csv, "),
    ],
)
def test_input_that_is_not_there_is_refused(tmp_path: Path, data: str, says: str):
    (tmp_path / "x.txt").write_text("a\n1\n")
    with pytest.raises(UserError, match=says):
        resolve(data.format(tmp_path))
