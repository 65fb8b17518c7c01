import csv
import gzip
import hashlib
import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from vgp.base.exits import UserError
from vgp.data.schema import Field
from vgp.data.sources import file_bytes
from vgp.data.sources.data_files import Reading, resolve
from vgp.data.sources.table_files import Files

CELLS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=8), min_size=2, max_size=2)
WORDS = (Field("a", pa.string(), True), Field("b", pa.string(), True))


def text_of(rows: list[list[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def kept(rows: list[list[str]]) -> list[list[str]]:
    """The rows without those at the end that have no field filled in."""
    return rows[: max((n for n, row in enumerate(rows, 1) if any(row)), default=0)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables=st.lists(st.lists(CELLS, min_size=1, max_size=20), min_size=1, max_size=4), size=st.integers(5, 200))
def test_rows_of_any_text_in_blocks_of_any_size_come_in_order_and_know_their_lines(tables, size, tmp_path, monkeypatch):
    monkeypatch.setattr(file_bytes, "BLOCK_BYTES", size)
    paths = [tmp_path / f"{number}.csv" for number in range(len(tables))]
    for path, rows in zip(paths, tables, strict=True):
        path.write_bytes(b"a,b\n" + text_of(rows))
    files = Files(resolve(",".join(map(str, paths))), WORDS, Reading(), tmp_path, threads=2)
    tables = [kept(rows) for rows in tables]
    assume(tables[-1])
    read = pa.Table.from_batches(files.batches(), files.schema).to_pylist()
    assert [[row["a"], row["b"]] for row in read] == [row for rows in tables for row in rows]
    assert [(row["_file"], row["_record"]) for row in read] == [
        (f, r) for f, t in enumerate(tables) for r in range(len(t))
    ]
    number, record = len(tables) - 1, len(tables[-1]) - 1
    line = 2 + text_of(tables[-1][:-1]).count(b"\n")
    assert files.place(number, record) == f"{paths[-1]}, line {line}"


@pytest.mark.parametrize("end", [b",\n" * 9, b",\r\n" * 9, b",\n\n" * 9 + b",", b"\n,\n"])
@pytest.mark.parametrize("size", [7, 4096])
def test_rows_at_the_end_of_a_sheet_with_no_field_filled_in_are_left_out_and_reported(opened, end, size, monkeypatch):
    monkeypatch.setattr(file_bytes, "BLOCK_BYTES", size)
    files = opened({"x.csv": b"a,b\n1,2\n,\n3,\n" + end, "y.csv": b"a,b\n4,5\n\n"}, WORDS)
    rows = pa.Table.from_batches(files.batches())
    assert list(zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True)) == [
        ("1", "2"), ("", ""), ("3", ""), ("4", "5"),
    ]  # fmt: skip
    assert [note.partition("x.csv")[2] for note in files.notes] == [
        ": rows at its end have no field filled in, and are left out."
    ]


def test_compressed_files_are_read_like_plain_ones(opened, tmp_path: Path):
    text = b"a,b\n" + b"".join(b"%d,x\n" % i for i in range(1000))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("z.csv", text)
        archive.writestr("__MACOSX/._z.csv", "junk")
    packed = pa.compress(text, codec="zstd", asbytes=True)
    contents = {"x.csv": text, "y.csv.gz": gzip.compress(text), "z.csv.zip": buffer.getvalue(), "w.csv.zst": packed}
    files = opened(contents, WORDS)
    rows = pa.Table.from_batches(files.batches())
    assert rows["a"].to_pylist() == [str(i) for i in range(1000)] * 4
    assert [(Path(file.path).name, file.bytes, file.sha256) for file in files.sources] == [
        (name, len(content), hashlib.sha256(content).hexdigest()) for name, content in contents.items()
    ]


def test_a_column_that_only_the_path_of_a_partition_has_is_reported(read):
    with pytest.raises(UserError, match="lacks the column b; .* b is in the partition path only"):
        read({"b=2/x.csv": b"a\n1\n"}, WORDS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: the first line must name the columns"),
        (b"a,b\n", "has no rows"),
        (b"a,b\n\n\r\n\n", "has no rows"),
        (b"a,b,a\n1,2,3\n", "the column a occurs twice"),
        (b'a,b\n1,"open\n2,3\n', "line 2: the file ends inside a quoted field"),
    ],
)
def test_a_file_that_is_no_table_is_refused(read, content: bytes, message: str):
    with pytest.raises(UserError, match=message) as refusal:
        read({"x.csv": content}, WORDS)
    assert "x.csv" in str(refusal.value)


def test_a_file_that_was_packed_with_a_dictionary_is_not_taken_for_a_damaged_one(read):
    frame = b"\x28\xb5\x2f\xfd" + bytes([0b0010_0001, 7, 4])  # of one segment, by dictionary 7, 4 bytes
    with pytest.raises(UserError, match=r"x.csv.zst was packed with an external dictionary: pack it without one\.$"):
        read({"x.csv.zst": frame + (4 << 3 | 1).to_bytes(3, "little") + b"n\n1\n"}, [Field("n", pa.int32())])


@pytest.mark.parametrize("name", ["x.csv.gz", "x.csv.zip", "x.csv.zst"])
@pytest.mark.parametrize("damage", ["cut off", "flipped", "not packed at all"])
def test_a_damaged_archive_is_named(read, name: str, damage: str):
    text = b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(5000))
    packed = gzip.compress(text)
    if name.endswith("zst"):
        packed = pa.compress(text, codec="zstd", asbytes=True)
    if name.endswith("zip"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.csv", text)
        packed = buffer.getvalue()
    flipped = bytearray(packed)
    flipped[4 if name.endswith("zst") else len(flipped) // 2] ^= 0xFF  # what Arrow packs has no checksum
    damaged = {"cut off": packed[: len(packed) // 2], "flipped": bytes(flipped), "not packed at all": text}[damage]
    with pytest.raises(UserError, match=f"{name} is damaged or truncated"):
        read({name: damaged}, WORDS)


def test_an_archive_of_two_tables_is_refused_with_their_names(read):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("one.csv", "a\n1\n")
        archive.writestr("two.csv", "a\n1\n")
    with pytest.raises(UserError, match=r"exactly one .csv file; it holds one.csv, two.csv"):
        read({"x.csv.zip": buffer.getvalue()}, WORDS)


def test_a_file_that_is_written_to_while_it_is_read_is_an_error_with_its_name(opened, tmp_path: Path, monkeypatch):
    """Its checksum would be of other rows than the dataset's."""
    monkeypatch.setattr(file_bytes, "BLOCK_BYTES", 1 << 10)
    files = opened({"x.csv": b"a,b\n" + b"1,2\n" * 100_000}, WORDS, threads=1)
    batches = files.batches()
    next(batches)
    with open(tmp_path / "x.csv", "ab") as file:
        file.write(b"3,4\n")
    with pytest.raises(UserError, match="x.csv changed while it was read"):
        list(batches)
    with pytest.raises(UserError, match="x.csv changed while it was read"):
        next(files.batches())


def test_some_of_the_columns_are_read_and_only_they_are_checked(opened, read):
    content = {"x.csv": b"a,b,c\n1,,x\n2,5,y\n"}
    fields = (Field("a", pa.int64()), Field("b", pa.int64()))
    assert read(content, fields, columns=["a"]).to_pydict() == {"a": [1, 2], "_file": [0, 0], "_record": [0, 1]}
    with pytest.raises(UserError, match="line 2: column b is empty"):
        read(content, fields)


def test_small_files_with_other_columns_in_another_order_are_read_by_their_names(read):
    rows = read({"x.csv": b"a,b\n1,2\n", "y.csv": b"more,b,a\r\n0,4,3\r\n", "z.csv": b"b,a\n6,5"}, WORDS)
    assert rows["a"].to_pylist() == ["1", "3", "5"] and rows["b"].to_pylist() == ["2", "4", "6"]
    assert rows["_file"].to_pylist() == [0, 1, 2] and rows["_record"].to_pylist() == [0, 0, 0]


@pytest.mark.parametrize("bad", [b"a,b\n1,2\n3,\xe9\n", b"a,b\n\n1,2\r\n3\r\n", b'a,b\n"1\n",2\n3\n'])
def test_a_wrong_row_among_many_small_files_is_found_in_its_own(read, bad):
    with pytest.raises(UserError, match=rf"m.csv, line {bad[:-2].count(10) + 1}[ ,]"):
        read({"a.csv": b"a,b\n1,2\n", "m.csv": bad, "z.csv": b"a,b\n1,2\n"}, WORDS)
