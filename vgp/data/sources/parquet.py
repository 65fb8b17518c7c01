"""Reads columns of Parquet files in the declared types, if no value changes by the conversion."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names, quote
from vgp.data import schema
from vgp.data.schema import Field
from vgp.data.sources import parquet_pages
from vgp.data.sources.file_bytes import BLOCK_BYTES, OpenedFile
from vgp.data.sources.records import check_names
from vgp.data.sources.values import Mistake, Texts, fill_missing, format_value, is_text

#: Rows read at once.
ROWS = 1 << 16
#: Encodings of texts by DuckDB and Spark (version 2 of the format) that Arrow cannot read as dictionaries. Fewer rows
#: are read at once, because a long text may take a single byte in the file.
DIFFERENCES = {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}
DIFFERENCES_ROWS = 256


KINDS: dict[str, Callable[[pa.DataType], bool]] = {
    "text": is_text,
    "bytes": lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t),
    "bool": pa.types.is_boolean,
    "integer": pa.types.is_integer,
    "float": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "date": pa.types.is_date,
    "time": pa.types.is_time,
}
#: Stored types that can be converted to a declared type.
WIDER = {
    "text": ("bytes",),  # some writers do not mark bytes as text
    "integer": ("decimal",),
    "float": ("integer", "decimal"),
    "decimal": ("integer",),
}


class Types:
    """The types of the columns in the files so far, to name another file when types differ."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[pa.DataType, str]] = {}
        #: The schema of the last correct file: most files have the schema of the file before.
        self.good: pa.Schema | None = None

    def check(self, name: str, stored: pa.DataType, field: Field) -> None:
        """Raises UserError if the stored type cannot be converted to the type of the field."""
        stored = plain_type(stored)
        if fits(stored, field.type):
            self.known.setdefault(field.name, (stored, name))
            return
        other = self.known.get(field.name)
        also = f"; in {other[1]} it is {other[0]}" if other else ""
        raise UserError(
            f"{name}: column {join_names([field.name])} is {stored}, but the schema has {field.type}{also}."
            + (f" Change {field.declared}." if field.declared else _suggest_fix(stored, field))
        )


@dataclass(frozen=True)
class Stored:
    """Some rows of one file in their stored types."""

    file: int
    table: pa.Table

    @property
    def layout(self) -> pa.Schema:
        return self.table.schema

    @property
    def size(self) -> int:
        """The approximate bytes of the rows; the exact number would take five times as long."""
        return int(self.table.get_total_buffer_size())


def read_parts(
    number: int, opened: OpenedFile, fields: Sequence[Field], declared: Sequence[Field], types: Types
) -> Iterator[Stored]:
    """Yields the rows of one file.

    Args:
        fields: The columns to read.
        declared: All columns of the schema.

    Raises:
        UserError: the file is damaged or cut off, lacks a column, or has a column of another type.
    """
    small = opened.version.bytes <= BLOCK_BYTES
    with _convert_damage_errors(opened), pa.BufferReader(opened.whole()) if small else pa.OSFile(opened.path) as source:
        words = [field.name for field in fields if is_text(field.type)]
        file = _open(source, words)
        texts = Texts(opened.name, opened.version.bytes)
        stored = file.schema_arrow
        if types.good is None or not stored.equals(types.good):
            check_names(opened.name, stored.names)
            schema.check_header(opened.name, stored.names, declared)
            for field in fields:
                if field.name in stored.names:
                    types.check(opened.name, stored.field(field.name).type, field)
            types.good = stored
        # No names if all columns are read: finding columns by name takes as long as reading a small file.
        present = [field.name for field in fields if field.name in stored.names]
        names = None if len(stored) == len(present) else present
        if small and file.metadata.num_rows <= ROWS and (table := _read_whole(file, names)) is not None:
            yield Stored(number, texts.add(table).replace_schema_metadata())
            return
        by_differences = _list_delta_columns(file.metadata, words)
        rows = DIFFERENCES_ROWS if by_differences else ROWS
        if plain_words := [*parquet_pages.find_plain_columns(source, file.metadata, words, rows), *by_differences]:
            file = _open(source, [name for name in words if name not in plain_words], file.metadata)
        for batch in file.iter_batches(rows, columns=names, use_threads=not small):
            yield Stored(number, texts.add(pa.Table.from_batches([batch])).replace_schema_metadata())


def _open(
    source: pa.NativeFile, words: Sequence[str], footer: pyarrow.parquet.FileMetaData | None = None
) -> pyarrow.parquet.ParquetFile:
    """Opens a file with its texts as dictionaries: written out, a long repeated text can be 1,000 times the file."""
    try:
        return pyarrow.parquet.ParquetFile(
            source, metadata=footer, read_dictionary=words, page_checksum_verification=True
        )
    except KeyError:  # a column is missing, which the check of the header reports
        source.seek(0)
        return pyarrow.parquet.ParquetFile(source)


