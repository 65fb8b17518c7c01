"""The values of a column of a task.toml: the type in which they are read, and Ibis expressions of them."""

from collections.abc import Sequence
from typing import cast

import ibis.expr.types as ir
import pyarrow as pa

from training.tasks.table.kinds import Kind

#: Of each word the type in which the reader hands values on; of a date in a form of its own that is text.
STORED = {
    "int": pa.int64(),
    "float": pa.float64(),
    "number": pa.string(),
    "bool": pa.bool_(),
    "category": pa.string(),
    "category int": pa.int64(),
    "category float": pa.float64(),
    "text": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp UTC": pa.timestamp("us", tz="UTC"),
}
#: What is taken out of a number that is written with signs.
SIGNS = r"[$€£¥%\s']"


def stored(kind: Kind) -> pa.DataType:
    return pa.string() if kind.form else STORED[kind.word]


def text_of(value: ir.Value, kind: Kind, missing: Sequence[str]) -> ir.StringValue:
    """A category or a text, "" where it is missing."""
    if kind.word != kind.name:  # 3, not 3.0, which engines write in more than one way
        whole = cast(ir.NumericValue, value).round() if value.type().is_floating() else value
        return cast(ir.StringValue, whole.cast("int64").cast("string").fill_null(""))
    text = cast(ir.StringValue, value).fill_null("").strip()
    return cast(ir.StringValue, text.isin(list(missing)).ifelse("", text)) if missing else text


def number_of(value: ir.Value, kind: Kind, missing: Sequence[str], decimal: str) -> ir.NumericValue:
    """A number, null where it is missing."""
    if kind.word != "number":
        return cast(ir.NumericValue, value)
    text = text_of(value, kind, missing).re_replace(SIGNS, "")
    text = text.replace("." if decimal == "," else ",", "")
    return cast(ir.NumericValue, text.replace(",", ".").nullif("").cast("float64"))


def date_of(value: ir.Value, kind: Kind, missing: Sequence[str]) -> ir.DateValue:
    """The day, null where it is missing."""
    return cast(ir.DateValue, moment_of(value, kind, missing).cast("date"))


def moment_of(value: ir.Value, kind: Kind, missing: Sequence[str]) -> ir.Value:
    if not kind.form:
        return value
    text = cast(ir.StringValue, text_of(value, kind, missing).nullif(""))
    return text.as_date(kind.form) if kind.name == "date" else text.as_timestamp(kind.form)
