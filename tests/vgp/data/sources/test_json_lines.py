import gzip
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from vgp.base.exits import UserError
from vgp.data.schema import Field
from vgp.data.sources import file_bytes

FIELDS = (Field("n", pa.int32()), Field("word", pa.string()), Field("size", pa.float64(), True))
GOOD = {"n": 7, "word": "x", "size": 1.5, "more": {"a": [1]}}


def lines(*rows: object) -> dict[str, bytes]:
    texts = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    return {"x.jsonl": b"\n".join(texts) + b"\n"}


def test_numbers_text_dates_and_times_come_in_the_declared_types(read):
    fields = (
        Field("big", pa.int64()), Field("size", pa.float32(), True), Field("word", pa.string(), True),
        Field("yes", pa.bool_()), Field("day", pa.date32()), Field("at", pa.timestamp("us", tz="UTC")),
        Field("clock", pa.time32("s")), Field("price", pa.decimal128(10, 2)),
    )  # fmt: skip
    row = {"big": 2**60 + 1, "yes": True, "day": "2024-02-29", "at": "2024-01-01T02:00:00+02:00", "clock": "10:00:01"}
    rows = read(lines({**row, "price": "1.25"}, b"", {**row, "size": 2, "price": 3, "word": None}), fields).to_pylist()
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    known = {"big": 2**60 + 1, "yes": True, "day": date(2024, 2, 29), "at": moment, "clock": time(10, 0, 1), "word": ""}
    assert rows == [
        {**known, "size": None, "price": Decimal("1.25"), "_file": 0, "_record": 0},
        {**known, "size": 2.0, "price": Decimal("3.00"), "_file": 0, "_record": 1},
    ]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            {**GOOD, "n": "7"},
            r", column n: '7' is not of type int32. It is text: write it without quotes, or",
        ),
        ({**GOOD, "n": 7.5}, r", column n: 7.5 is not of type int32. Declare pa.float64\(\), or write whole numbers"),
        (
            {"n": 7, "word": "x", "SIZE": 1},
            " lacks the column size; it has n, word, SIZE. Is 'SIZE' meant to be",
        ),
        ({}, " lacks the column n; it has none"),
        ({**GOOD, "word": "\ud800"}, r", column word: it holds half a character"),
        ({**GOOD, "more": {"\udfff": 1}}, r", column more: it holds half a character"),
        ({**GOOD, "n": 2**40}, ", column n: 1099511627776 is not of type int32"),
        ({**GOOD, "n": True}, ", column n: true is not of type int32"),
        ({**GOOD, "word": 5}, ", column word: 5 is not of type string"),
        ({**GOOD, "word": {"a": 1}}, r""", column word: an object '{"a": 1}' is not of type string. Write its parts"""),
        ({**GOOD, "size": [1]}, r", column size: a list '\[1\]' is not of type double"),
        ({**GOOD, "n": None}, ": column n is empty, but the schema does not allow missing values"),
        ({**GOOD, "word": ""}, ": column word is empty"),
        ({"N": 7, "word": "x"}, " lacks the column n; it has N, word. Is 'N' meant to be 'n'.*case"),
        ([GOOD], r" is a list .*and not a JSON object"),
        (b'{"n": 7, "word": "x"}{"n": 8, "word": "y"}', " is not one JSON object .*Extra data"),
        (b'{"n": 7,', " is not one JSON object"),
        (b"n,word,size", " is not one JSON object"),
        (b'{"n": 7, "n": 8, "word": "x"}', ", column n occurs twice"),
        (b'{"n": 1e400, "word": "x"}', ", column n: the number is beyond 1.8e308"),
        (b'{"n": 7, "word": "x", "size": 1e400}', ", column size: the number is beyond 1.8e308"),
        (b'{"n": 7, "word": "caf\xe9"}', ": the text is not UTF-8; in Windows-1252 the word is .*café"),
        (b'{"n": 7, "word": "x", "size": ' + b"[" * 50_000, " is nested too deeply"),
    ],
)
@pytest.mark.parametrize("block_bytes", [40, 4 << 20], ids=["several blocks", "one block"])
def test_a_wrong_value_is_named_with_file_line_and_column(read, monkeypatch, bad, message, block_bytes):
    monkeypatch.setattr(file_bytes, "BLOCK_BYTES", block_bytes)
    with pytest.raises(UserError, match=r"x.jsonl, line 4" + message) as refusal:
        read(lines(GOOD, b"  ", GOOD, bad, GOOD), FIELDS)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 600


def test_a_file_that_is_cut_short_is_reported(read):
    content = lines(GOOD, GOOD)["x.jsonl"]
    with pytest.raises(UserError, match=r"x.jsonl, line 2 is not one JSON object .*The file seems to be cut off there"):
        read({"x.jsonl": content[:-5]}, FIELDS)
    with pytest.raises(UserError, match="x.jsonl.gz is damaged or truncated"):
        read({"x.jsonl.gz": gzip.compress(content * 1000)[:-9]}, FIELDS)


def test_one_array_is_refused_with_the_way_to_lines(read):
    with pytest.raises(UserError, match=r"x.ndjson is one JSON array: write one object a line, such as by jq"):
        read({"x.ndjson": b"\n [" + json.dumps(GOOD).encode() + b"]"}, FIELDS)


def test_a_name_in_another_case_is_no_missing_value(read):
    """A member that may be missing would be missing everywhere, without a word."""
    with pytest.raises(UserError, match=r"x.jsonl, line 1 lacks the column size; it has n, word, Size. Is 'Size'"):
        read(lines({"n": 7, "word": "x", "Size": 1}, {"n": 7, "word": "x", "Size": 1}), FIELDS)
    assert read(lines({"n": 7, "word": "x"}), FIELDS)["size"].to_pylist() == [None]
    other = {"n": 7, "word": "SIZE", "more": {"Size": 1}}
    assert read(lines(other, {**GOOD, "Size": 2}), FIELDS)["size"].to_pylist() == [None, 1.5]


def test_small_files_keep_their_rows_apart(read):
    content = {f"{i}.jsonl": b"\n\n".join([json.dumps({**GOOD, "n": i}).encode()] * i) for i in range(1, 4)}
    rows = read({**content, "empty.jsonl": b""}, FIELDS)
    assert rows["n"].to_pylist() == [1, 2, 2, 3, 3, 3] and rows["_file"].to_pylist() == [0, 1, 1, 2, 2, 2]
    assert rows["_record"].to_pylist() == [0, 0, 1, 0, 1, 2]