def _read_whole(file: pyarrow.parquet.ParquetFile, names: Sequence[str] | None) -> pa.Table | None:
    """Reads all of a small file; returns None if Arrow cannot read a text as a dictionary.

    Checking the encodings first would take as long as reading.
    """
    try:
        return file.read(names, use_threads=False)
    except OSError as error:
        if "DictAccumulator" in str(error):
            return None
        raise


def _list_delta_columns(footer: pyarrow.parquet.FileMetaData, words: Sequence[str]) -> list[str]:
    """Returns the text columns with one of the encodings `DIFFERENCES`."""
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    encodings = {
        name: {
            way
            for group in range(footer.num_row_groups)
            for way in footer.row_group(group).column(places[name]).encodings
        }
        for name in words
        if name in places
    }
    return [name for name, ways in encodings.items() if ways & DIFFERENCES]


def fits(stored: pa.DataType, declared: pa.DataType) -> bool:
    """Whether a stored type converts to a declared one without a choice that only the user can make."""
    if stored == declared or pa.types.is_null(stored):
        return True
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(declared):
        return bool(stored.tz) == bool(declared.tz)
    if pa.types.is_timestamp(stored) and pa.types.is_date(declared):
        return not stored.tz
    kinds = KINDS.items()
    wanted = next((kind for kind, is_one in kinds if is_one(declared)), "")
    return next((kind for kind, is_one in kinds if is_one(stored)), "") in (wanted, *WIDER.get(wanted, ()))


def _suggest_fix(stored: pa.DataType, field: Field) -> str:
    if pa.types.is_nested(stored):
        return " Write its parts as columns of their own."
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(field.type):
        right = 'pa.timestamp("us", tz="UTC")' if stored.tz else 'pa.timestamp("us")'
        return f" Declare {right}: {'these are moments' if stored.tz else 'no zone is known'}."
    if pa.types.is_floating(stored) and pa.types.is_integer(field.type):
        return " Declare pa.float64(), or write integers: beyond 2^53 a double is not exact."
    return " Declare that type, or write the file again with the other."


def convert_table(table: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Converts the columns to the types of the fields. Raises Mistake for a value that would change."""
    return pa.table({field.name: _convert_column(table[field.name], field) if field.name in table.column_names
                     else pa.nulls(table.num_rows, field.type) for field in fields})  # fmt: skip


def _convert_column(stored: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    try:
        return _cast(stored, field)
    except pa.ArrowInvalid as error:
        record = _find_first(stored, field)
        lost = "UTF8" not in str(error)
        reason = (
            f"{quote(format_value(stored, record))} is not of type {field.type} without a loss"
            if lost
            else "is not UTF-8"
        )
        raise Mistake(record, f", column {join_names([field.name])}: {reason}.") from None


def _cast(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    """Converts a column to the type of its field. Raises pa.ArrowInvalid for a value that would change."""
    stored = plain_type(column.type)
    if column.type != stored:
        column = column.cast(stored)
    if pa.types.is_integer(stored) and pa.types.is_decimal(field.type):
        column = column.cast(pa.decimal128(38, field.type.scale))
    values = column.cast(field.type)
    if pa.types.is_timestamp(stored) and pa.types.is_date(field.type) and not values.cast(stored).equals(column):
        raise pa.ArrowInvalid("not at midnight")
    return fill_missing(values)


def _find_first(stored: pa.ChunkedArray, field: Field) -> int:
    """Returns the position of the first value that cannot be converted, by bisection."""
    good, bad = 0, len(stored)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _cast(stored.slice(good, middle - good), field)
        except pa.ArrowInvalid:
            bad = middle
        else:
            good = middle
    return good


def plain_type(stored: pa.DataType) -> pa.DataType:
    """Returns the type of the values behind a dictionary or extension type."""
    if pa.types.is_dictionary(stored):
        return plain_type(stored.value_type)
    return stored.storage_type if isinstance(stored, pa.BaseExtensionType) else stored


@contextmanager
def _convert_damage_errors(opened: OpenedFile) -> Iterator[None]:
    """Turns errors of Arrow about a damaged, foreign or encrypted file into UserErrors."""
    if not opened.version.bytes:
        raise UserError(f"{opened.name} is empty: a Parquet file has at least its columns.")
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        said = " ".join(str(error).partition(" Either the file is")[0].split()).rstrip(".")[:200]
        if "ecrypt" in said:
            raise UserError(f"{opened.name} is encrypted: write it without, and let the bucket encrypt it.") from None
        raise UserError(f"{opened.name} is no Parquet file, or damaged or cut off: {said}. Fetch it again.") from None
