import pyarrow as pa
import pytest

from training.data import schema
from training.data.schema import Field
from training.data.sources import opening
from training.data.sources.delimited import WINDOW_BYTES
from training.data.sources.values import TEXT
from training.errors import UserError

from .conftest import FIELDS

GOOD = "7,2013-01-01T10:00:00Z,x"


def table(*lines: str, end: str = "\n") -> dict[str, bytes]:
    return {"x.csv": ("n,when,word\n" + "\n".join(lines) + end).encode()}


def test_declared_columns_come_in_the_declared_order_and_types(read):
    fields = (Field("word", pa.string(), True), Field("n", pa.int8(), True))
    rows = read(table(GOOD, "NA,2014-05-05T00:00:00Z,"), fields)
    assert rows.to_pydict() == {"word": ["x", ""], "n": [7, None], "_file": [0, 0], "_record": [0, 1]}
    assert rows.schema.types == [TEXT, pa.int8(), pa.int32(), pa.int64()]


@pytest.mark.parametrize("empty", [" ", "   ", " NA", "NA ", " NA "])
def test_blanks_where_a_number_is_expected_are_a_missing_one(read, empty):
    fields = (Field("word", pa.string(), True), Field("n", pa.int8(), True))
    assert read(table(f"{empty},2014-05-05T00:00:00Z, "), fields)["n"].to_pylist() == [None]


def test_a_decimal_is_not_rounded_to_its_type(read):
    fields = (Field("word", pa.string()), Field("n", pa.decimal128(5, 2)))
    with pytest.raises(UserError, match="x.csv, line 3, column n: '0.125' has more decimals than its type"):
        read(table("0.12,2014-05-05T00:00:00Z,x", "0.125,2014-05-05T00:00:00Z,x"), fields)


def test_na_is_a_word_where_words_are_expected(read):
    assert read(table("7,2013-01-01T10:00:00Z,NA"))["word"].to_pylist() == ["NA"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("seven,2013-01-01T10:00:00Z,x", "column n: 'seven' is not of type int32"),
        ("99999999999,2013-01-01T10:00:00Z,x", "column n: '99999999999' is not of type int32"),
        ("0x1F,2013-01-01T10:00:00Z,x", "column n: '0x1F' is not of type int32"),
        ("-0X1F,2013-01-01T10:00:00Z,510X", "column n: '-0X1F' is not of type int32"),
        ("7,2013-01-01 10:00,x", "no zone .*, and is to be timestamp.*: declare pa.timestamp\\(.us.\\)"),
        ("7,yesterday,x", "column when: 'yesterday' is not of type timestamp"),
        (
            "7,2013-01-01T10:00:00,x",
            r"column when: '2013-01-01T10:00:00' has no zone \(as Z or \+01:00\), and is to be timesta",
        ),
        ("NA,2013-01-01T10:00:00Z,x", "column n is empty"),
        ("7,2013-01-01T10:00:00Z,", "column word is empty"),
        ("7,2013-01-01T10:00:00Z", "has 2 fields where the header has 3"),
        ("7,2013-01-01T10:00:00Z,x,y", "has 4 fields where the header has 3"),
        ("7,2013-01-01T10:00:00Z,x\0", "holds a NUL byte"),
        ("n,when,word", "repeats the header"),
    ],
)
@pytest.mark.parametrize(
    ("before", "line"),
    [([], 2), ([GOOD] * 3, 5), ([GOOD, '7,2013-01-01T10:00:00Z,"two\nlines"', "", GOOD], 7)],
    ids=["first", "fourth", "after a quoted line break and an empty line"],
)
@pytest.mark.parametrize("block_bytes", [40, 4000], ids=["several blocks", "one block"])
def test_a_wrong_value_is_named_with_file_line_and_column(read, monkeypatch, bad, says, before, line, block_bytes):
    monkeypatch.setattr(opening, "BLOCK_BYTES", block_bytes)
    with pytest.raises(UserError, match=says) as refusal:
        read(table(*before, bad, GOOD))
    assert f"x.csv, line {line}" in str(refusal.value)


def test_a_file_that_was_cut_off_is_told_from_one_bad_row(read):
    with pytest.raises(UserError, match=r"line 3 has 2 fields.*cut off there"):
        read(table(GOOD, "7,2013-01-0", end=""))
    with pytest.raises(UserError, match=r"line 3 has 2 fields") as refusal:
        read(table(GOOD, "7,2013-01-0", GOOD))
    assert "cut off" not in str(refusal.value)


def test_a_missing_column_is_named_with_the_one_that_was_meant():
    with pytest.raises(
        UserError, match=r"f.csv lacks the column word; it has n, when, Word. Is 'Word' meant to be 'word'"
    ):
        schema.check_header("f.csv", ["n", "when", "Word"], FIELDS)
    schema.check_header("f.csv", ["more", "word", "n", "when"], FIELDS)


def test_a_hexadecimal_number_is_found_wherever_a_window_of_the_search_ends(read):
    fields = [Field("n", pa.int32()), Field("word", pa.string())]
    for length in range(WINDOW_BYTES - 6, WINDOW_BYTES + 2):  # behind the header the x stands 4 further
        content = {"x.csv": b"n,word\n1," + b"y" * length + b"\n0x1F,x\n"}
        with pytest.raises(UserError, match="line 3, column n: '0x1F' is not of type int32"):
            read(content, fields)
