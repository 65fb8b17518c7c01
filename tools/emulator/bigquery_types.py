"""Converts Arrow's types to BigQuery's, and rows to BigQuery's JSON."""

import base64
from datetime import date, datetime
from typing import Any

import pyarrow as pa

#: Arrow's types with BigQuery's names, of which the first match counts: https://cloud.google.com/bigquery/docs/reference/storage
KINDS = (
    (pa.types.is_boolean, "BOOLEAN", pa.bool_()),
    (pa.types.is_integer, "INTEGER", pa.int64()),
    (pa.types.is_floating, "FLOAT", pa.float64()),
    (pa.types.is_string, "STRING", pa.string()),
    (pa.types.is_large_string, "STRING", pa.string()),
    (pa.types.is_dictionary, "STRING", pa.string()),
    (pa.types.is_date, "DATE", pa.date32()),
    (pa.types.is_binary, "BYTES", pa.binary()),
    (pa.types.is_time, "TIME", pa.time64("us")),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz, "TIMESTAMP", pa.timestamp("us", tz="UTC")),
    (pa.types.is_timestamp, "DATETIME", pa.timestamp("us")),
    (lambda kind: pa.types.is_decimal(kind) and kind.scale <= 9, "NUMERIC", pa.decimal128(38, 9)),
    (pa.types.is_decimal, "BIGNUMERIC", pa.decimal256(76, 38)),
)
#: Bytes of a value: https://cloud.google.com/bigquery/docs/reference/standard-sql/data-types#data_type_sizes
SIZES = {"BOOLEAN": 1, "NUMERIC": 16, "BIGNUMERIC": 32}


def kind(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return kind(arrow.value_type)
    return next(name for fits, name, _ in KINDS if fits(arrow))


def convert_table(table: pa.Table) -> pa.Table:
    """Converts the table to the types that BigQuery returns."""
    fields = [pa.field(field.name, _widen_type(field.type)) for field in table.schema]
    return pa.table([table[f.name].cast(f.type) for f in fields], pa.schema(fields))


def _widen_type(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_list(arrow):
        return arrow
    return next(wide for fits, _, wide in KINDS if fits(arrow))


def schema(table: pa.Schema) -> dict[str, Any]:
    modes = {True: "REPEATED", False: "NULLABLE"}
    return {
        "fields": [
            {"name": field.name, "type": kind(field.type), "mode": modes[pa.types.is_list(field.type)]}
            for field in table
        ]
    }


def logical_bytes(column: pa.ChunkedArray) -> int:
    name = kind(column.type)
    if name in ("STRING", "BYTES"):
        return sum(2 + len(str(value)) for value in column.to_pylist() if value is not None)
    return (len(column) - column.null_count) * SIZES.get(name, 8)


def row(values: dict[str, Any], *, micros: bool) -> dict[str, Any]:
    return {"f": [{"v": cell(value, micros=micros)} for value in values.values()]}


def cell(value: Any, *, micros: bool) -> Any:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
        case datetime() if value.tzinfo:
            return str(round(value.timestamp() * 1e6)) if micros else repr(value.timestamp())
        case datetime():
            return value.isoformat()
        case date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [{"v": cell(item, micros=micros)} for item in value]
    return str(value)
