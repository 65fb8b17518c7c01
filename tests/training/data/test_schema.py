from pathlib import Path

import pyarrow as pa
import pytest

from training.data import cutting, schema
from training.data.schema import Field
from training.errors import UserError

FIELDS = (Field("n", pa.int32()), Field("when", pa.timestamp("s", tz="UTC")), Field("word", pa.string()))
GOOD = "7,2013-01-01T10:00:00Z,x"


def read(tmp_path: Path, lines: list[str], fields=FIELDS, end: str = "\n") -> pa.Table:
    (tmp_path / "x.csv").write_text("n,when,word\n" + "\n".join(lines) + end)
    chunks, _ = cutting.cut(f"{tmp_path}/x.csv", tmp_path)
    return pa.concat_tables([schema.read(chunk, fields) for chunk in chunks])


def test_declared_columns_come_in_the_declared_order_and_types(tmp_path: Path):
    table = read(
        tmp_path, [GOOD, "NA,2014-05-05T00:00:00Z,"], (Field("word", pa.string(), True), Field("n", pa.int8(), True))
    )
    assert table.to_pydict() == {"word": ["x", ""], "n": [7, None]}
    assert table.schema.types == [pa.string(), pa.int8()]


def test_na_is_a_word_where_words_are_expected(tmp_path: Path):
    assert read(tmp_path, ["7,2013-01-01T10:00:00Z,NA"])["word"].to_pylist() == ["NA"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("seven,2013-01-01T10:00:00Z,x", "column n: 'seven' is not of type int32"),
        ("99999999999,2013-01-01T10:00:00Z,x", "column n: '99999999999' is not of type int32"),
        ("7,yesterday,x", "column when: 'yesterday' is not of type timestamp"),
        ("7,2013-01-01T10:00:00,x", "column when: .*expected a zone offset in '2013-01-01T10:00:00'"),
        ("NA,2013-01-01T10:00:00Z,x", "column n is empty"),
        ("7,2013-01-01T10:00:00Z,", "column word is empty"),
        ("7,2013-01-01T10:00:00Z", "has 2 fields where the header has 3"),
        ("7,2013-01-01T10:00:00Z,x,y", "has 4 fields where the header has 3"),
    ],
)
@pytest.mark.parametrize(
    ("before", "line"),
    [([], 2), ([GOOD] * 3, 5), ([GOOD, '7,2013-01-01T10:00:00Z,"two\nlines"', "", GOOD], 7)],
    ids=["first", "fourth", "after a quoted line break and an empty line"],
)
@pytest.mark.parametrize("chunk_bytes", [40, 4000], ids=["several chunks", "one chunk"])
def test_a_wrong_value_is_named_with_file_line_and_column(tmp_path, monkeypatch, bad, says, before, line, chunk_bytes):
    monkeypatch.setattr(cutting, "CHUNK_BYTES", chunk_bytes)
    with pytest.raises(UserError, match=says) as refusal:
        read(tmp_path, [*before, bad, GOOD])
    assert f"x.csv, line {line}" in str(refusal.value)


def test_a_file_that_was_cut_off_is_told_from_one_bad_row(tmp_path: Path):
    with pytest.raises(UserError, match=r"line 3 has 2 fields.*cut off there"):
        read(tmp_path, [GOOD, "7,2013-01-0"], end="")
    with pytest.raises(UserError, match=r"line 3 has 2 fields") as refusal:
        read(tmp_path, [GOOD, "7,2013-01-0", GOOD])
    assert "cut off" not in str(refusal.value)


def test_a_missing_column_is_named_with_the_one_that_was_meant():
    with pytest.raises(
        UserError, match=r"f.csv lacks the column word; it has n, when, Word. Is 'Word' meant to be 'word'"
    ):
        schema.check_header("f.csv", ["n", "when", "Word"], FIELDS)
    schema.check_header("f.csv", ["more", "word", "n", "when"], FIELDS)
