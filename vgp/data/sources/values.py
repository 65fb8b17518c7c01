"""Values of all file formats: missing text is "", missing numbers are null, and undeclared gaps are mistakes."""

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from vgp.base.exits import UserError
from vgp.base.storage import inflate
from vgp.base.text.printable import join_names
from vgp.data.schema import Field


class Mistake(Exception):
    """An error in a record.

    Args:
        record: The position of the record in its block.
        text: The message after the file and the line, such as ` has 2 fields where the header has 3.`
    """

    def __init__(self, record: int, text: str, file: int = -1):
        super().__init__(record, text, file)
        self.record, self.text, self.file = record, text, file

    def after(self, records: int, file: int) -> "Mistake":
        """Returns the mistake with the position of its record shifted by `records`, in this file."""
        return Mistake(self.record + records, self.text, file)


#: The Arrow type of text: a dictionary, because most columns repeat few values, which are then handled once per block.
TEXT = pa.dictionary(pa.int32(), pa.string())


#: 0001-01-01 and the day after 9999-12-31, the range of Python and BigQuery, in days since 1970-01-01.
FIRST_DAY, LAST_DAY = -719_162, 2_932_897
SECONDS = {"s": 1, "ms": 1_000, "us": 1_000_000}


#: The accepted spelling of types that other programs write in many ways.
WRITTEN = (
    (pa.types.is_boolean, "true or false, in CSV also 1 or 0"),
    (pa.types.is_date, "2024-02-29"),
    (pa.types.is_timestamp, "2024-02-29T10:00:00"),
)


def choose_memory_type(declared: pa.DataType) -> pa.DataType:
    """Returns the Arrow type in which values of a declared type are held."""
    return TEXT if is_text(declared) else declared


def is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def fill_missing(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replaces missing text by "", and nan by null. Raises pa.ArrowInvalid for text that is not UTF-8."""
    if is_text(values.type):
        values.validate(full=True)
        return pc.fill_null(values, "") if values.null_count else values
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return values


def check(table: pa.Table, fields: Sequence[Field]) -> None:
    """Raises Mistake for the first missing value of a column that may not have one, or that engines cannot hold."""
    for field in fields:
        values = table[field.name]
        if not field.nullable and (record := find_first_missing(values)) >= 0:
            where = f" ({field.declared}: a key and the time must have values)" if field.declared else ""
            raise Mistake(
                record, f": column {field.name} is empty, but the schema does not allow missing values{where}."
            )
        for wrong, text in _find_unrepresentable(values):
            if (record := int(pc.index(wrong, True).as_py())) >= 0:
                raise Mistake(
                    record, f", column {join_names([field.name])}: {text.format(format_value(values, record))}"
                )


def _find_unrepresentable(values: pa.ChunkedArray) -> Iterator[tuple[pa.ChunkedArray, str]]:
    """Yields masks of values that engines cannot hold, each with its message.

    Engines hold days and microseconds of the years 1 to 9999, and signed 64-bit integers.
    """
    unit = values.type.unit if pa.types.is_timestamp(values.type) else ""
    if unit == "ns":  # 1677 to 2262
        numbers = values.cast(pa.int64())
        whole = pc.multiply(pc.divide(numbers, 1_000), 1_000)
        yield pc.not_equal(numbers, whole), "{} is finer than a microsecond: round it."
    elif unit or pa.types.is_date32(values.type):
        numbers, day = values.cast(pa.int64() if unit else pa.int32()), 86_400 * SECONDS[unit] if unit else 1
        least, greatest = pc.min_max(numbers).values()
        if least.is_valid and not FIRST_DAY * day <= least.as_py() <= greatest.as_py() < LAST_DAY * day:
            outside = pc.or_(pc.less(numbers, FIRST_DAY * day), pc.greater_equal(numbers, LAST_DAY * day))
            yield outside, "the year is none of 1 to 9999: bound it."
    elif pa.types.is_uint64(values.type):
        most = pa.scalar((1 << 63) - 1, pa.uint64())
        yield pc.greater(values, most), "{} is beyond 2^63: write it as text, and declare pa.string()."


def format_value(values: pa.ChunkedArray, record: int) -> str:
    """Formats a value, including types that Python lacks, such as nanoseconds."""
    return str(values.slice(record, 1).cast(pa.string())[0].as_py())


def format_advice(text: str, field: Field) -> str:
    """Returns the end of a message about a text that does not fit the type of its field: the fix."""
    if not field.declared and pa.types.is_integer(field.type) and re.fullmatch(r"-?\d+\.\d*", text):
        return " Declare pa.float64(), or write whole numbers without a point."
    form = next((form for is_one, form in WRITTEN if is_one(field.type)), "")
    if form and not field.declared:
        zone = "Z" if pa.types.is_timestamp(field.type) and field.type.tz else ""
        return f" Such values are written as {form}{zone}; to take it as text, declare pa.string()."
    return field.fix


def find_first_missing(values: pa.ChunkedArray) -> int:
    """Returns the position of the first missing value; -1 if there is none."""
    if values.type == TEXT:
        empty = any(pc.index(chunk.dictionary, "").as_py() >= 0 for chunk in values.chunks)
        return find_first_missing(values.cast(pa.string())) if empty else -1
    if is_text(values.type):
        return int(pc.index(pc.binary_length(values), 0).as_py())
    return int(pc.index(pc.is_null(values), True).as_py()) if values.null_count else -1


# ---- the uncompressed size of texts in Parquet, where a dictionary stores a repeated text once


class Texts:
    """A counter of the text bytes of one file, with the limits of compressed files."""

    def __init__(self, name: str, packed_bytes: int):
        self.name, self.packed_bytes = name, packed_bytes
        self.bytes, self.most = 0, max(inflate.MAX_BYTES, inflate.MAX_RATIO * packed_bytes)

    def add(self, table: pa.Table) -> pa.Table:
        """Adds the texts of a table and returns the table. Raises UserError beyond the limits.

        Counts an upper bound for small tables, since exact counting takes as long as reading, and there may be
        thousands of files.
        """
        most = table.num_rows * table.get_total_buffer_size()
        self.bytes += most if most <= self.most >> 10 else sum(map(_count_text_bytes, table.columns))
        if self.bytes > self.most:
            raise UserError(
                f"{self.name} holds more than {self.most >> 20:,} MiB of text ({self.packed_bytes:,} bytes packed): if "
                "that is right, write it as several files."
            )
        return table


def _count_text_bytes(column: pa.ChunkedArray) -> int:
    """Returns the bytes of a column's texts, each as often as it occurs; 0 for columns of other types."""
    if pa.types.is_dictionary(column.type):
        if not _has_variable_width(column.type.value_type):
            return 0
        return sum(map(_count_occurring_bytes, column.chunks))
    return int(column.nbytes) if _has_variable_width(column.type) else 0


def _count_occurring_bytes(chunk: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
    return pc.sum(lengths.take(chunk.indices)).as_py() or 0


def _has_variable_width(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
