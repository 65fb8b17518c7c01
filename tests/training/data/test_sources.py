import csv
import gzip
import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from training.data import cutting
from training.errors import UserError

CELLS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=8), min_size=2, max_size=2)


def text_of(rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(CELLS, min_size=1, max_size=30), chunk_bytes=st.integers(1, 60))
def test_pieces_of_any_size_hold_whole_records_and_know_their_lines(rows, chunk_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "CHUNK_BYTES", max(chunk_bytes, 10))
    text = text_of(rows)
    (tmp_path / "x.csv").write_bytes(b"a,b\n" + text.encode())
    chunks, _ = cutting.cut(str(tmp_path / "x.csv"), tmp_path)
    found = [row for chunk in chunks for row in csv.reader(io.StringIO(chunk.read().decode(), newline=""))]
    assert found == rows
    line = 2
    for number, chunk in enumerate(chunks):
        assert (chunk.number, chunk.first_line) == (number, line)
        assert chunk.columns == ("a", "b")
        line += chunk.read().count(b"\n")


def test_compressed_files_are_read_like_plain_ones(tmp_path: Path):
    text = b"a,b\n" + b"".join(b"%d,x\n" % i for i in range(1000))
    (tmp_path / "x.csv").write_bytes(text)
    (tmp_path / "y.csv.gz").write_bytes(gzip.compress(text))
    with zipfile.ZipFile(tmp_path / "z.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("z.csv", text)
        archive.writestr("__MACOSX/._z.csv", "junk")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    chunks, files = cutting.cut(str(tmp_path), scratch)
    assert [Path(file.path).name for file in files] == ["x.csv", "y.csv.gz", "z.csv.zip"]
    assert [chunk.read() for chunk in chunks] == [text[4:]] * 3
    zipped = (tmp_path / "z.csv.zip").read_bytes()
    assert (files[2].bytes, files[2].sha256) == (len(zipped), hashlib.sha256(zipped).hexdigest())


def test_several_files_globs_and_folders_are_taken_once_each(tmp_path: Path):
    for name in ("b.csv", "a.csv", "sub.csv"):
        (tmp_path / name).write_text("a\n1\n")
    (tmp_path / "notes.txt").write_text("no data")
    given_twice = f"{tmp_path}/b.csv, {tmp_path}/[ab].csv,{tmp_path}"
    assert [Path(file.path).name for file in cutting.resolve(given_twice)] == ["b.csv", "a.csv", "sub.csv"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty: the first line must name the columns"),
        (b"a,b\n", "has no rows"),
        (b"a,b,a\n1,2,3\n", "the column a occurs twice"),
        (b"\xff\xfe\n", "is not UTF-8"),
        (b'a,b\n1,"open\n2,3\n', "ends inside a quoted field"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes, says: str):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(UserError, match=says) as refusal:
        cutting.cut(f"{tmp_path}/x.csv", tmp_path)
    assert "x.csv" in str(refusal.value)


@pytest.mark.parametrize("name", ["x.csv.gz", "x.csv.zip"])
@pytest.mark.parametrize("damage", ["cut off", "flipped", "not packed at all"])
def test_a_damaged_archive_is_named(tmp_path: Path, name: str, damage: str):
    text = b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(5000))
    packed = gzip.compress(text)
    if name.endswith("zip"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.csv", text)
        packed = buffer.getvalue()
    flipped = bytearray(packed)
    flipped[len(flipped) // 2] ^= 0xFF
    damaged = {"cut off": packed[: len(packed) // 2], "flipped": bytes(flipped), "not packed at all": text}[damage]
    (tmp_path / name).write_bytes(damaged)
    with pytest.raises(UserError, match=f"{name} is damaged or cut off"):
        cutting.cut(f"{tmp_path}/{name}", tmp_path)


def test_an_archive_of_two_tables_is_refused_with_their_names(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "x.csv.zip", "w") as archive:
        archive.writestr("one.csv", "a\n1\n")
        archive.writestr("two.csv", "a\n1\n")
    with pytest.raises(UserError, match=r"exactly one .csv file; it holds one.csv, two.csv"):
        cutting.cut(f"{tmp_path}/x.csv.zip", tmp_path)


@pytest.mark.parametrize(
    ("data", "says"),
    [("", "no input"), (" , ", "no input"), ("{0}/none-*.csv", "matches no file"), ("{0}/x.txt", "not a CSV file")],
)
def test_input_that_is_not_there_is_refused(tmp_path: Path, data: str, says: str):
    (tmp_path / "x.txt").write_text("a\n1\n")
    with pytest.raises(UserError, match=says):
        cutting.cut(data.format(tmp_path), tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path):
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n")
    chunks, _ = cutting.cut(f"{tmp_path}/x.csv", tmp_path)
    assert chunks[0].columns == ("a", "b")


def test_a_file_that_is_written_to_while_it_is_read_is_an_error_with_its_name(tmp_path: Path):
    """Its checksum would be of other rows than the dataset's."""
    (tmp_path / "x.csv").write_bytes(b"a,b\n1,2\n")
    chunks, _ = cutting.cut(f"{tmp_path}/x.csv", tmp_path)
    with open(tmp_path / "x.csv", "ab") as file:
        file.write(b"3,4\n")
    with pytest.raises(UserError, match="x.csv changed while it was read: give a copy that nobody writes to"):
        chunks[0].read()


def test_a_header_and_blank_lines_of_any_size_are_no_rows(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(cutting, "CHUNK_BYTES", 10)
    (tmp_path / "x.csv").write_bytes(b"a,b\n" + b"\r\n" * 100)
    with pytest.raises(UserError, match="has no rows"):
        cutting.cut(f"{tmp_path}/x.csv", tmp_path)
    (tmp_path / "y.csv").write_bytes(b"a,b\n" + b"\n" * 100 + b"1,2\n")
    chunks, _ = cutting.cut(f"{tmp_path}/x.csv,{tmp_path}/y.csv", tmp_path)
    assert chunks[0].first_line == 102 and chunks[0].read().strip() == b"1,2"
