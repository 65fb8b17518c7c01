"""Values as every kind of file gives them: missing text is "", a missing number null, and none is missing unsaid."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from training.data.schema import Field
from training.data.sources.mistakes import Mistake

#: How text is held: of most columns it has few values, which are then compared, numbered and stored once a block.
TEXT = pa.dictionary(pa.int32(), pa.string())


def held(declared: pa.DataType) -> pa.DataType:
    """The type of the values that were read, for a declared one."""
    return TEXT if is_text(declared) else declared


def is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def tidied(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Missing text as "", and what is not a number as missing. Raises pa.ArrowInvalid for text that is not UTF-8."""
    if is_text(values.type):
        values.validate(full=True)
        return pc.fill_null(values, "") if values.null_count else values
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return values


def check_present(table: pa.Table, fields: Sequence[Field]) -> None:
    """Raises Mistake for the first value that is missing where the schema says that none is."""
    for field in fields:
        if not field.nullable and (record := first_missing(table[field.name])) >= 0:
            where = f" ({field.declared}: a key and the time never are)" if field.declared else ""
            raise Mistake(record, f": column {field.name} is empty, and the schema says that it never is{where}.")


def first_missing(values: pa.ChunkedArray) -> int:
    """The position of the first missing value; -1 if there is none."""
    if values.type == TEXT:
        empty = any(pc.index(chunk.dictionary, "").as_py() >= 0 for chunk in values.chunks)
        return first_missing(values.cast(pa.string())) if empty else -1
    if is_text(values.type):
        return int(pc.index(pc.binary_length(values), 0).as_py())
    return int(pc.index(pc.is_null(values), True).as_py()) if values.null_count else -1
