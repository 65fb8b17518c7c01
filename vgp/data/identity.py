"""A number for each row, equal on every engine: 60 bits of the MD5 of a text of the row's columns.

The text of a row joins the texts of its columns, in their order, with "|":

    int64, boolean     the decimal number; true is 1
    date               days since 1970-01-01
    timestamp          microseconds since 1970-01-01 00:00 (in UTC, where it has a zone)
    float64            of adjacent columns together: the MD5, in hexadecimal digits, of eight bytes for each value,
                       those of IEEE 754 from the sign on; both zeros are 0.0, and each NaN is 7ff8000000000000.
                       BigQuery cannot read the bytes of a float: its SQL computes them with powers of two, which are
                       exact. DuckDB calls the Python function `float_bytes` once for adjacent columns, because Ibis
                       takes minutes to print SQL for hundreds of columns.
    string             unchanged, after its length in code points and ":" unless it is the last column
    null               nothing; a missing string is "", and a missing float64 the bytes 7ff8000000000001

Only equal rows have equal texts. The number is the last 15 hexadecimal digits of the MD5, read backwards: DuckDB shifts
the result of `md5_number` (other functions take four times as long), BigQuery reverses the text.
"""

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import cast

import duckdb
import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from duckdb.func import FunctionNullHandling, PythonUDFType

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data.engine import ID, PLACE, Engine, Row
from vgp.data.schema import FLOAT64_DIGITS


def _function(name: str, argument: str, result: str) -> Callable[[ir.Value], ir.Value]:
    """Returns a built-in function of an engine as an Ibis function."""
    builtin = ibis.udf.scalar.builtin(lambda value: value, name=name, signature=((argument,), result))
    return cast(Callable[[ir.Value], ir.Value], builtin)


#: Functions of DuckDB; a difference of two moments with a zone takes three times as long as `epoch_us`.
_md5_number, _epoch_us = _function("md5_number", "string", "uint64"), _function("epoch_us", "timestamp", "int64")
#: The Python function that `register_float_bytes` adds to DuckDB, and the MD5 of bytes in hexadecimal digits.
_float_bytes, _md5_digits = _function("float_bytes", "array<float64>", "binary"), _function("md5", "binary", "string")
#: Functions of BigQuery.
_md5, _to_hex = _function("MD5", "string", "binary"), _function("TO_HEX", "binary", "string")
_md5_bytes, _from_hex = _function("MD5", "binary", "binary"), _function("FROM_HEX", "string", "binary")


@ibis.udf.scalar.builtin(name="FORMAT", signature=(("string", "int64", "int64"), "string"))
def _format_two(form, high, low):  # type: ignore[no-untyped-def]
    """Formats two whole numbers in BigQuery."""


_unix_micros = _function("UNIX_MICROS", "timestamp", "int64")

#: Numbers are below 2**BITS.
BITS = 60
#: One hexadecimal digit of each byte of a number.
_DIGITS = 0x0F0F0F0F0F0F0F0F
#: Below this, floats are multiplied by 2**_LIFT first: a power of two large enough for the smallest does not exist.
_TINY, _LIFT = 2.0**-500, 600
#: The smallest float64 with 53 significant bits; the eight bytes of smaller ones are whole multiples of 2**-1074.
_NORMAL = 2.0**-1022
#: The eight bytes of infinity, of a NaN and of a missing value, as whole numbers.
_INFINITY, _NAN, _MISSING = 0x7FF0 << 48, 0x7FF8 << 48, (0x7FF8 << 48) + 1


def register_float_bytes(connection: duckdb.DuckDBPyConnection) -> None:
    """Registers `float_bytes`, which `number_rows` and `number` call, in a DuckDB connection."""
    connection.create_function(
        "float_bytes", pack_floats, ["double[]"], "blob",
        type=PythonUDFType.ARROW, null_handling=FunctionNullHandling.SPECIAL,
    )  # fmt: skip


def pack_floats(lists: pa.ChunkedArray) -> pa.Array:
    """Returns the bytes of each list of float64 values, eight for each. All lists must have the same length."""
    rows, values = len(lists), pc.list_flatten(lists).combine_chunks()
    numbers = (pc.fill_null(values, 0.0) if values.null_count else values).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
    encoded = numbers.view(np.int64)
    encoded[np.isnan(numbers)] = _NAN
    if values.null_count:
        encoded[values.is_null().to_numpy(zero_copy_only=False)] = _MISSING
    ends = np.arange(rows + 1, dtype=np.int32) * (8 * len(values) // max(1, rows))
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(encoded.byteswap(inplace=True))]
    )


