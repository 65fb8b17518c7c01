import io
import random

import pyarrow as pa
import pyarrow.parquet
import pytest

from vgp.data.schema import Field
from vgp.data.sources import parquet_pages
from vgp.data.sources.parquet_pages import Compact, Page

ROWS = 1 << 16
DIFFERENT = [f"text number {n * 7919 % 150_001}" for n in range(150_000)]
LONG = "x" * (1 << 20)


def parquet(columns: dict, **kwargs: object) -> bytes:
    buffer = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), buffer, **kwargs)
    return buffer.getvalue()


def readable(content: bytes, *names: str) -> list[str]:
    with pa.BufferReader(content) as source:
        return parquet_pages.find_plain_columns(source, pa.parquet.ParquetFile(source).metadata, names or ["a"], ROWS)


@pytest.mark.parametrize("codec", ["snappy", "zstd", "none"])
def test_texts_that_differ_are_read_as_they_are(codec):
    assert readable(parquet({"n": range(150_000), "a": DIFFERENT}, compression=codec)) == ["a"]


def test_they_come_as_they_are_stored_in_order_and_with_those_that_are_missing(read, monkeypatch):
    texts = [None, "", *DIFFERENT[2:]]
    content = parquet({"a": texts, "b": ["x", "y"] * 75_000})
    asked = []
    found = parquet_pages.find_plain_columns
    monkeypatch.setattr(parquet_pages, "find_plain_columns", lambda *args: asked.append(found(*args)) or asked[-1])
    rows = read({"x.parquet": content}, [Field("a", pa.string(), True), Field("b", pa.string())])
    assert asked == [["a"]]
    assert rows["a"].to_pylist() == ["", *texts[1:]] and rows["b"].to_pylist() == ["x", "y"] * 75_000


@pytest.mark.parametrize(
    "content",
    [
        parquet({"a": ["x", "y"] * 75_000}),
        parquet({"a": DIFFERENT}, use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"}),
        parquet({"a": DIFFERENT}, data_page_version="2.0"),
        parquet({"a": DIFFERENT}, compression="brotli"),
        parquet({"a": [LONG, *DIFFERENT]}, dictionary_pagesize_limit=2 << 20, compression="zstd"),
    ],
    ids=["few", "prefixes", "pages of version 2", "another codec", "a long one that could be repeated"],
)
def test_others_are_read_as_dictionaries(content):
    assert readable(content) == []


def test_what_rows_that_are_read_at_once_can_become_is_bounded_over_row_groups_and_columns(monkeypatch):
    content = parquet(
        {"a": DIFFERENT, "b": DIFFERENT}, use_dictionary=False, row_group_size=20_000, data_page_size=1 << 16
    )
    nine = 65_536 * (4 + 18)
    monkeypatch.setattr(parquet_pages, "MOST_BYTES", 2 * nine + (1 << 19))
    assert readable(content, "a", "b") == ["a", "b"]
    monkeypatch.setattr(parquet_pages, "MOST_BYTES", 2 * nine - (1 << 18))
    assert readable(content, "a", "b") == ["a"]
    monkeypatch.setattr(parquet_pages, "MOST_BYTES", nine - (1 << 18))
    assert readable(content, "a", "b") == []


def test_no_batch_of_rows_holds_more_than_the_limit():
    number = random.Random(5)
    for _ in range(200):
        sizes = [(number.randrange(5), number.randrange(100)) for _ in range(12)]
        # The most that rows can hold: all bytes of a page in one of its values.
        values = [page for page, (count, _) in enumerate(sizes) for _ in range(count)]
        most = max(sum(sizes[page][1] for page in set(values[i : i + 6])) for i in range(max(1, len(values) - 5)))
        assert parquet_pages._bound_bytes([Page(count, size) for count, size in sizes], 6) >= most
    assert parquet_pages._bound_bytes([Page(3, 10), Page(4, 20), Page(5, 40), Page(1, longest=7)], 6) == 70 + 6 * 7
    assert parquet_pages._bound_bytes([Page(3, 10), Page(5, 20), Page(5, 40)], 6) == 20 + 40


def test_the_time_it_takes_is_bounded_by_the_size_of_the_file(monkeypatch):
    content = parquet({"a": DIFFERENT[:80_000]}, use_dictionary=False, data_page_size=64, write_batch_size=64)
    assert len(content) < 4 << 20 and readable(content) == []
    monkeypatch.setattr(parquet_pages, "_LOOKED_AT_BYTES", 8 << 20)
    assert readable(content) == ["a"]


def test_a_header_that_is_cut_off_or_of_a_form_that_is_not_needed_is_refused():
    good = bytes([0x15, 0x04, 0x18, 0x02, 0x61, 0x62, 0x1C, 0x15, 0x01, 0x00, 0x11, 0x00])
    compact = Compact(good + b"more")
    assert compact.fields() == {1: 2, 2: None, 3: {1: -1}, 4: True} and compact.at == len(good)
    for end in range(len(good)):
        with pytest.raises(IndexError):
            Compact(good[:end]).fields()
    for field in (b"\x05\x02\x04", b"\x19\x15\x04", b"\x10", b"\x1c" * 9):
        with pytest.raises(ValueError, match="a field of kind|a number of its own|structs in"):
            Compact(field + bytes(9)).fields()


def test_a_damaged_file_is_left_to_the_reader():
    content = parquet({"a": DIFFERENT[:20_000]}, dictionary_pagesize_limit=1 << 12)
    with pa.BufferReader(content) as source:
        footer = pa.parquet.ParquetFile(source).metadata
    start = footer.row_group(0).column(0).data_page_offset
    number = random.Random(3)
    for _ in range(200):
        broken = bytearray(content)
        for _ in range(3):
            broken[start + number.randrange(80)] = number.choice((0, 2, 0x15, 0x1C, number.randrange(256)))
        with pa.BufferReader(bytes(broken)) as source:
            assert parquet_pages.find_plain_columns(source, footer, ["a"], ROWS) in ([], ["a"])
