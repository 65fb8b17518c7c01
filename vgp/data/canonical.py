"""The types that a task's expressions see, the same on every engine, whatever the source stores."""

from collections.abc import Sequence

import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.data.schema import Field

#: Decimals of so many digits are different float64 if they are different (C11, 5.2.4.2.2: DBL_DIG).
FLOAT64_DIGITS = 15
TYPES = "whole numbers, floats, decimals, strings, booleans, dates and timestamps"


def schema(fields: Sequence[Field]) -> ibis.Schema:
    """Raises UserError for a field of a type that no engine has."""
    return ibis.schema({field.name: dtype(field) for field in fields})


def dtype(field: Field) -> str:
    """Raises UserError for a type that no engine has."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        raise UserError(f"the column {field.name} is declared as {kind}: declare what it holds, {kind.value_type}.")
    if pa.types.is_decimal256(kind):
        raise UserError(
            f"the column {field.name} is declared as {kind}, of which no text is read: declare pa.float64()."
        )
    if pa.types.is_integer(kind):
        return "int64"
    if pa.types.is_float16(kind):
        raise UserError(
            f"the column {field.name} is declared as {kind}, of which no text is read: declare pa.float32()."
        )
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "float64"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "timestamp('UTC')" if kind.tz else "timestamp"
    raise UserError(f"the column {field.name} is declared as {field.type}: a table's columns are {TYPES}.")


def arrow(columns: ibis.Schema) -> pa.Schema:
    """The columns of an expression as Arrow has them. (Ibis's own way to say it needs a package of its backends.)"""
    return pa.schema([pa.field(name, _arrow(kind)) for name, kind in columns.items()])


def _arrow(kind: dt.DataType) -> pa.DataType:
    if isinstance(kind, dt.Timestamp):
        return pa.timestamp("us", tz="UTC" if kind.timezone else None)
    if isinstance(kind, dt.Decimal):
        return pa.decimal128(kind.precision or 38, kind.scale or 0)
    simple = {dt.Date: pa.date32(), dt.String: pa.string(), dt.Boolean: pa.bool_()}
    return simple.get(type(kind)) or pa.type_for_alias(str(kind.copy(nullable=True)))