def number_rows(rows: ir.Table, columns: Sequence[str], dialect: str, name: str) -> ir.Table:
    """Returns the rows with a column `name` (int64), from 0 to 2**60 - 1, equal for equal values of `columns`."""
    if dialect == "duckdb":
        others = (column for column in rows.columns if column != name)
        return rows.select(*others, **{name: number(rows, columns)})
    floats = [column for column in columns if rows[column].type().is_floating()]
    # In stages, because each is used several times in the next and the SQL would repeat it.
    staged = rows.mutate(**{f"_size_{i}": _clamp_size(rows[column]) for i, column in enumerate(floats)})
    for title, stage in (("_near", _scale_size), ("_step", _step), ("_part", _read_mantissa)):
        staged = staged.mutate(**{f"{title}_{i}": stage(staged, i) for i in range(len(floats))})
    texts: list[ir.StringValue] = []
    for floating, run in groupby(columns, lambda column: column in floats):
        if floating:
            digits = [_format_float_bytes(staged, column, floats.index(column)) for column in run]
            texts.append(_to_hex(_md5_bytes(_from_hex(ibis.literal("").join(digits)))))
        else:
            texts += [_encode_text(staged[column], dialect, column != columns[-1]) for column in run]
    joined = staged.mutate(_text=cast(ir.StringValue, ibis.literal("|")).join(texts))
    return joined.select(
        *(column for column in rows.columns if column != name), **{name: _hash_text(joined["_text"], dialect)}
    )


def number(rows: ir.Table, columns: Sequence[str]) -> ir.IntegerValue:
    """Returns the number of each row as a DuckDB expression."""
    return _hash_text(cast(ir.StringValue, ibis.literal("|")).join(_format_columns(rows, columns)), "duckdb")


def _format_columns(rows: ir.Table, columns: Sequence[str]) -> list[ir.StringValue]:
    """Returns the texts of the columns on DuckDB; adjacent floats have one common text, from one call."""
    texts: list[ir.StringValue] = []
    for floating, run in groupby(columns, lambda column: rows[column].type().is_floating()):
        if floating:
            values = ibis.array([rows[column].cast("float64") for column in run])
            texts.append(cast(ir.StringValue, _md5_digits(_float_bytes(values))))
        else:
            texts += [_encode_text(rows[column], "duckdb", column != columns[-1]) for column in run]
    return texts


def _encode_text(value: ir.Value, dialect: str, sized: bool) -> ir.StringValue:
    """Returns the text of a value; if `sized`, the text of a string begins with its length."""
    text = _format_value(value, dialect)
    if sized and value.type().is_string():
        return cast(ir.StringValue, text.length().cast("string") + ":" + text)
    return text


