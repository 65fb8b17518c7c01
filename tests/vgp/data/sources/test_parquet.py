import base64
import io
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet
import pyarrow.parquet.encryption as encryption
import pytest

from vgp.base.exits import UserError
from vgp.base.storage import inflate
from vgp.data.schema import Field
from vgp.data.sources import parquet as sources_parquet
from vgp.data.sources.values import choose_memory_type

MOMENT = pa.timestamp("us", tz="UTC")


def parquet(table: pa.Table | dict, **kwargs: object) -> bytes:
    buffer = io.BytesIO()
    pa.parquet.write_table(pa.table(table), buffer, **kwargs)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("stored", "declared", "value"),
    [
        (pa.array(["a"]).dictionary_encode(), pa.string(), "a"),
        (pa.array(["a"], pa.large_string()), pa.string(), "a"),
        (pa.array([None], pa.large_string()), pa.string(), ""),
        (pa.array([b"a"]), pa.string(), "a"),
        (pa.nulls(1), pa.int64(), None),
        (pa.array([200], pa.uint8()), pa.int16(), 200),
        (pa.array([5], pa.int64()), pa.float64(), 5.0),
        (pa.array([Decimal("12.50")]), pa.float64(), 12.5),
        (pa.array([Decimal("12")], pa.decimal128(38, 0)), pa.int64(), 12),
        (pa.array([12]), pa.decimal128(6, 2), Decimal("12.00")),
        (pa.array([float("nan")]), pa.float64(), None),
        (pa.array([1.5], pa.float32()), pa.float64(), 1.5),
        (
            pa.array([1_000], pa.timestamp("ns", tz="Europe/Berlin")),
            MOMENT,
            datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        ),
        (pa.array([1_000], pa.timestamp("ns")), pa.timestamp("us"), datetime(1970, 1, 1, 0, 0, 0, 1)),
        (pa.array([86_400_000_000_000], pa.timestamp("ns")), pa.date32(), date(1970, 1, 2)),
        (pa.array([date(2024, 1, 1)], pa.date64()), pa.date32(), date(2024, 1, 1)),
    ],
)
def test_values_come_in_the_declared_type_however_they_are_stored(read, stored, declared, value):
    rows = read({"x.parquet": parquet({"a": stored, "more": ["x"]})}, [Field("a", declared, True)])
    assert rows.to_pylist() == [{"a": value, "_file": 0, "_record": 0}]
    assert rows.schema.field("a").type == choose_memory_type(declared)


@pytest.mark.parametrize(
    ("stored", "declared", "message"),
    [
        (["1"], pa.int64(), "column a is string, but the schema has int64. Declare that type, or write the file again"),
        ([1.0], pa.int64(), r"column a is double, but the schema has int64. Declare pa.float64\(\)"),
        ([1], pa.string(), "column a is int64, but the schema has string"),
        ([1], pa.bool_(), "column a is int64, but the schema has bool"),
        ([{"b": 1}], pa.int64(), "column a is struct.*Write its parts as columns of their own"),
        ([[1]], pa.int64(), "column a is list.*Write its parts"),
        (
            [datetime(2024, 1, 1)],
            MOMENT,
            r"is timestamp\[us\], .* tz=UTC\]. Declare pa.timestamp\(\"us\"\)",
        ),
        ([datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us"), r"Declare pa.timestamp\(\"us\", tz=\"UTC\"\)"),
    ],
)
def test_a_column_of_another_type_is_refused_with_the_fix(read, stored, declared, message):
    with pytest.raises(UserError, match=f"x.parquet: .*{message}"):
        read({"x.parquet": parquet({"a": stored})}, [Field("a", declared, True)])


def test_a_column_that_changes_its_type_between_files_names_both(read):
    contents = {"x.parquet": parquet({"a": [1]}), "y.parquet": parquet({"a": ["1"]})}
    with pytest.raises(UserError, match=r"y.parquet: column a is string, .* has int64; in .*x.parquet it is int64"):
        read(contents, [Field("a", pa.int64())])


@pytest.mark.parametrize(
    ("values", "declared", "message"),
    [
        (pa.array([1, 2, 300] * 9), pa.int8(), "row 3, column a: '300' is not of type int8 without a loss"),
        (pa.array([1, 2**63], pa.uint64()), pa.int64(), "row 2, column a: '9223372036854775808' is not of type int64"),
        (pa.array([0, 1], pa.timestamp("ns")), pa.timestamp("us"), "row 2, column a: .* is not of type timestamp"),
        (
            pa.array([0, 1 << 50], pa.timestamp("s")),
            pa.timestamp("s"),
            "row 2, column a: the year is none of 1 to 9999",
        ),
        (pa.array([0, 5_000_000], pa.date32()), pa.date32(), "row 2, column a: the year is none of 1 to 9999"),
        (pa.array([0, 1], pa.timestamp("us")), pa.date32(), "row 2, column a: .* is not of type date32"),
        (
            pa.array([2**53 + 1]),
            pa.float64(),
            "row 1, column a: '9007199254740993' is not of type double",
        ),
        (pa.array([b"a", b"\xff"]), pa.string(), "row 2, column a: b?.*UTF-8"),
        (pa.array([1, None]), pa.int64(), "row 2: column a is empty, but the schema does not allow missing values"),
        (pa.array(["a", ""]), pa.string(), "row 2: column a is empty"),
        (pa.array([1.0, float("nan")]), pa.float64(), "row 2: column a is empty"),
    ],
)
def test_a_value_that_would_change_or_is_missing_is_named_with_its_row(read, values, declared, message):
    good = {"a.csv": b"a\n" + {"s": b"x", "d": b"2024-01-01", "t": b"2024-01-01"}.get(str(declared)[0], b"1") + b"\n"}
    good = {} if pa.types.is_floating(declared) else good
    with pytest.raises(UserError, match=f"x.parquet, {message}"):
        read({**good, "x.parquet": parquet({"a": values})}, [Field("a", declared)])


GOOD = parquet({"a": list(range(50_000)), "b": ["x"] * 50_000}, row_group_size=7_000)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD[:-100], r"x.parquet is no Parquet file, or damaged or cut off: [^.]*\. Fetch it again\.$"),
        (GOOD[: len(GOOD) // 2], "x.parquet is no Parquet file, or damaged or cut off"),
        (GOOD[:4000] + bytes(100) + GOOD[4100:], "x.parquet is no Parquet file, or damaged"),
        (b"a,b\n1,2\n", "x.parquet is no Parquet file"),
        (b"", "x.parquet is empty"),
        (parquet({"A": [1]}), "x.parquet lacks the column a; it has A. Is 'A' meant to be 'a'.* case"),
        (parquet(pa.table([[1], [2]], names=["a", "a"])), "x.parquet: the column a occurs twice"),
    ],
)
def test_a_file_that_is_damaged_or_no_table_is_named(read, content, message):
    with pytest.raises(UserError, match=message):
        read({"x.parquet": content}, [Field("a", pa.int64())])


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_file_is_not_taken_for_a_damaged_one(read, plaintext_footer):
    class Keys(encryption.KmsClient):
        def wrap_key(self, key_bytes, master_key_identifier):
            return base64.b64encode(key_bytes)

    setting = encryption.EncryptionConfiguration("a", column_keys={"b": ["a"]}, plaintext_footer=plaintext_footer)
    factory = encryption.CryptoFactory(lambda config: Keys())
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), setting)
    content = parquet({"a": [1]}, encryption_properties=properties)
    with pytest.raises(UserError, match=r"x.parquet is encrypted: write it without, and let the bucket encrypt it\."):
        read({"x.parquet": content}, [Field("a", pa.int64())])


