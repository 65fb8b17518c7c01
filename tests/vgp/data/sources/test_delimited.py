import pyarrow as pa
import pytest

from vgp.base.exits import UserError
from vgp.data import schema
from vgp.data.schema import Field
from vgp.data.sources import file_bytes
from vgp.data.sources.delimited import WINDOW_BYTES
from vgp.data.sources.values import TEXT

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
    ("bad", "message"),
    [
        ("seven,2013-01-01T10:00:00Z,x", "column n: 'seven' is not of type int32"),
        ("99999999999,2013-01-01T10:00:00Z,x", "column n: '99999999999' is not of type int32"),
        ("0x1F,2013-01-01T10:00:00Z,x", "column n: '0x1F' is not of type int32"),
        ("-0X1F,2013-01-01T10:00:00Z,510X", "column n: '-0X1F' is not of type int32"),
        (
            "7,2013-01-01 10:00,x",
            "no zone .*, but the column is declared as timestamp.*: declare pa.timestamp\\(.us.\\)",
        ),
        ("7,yesterday,x", r"column when: 'yesterday' is not of type timestamp.* written as 2024-02-29T10:00:00Z; to"),
        (
            "7,2013-01-01T10:00:00,x",
            r"column when: '2013-01-01T10:00:00' has no zone \(as Z or \+01:00\), but .*us.\)\.$",
        ),
        ("NA,2013-01-01T10:00:00Z,x", "column n is empty"),
        ("7,2013-01-01T10:00:00Z,", "column word is empty"),
        ("7,2013-01-01T10:00:00Z", "has 2 fields where the header has 3"),
        ("7,2013-01-01T10:00:00Z,x,y", "has 4 fields where the header has 3"),
        ("7,2013-01-01T10:00:00Z,x\0", "has a NUL byte"),
        ("n,when,word", "repeats the header"),
    ],
)
@pytest.mark.parametrize(
    ("before", "line"),
    [([], 2), ([GOOD] * 3, 5), ([GOOD, '7,2013-01-01T10:00:00Z,"two\nlines"', "", GOOD], 7)],
    ids=["first", "fourth", "after a quoted line break and an empty line"],
)
@pytest.mark.parametrize("block_bytes", [40, 4000], ids=["several blocks", "one block"])
def test_a_wrong_value_is_named_with_file_line_and_column(read, monkeypatch, bad, message, before, line, block_bytes):
    monkeypatch.setattr(file_bytes, "BLOCK_BYTES", block_bytes)
    with pytest.raises(UserError, match=message) as refusal:
        read(table(*before, bad, GOOD))
    assert f"x.csv, line {line}" in str(refusal.value)


def test_a_file_that_was_cut_off_is_distinguished_from_one_bad_row(read):
    with pytest.raises(UserError, match=r"line 3 has 2 fields.*cut off there"):
        read(table(GOOD, "7,2013-01-0", end=""))
    with pytest.raises(UserError, match=r"line 3 has 2 fields") as refusal:
        read(table(GOOD, "7,2013-01-0", GOOD))
    assert "cut off" not in str(refusal.value)


def test_a_whole_number_with_a_point_is_refused_with_the_fix(read):
    with pytest.raises(UserError, match=r"'2.0' is not of type int32. Declare pa.float64\(\), or write whole numbers"):
        read({"x.csv": b"n\n2.0\n"}, [Field("n", pa.int32())])
    with pytest.raises(UserError, match=r"'2.0' is not of type int32. Change line 7, or name"):
        read({"x.csv": b"n\n2.0\n"}, [Field("n", pa.int32(), declared="line 7")])


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.date32(), ["0001-01-01", "9999-12-31"], "0000-12-31"),
        (pa.timestamp("us"), ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"], "0000-12-31 23:59:59.999999"),
        (pa.timestamp("s", "UTC"), ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"], "0001-01-01T00:00:00+00:01"),
        (pa.timestamp("ms", "UTC"), ["9999-12-31T23:59:59.999Z", ""], "9999-12-31T23:59:59.999-00:01"),
    ],
    ids=str,
)
def test_days_and_moments_are_of_the_years_one_to_9999(read, kind, good, bad):
    """Python and BigQuery know no others."""
    fields = [Field("n", pa.int32()), Field("when", kind, True)]
    assert len(read({"x.csv": f"n,when\n1,{good[0]}\n2,{good[1]}\n".encode()}, fields).to_pylist()) == 2
    with pytest.raises(UserError, match=r"x.csv, line 3, column when: the year is none of 1 to 9999: bound it\."):
        read({"x.csv": f"n,when\n1,{good[0]}\n2,{bad}\n".encode()}, fields)


def test_a_moment_that_is_finer_than_a_microsecond_is_not_cut_off(read):
    """Engines count microseconds: two keys could become one."""
    fields = [Field("n", pa.int32()), Field("when", pa.timestamp("ns", "UTC"), True)]
    rows = read({"x.csv": b"n,when\n1,1969-12-31T23:59:59.999999000Z\n2,\n"}, fields)
    assert rows["when"].cast(pa.int64()).to_pylist() == [-1_000, None]
    with pytest.raises(
        UserError, match=r"x.csv, line 3, column when: .*59.999999001Z is finer than a microsecond: round"
    ):
        read({"x.csv": b"n,when\n1,\n2,1969-12-31T23:59:59.999999001Z\n"}, fields)


def test_a_whole_number_without_a_sign_that_no_engine_holds_is_reported(read):
    fields = [Field("n", pa.uint64())]
    assert read({"x.csv": b"n\n9223372036854775807\n"}, fields)["n"].to_pylist() == [2**63 - 1]
    with pytest.raises(
        UserError, match=r"line 2, column n: 9223372036854775808 is beyond 2\^63: write it as text, and declare"
    ):
        read({"x.csv": b"n\n9223372036854775808\n"}, fields)


@pytest.mark.parametrize(
    ("missing", "columns", "meant"),
    [("dep_delay", ["arr_delay"], ""), ("amount", ["amuont"], "amuont"), ("late", ["table", "rate2"], ""),
     ("area", ["aera", "price"], "aera"), ("sq feet", ["SqFeet"], "SqFeet")],
)  # fmt: skip
def test_only_a_name_that_is_near_is_taken_for_a_missing_one(missing, columns, meant):
    message = schema.missing_columns_message(columns, [missing])
    assert message.startswith(f"lacks the column {missing}; it has {', '.join(columns)}.")
    assert (f"Is '{meant}' meant" in message) if meant else "Is '" not in message


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