def _hash_text(text: ir.StringValue, dialect: str) -> ir.IntegerValue:
    if dialect == "bigquery":
        digits = _to_hex(_md5(text)).reverse().right(BITS // 4)
        return cast(ir.IntegerValue, (ibis.literal("0x") + digits).cast("int64"))
    value = _md5_number(text)
    swapped = ((value & (_DIGITS >> 8)) << 4) | ((value >> 4) & _DIGITS)
    return cast(ir.IntegerValue, swapped.cast("uint64").cast("int64"))  # it has 128 bits, a type that Ibis lacks


def to_epoch(value: ir.Value, dialect: str) -> ir.IntegerValue:
    """Returns a date in days, or a timestamp in microseconds, since 1970-01-01."""
    kind = value.type()
    if kind.is_date():
        return cast(ir.IntegerValue, value.delta(ibis.date("1970-01-01"), unit="day"))
    if kind.timezone:
        return cast(ir.IntegerValue, _unix_micros(value) if dialect == "bigquery" else _epoch_us(value))
    return cast(ir.IntegerValue, value.delta(ibis.timestamp("1970-01-01T00:00:00"), unit="microsecond"))


def _format_value(value: ir.Value, dialect: str) -> ir.StringValue:
    kind = value.type()
    if kind.is_string():
        return cast(ir.StringValue, value.fill_null(""))
    if kind.is_boolean():
        value = value.cast("int64")
    elif kind.is_date() or kind.is_timestamp():
        value = to_epoch(value, dialect)
    return cast(ir.StringValue, value.cast("string").fill_null(""))


def _clamp_size(value: ir.FloatingValue) -> ir.FloatingValue:
    """Returns the absolute value, or 0 if it is not finite."""
    return cast(ir.FloatingValue, (value.isnan() | value.isinf()).ifelse(0.0, value.cast("float64").abs()))


def _scale_size(rows: ir.Table, i: int) -> ir.FloatingValue:
    """Returns the size, scaled so that its powers of two exist, and 1 for 0, which has no logarithm."""
    size = rows[f"_size_{i}"]
    return cast(ir.FloatingValue, ibis.cases((size >= _TINY, size), (size > 0, size * 2.0**_LIFT), else_=1.0))


def _step(rows: ir.Table, i: int) -> ir.IntegerValue:
    """Returns the exponent, off by at most one, because logarithms are not exact."""
    return cast(ir.IntegerValue, rows[f"_near_{i}"].log2().floor().cast("int64"))


def _read_mantissa(rows: ir.Table, i: int) -> ir.FloatingValue:
    """Returns the mantissa, or half or double of it if the exponent is off by one."""
    return cast(ir.FloatingValue, rows[f"_near_{i}"] * ibis.literal(2.0) ** -rows[f"_step_{i}"])


def _format_float_bytes(rows: ir.Table, column: str, i: int) -> ir.StringValue:
    """Returns the eight bytes of a value in BigQuery, as 16 hexadecimal digits."""
    value, size, part = rows[column], rows[f"_size_{i}"], rows[f"_part_{i}"]
    shift = ibis.cases((part >= 2, 1), (part < 1, -1), else_=0)
    step = rows[f"_step_{i}"] + shift - (size >= _TINY).ifelse(0, _LIFT)
    mantissa = part * ibis.cases((part >= 2, 2.0**51), (part < 1, 2.0**53), else_=2.0**52)
    encoded = ibis.cases(
        (value.isnull(), _MISSING), (value.isnan(), _NAN), (value.isinf(), _INFINITY),
        (size >= _NORMAL, (step + 1022) * 2**52 + mantissa.cast("int64")),
        else_=(size * 2.0**_LIFT * 2.0 ** (1074 - _LIFT)).cast("int64"),
    )  # fmt: skip
    high = (encoded >> 32) + (value < 0).fill_null(False).ifelse(2**31, 0)
    return cast(ir.StringValue, _format_two("%08x%08x", high, encoded & 0xFFFFFFFF))


# ---- the id of every row, and repeated keys: both follow from one count of the ids


#: Repeated ids that are checked; with a key the first is an error, unless two keys share an id by chance.
MOST_REPEATED = 1_000


def with_ids(engine: Engine, rows: ir.Table, key: Sequence[str], columns: Sequence[str]) -> ir.Table:
    """Returns the rows with unique `_row_id` (int64), computed from the key, else from all declared columns.

    Without a key, the second and later copies of equal rows get an id from their copy number too.

    Args:
        rows: A source. If it has `_row_id` already, that is the number of the key or of the columns.
        columns: All declared columns.

    Raises:
        UserError: A key occurs twice.
    """
    named = rows if ID in rows.columns else number_rows(rows, key or columns, engine.dialect, ID)
    ids = engine.find_repeated_values(named, ID, MOST_REPEATED)
    if not ids:
        return named
    if not key:
        return _number_copies(named, engine.dialect)
    _check(engine, named, key, ids)
    return _separate_keys(named, key, engine.dialect, ids)


def _number_copies(rows: ir.Table, dialect: str) -> ir.Table:
    copies = rows.mutate(_copy=ibis.row_number().over(group_by=ID).cast("int64"))
    return _renumber(copies, [ID, "_copy"], dialect, copies["_copy"] > 0).drop("_copy")


def _separate_keys(rows: ir.Table, key: Sequence[str], dialect: str, ids: Sequence[int]) -> ir.Table:
    """Gives other ids, from another text, to different keys that share one of `ids` (a chance of two in a billion)."""
    again = rows.mutate(_again=ibis.literal("again"))
    return _renumber(again, [*key, "_again"], dialect, again[ID].isin(ids)).drop("_again")


def _renumber(rows: ir.Table, columns: Sequence[str], dialect: str, where: ir.BooleanValue) -> ir.Table:
    names = [name for name in rows.columns if name != ID]
    other = number_rows(rows.mutate(_where=where), columns, dialect, "_other")
    ids = cast(ir.IntegerValue, other["_where"].ifelse(other["_other"], other[ID]))
    return other.select(*names, **{ID: ids})


def _check(engine: Engine, rows: ir.Table, key: Sequence[str], ids: Sequence[int]) -> None:
    """Raises UserError if two rows of these ids have the same key."""
    place = [name for name in PLACE if name in rows.columns]
    matches = rows.filter(rows[ID].isin(ids)).select(ID, *place, *(name for name in key if name not in place))
    order = [ID, *key, *place]
    table = engine.read(matches.order_by(order).limit(2 * MOST_REPEATED)).to_pylist()
    for _, group in groupby(table, lambda row: [row[ID], *(_make_comparable(row[name]) for name in key)]):
        for first, second in pairwise(group):
            raise UserError(_describe_repeat(engine, key, first, second))


def _make_comparable(value: object) -> object:
    """Returns a value that is equal for 0.0 and -0.0, and for two NaNs."""
    return str(value + 0.0) if isinstance(value, float) else value


def _describe_repeat(engine: Engine, key: Sequence[str], first: Row, second: Row) -> str:
    values = ", ".join(f"{name}={join_names([str(first[name])])}" for name in key)
    here, there = engine.place(second), engine.place(first)
    problem = f"{here} occurs twice" if here == there else f"{here} repeats the key of {there}"
    hint = ""
    if rounded := [name for name in key if _may_be_rounded(first[name])]:
        hint = (
            f" {join_names(rounded)} is compared as float64, which is exact to {FLOAT64_DIGITS} digits: if "
            "the data has "
            "more, declare pa.int64(), or write it as text and declare pa.string()."
        )
    return f"{problem}: {values}. A key must occur once: keep one of the two.{hint}"


def _may_be_rounded(value: object) -> bool:
    if not isinstance(value, float):
        return False
    digits = repr(value).partition("e")[0].strip("-0.")
    return len(digits.replace(".", "")) > FLOAT64_DIGITS