@pytest.mark.parametrize("stores_schema", [True, False])
def test_a_long_text_that_a_dictionary_repeats_is_counted_as_often_as_it_occurs(read, monkeypatch, stores_schema):
    monkeypatch.setattr(inflate, "MAX_BYTES", 1 << 20)
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 60_000, pa.int32()), ["x" * (1 << 20)])
    content = parquet({"a": words}, compression="zstd", store_schema=stores_schema, write_statistics=False)
    assert len(content) < 300_000
    with pytest.raises(
        UserError, match=r"x.parquet holds more than [\d,]+ MiB of text \([\d,]+ bytes packed\): .*files"
    ):
        read({"x.parquet": content}, [Field("a", pa.string())])


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("count", [1_000, 70_000])
def test_texts_that_are_written_by_their_differences_are_read(read, encoding, count):
    """As DuckDB and Spark write them in the second version of the format."""
    texts = [None if n % 10 == 0 else f"word {n * 7919 % 1_000}" for n in range(count)]
    content = parquet({"a": texts, "b": ["x"] * count}, use_dictionary=["b"], column_encoding={"a": encoding})
    rows = read({"x.parquet": content}, [Field("a", pa.string(), nullable=True), Field("b", pa.string())])
    assert rows["a"].to_pylist() == [text or "" for text in texts] and rows["b"].to_pylist() == ["x"] * count


def test_a_long_text_that_shares_itself_with_the_one_before_is_counted_each_time(read, monkeypatch):
    monkeypatch.setattr(inflate, "MAX_BYTES", 1 << 20)
    content = parquet({"a": ["x" * (1 << 16)] * 400}, use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"})
    with pytest.raises(UserError, match=r"x.parquet holds more than [\d,]+ MiB of text"):
        read({"x.parquet": content}, [Field("a", pa.string())])


def test_row_groups_stream_in_order_and_only_what_is_asked_for(opened):
    files = opened({"x.parquet": GOOD, "y.parquet": GOOD}, [Field("a", pa.int64()), Field("b", pa.string())])
    rows = pa.Table.from_batches(files.batches(["a"]))
    assert rows["a"].to_pylist() == [*range(50_000)] * 2 and rows.column_names == ["a", "_file", "_record"]
    assert rows["_record"].equals(rows["a"]) and files.place(1, 41_999).endswith("y.parquet, row 42,000")


def test_many_small_files_are_converted_in_one_piece_and_keep_the_places_of_their_rows(read, monkeypatch):
    pieces = []
    cast = sources_parquet._cast
    monkeypatch.setattr(sources_parquet, "_cast", lambda column, field: pieces.append(column) or cast(column, field))
    contents = {f"{i:02}.parquet": parquet({"a": pa.array(range(i), pa.int64())}) for i in range(40)}
    rows = read(contents, [Field("a", pa.int32())])
    assert [piece.num_chunks for piece in pieces] == [1]
    assert rows["_record"].to_pylist() == rows["a"].to_pylist() == [n for i in range(40) for n in range(i)]
    assert rows["_file"].to_pylist() == [i for i in range(40) for _ in range(i)]
