"""The declared columns of a table, their types on every engine, and the checks of a tabular task's declaration."""

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean, nearest
from vgp.base.text.printable import join_names, quote

#: The most names to compare a missing column with, and missing columns with a hint: each comparison takes 10 us.
MOST_COMPARED = 1_000
MOST_HINTS = 10
#: The least similarity, from 0 to 1, of a typing error: aera is one of area, but arr_delay is not one of dep_delay.
NEAR = 0.75


@dataclass(frozen=True)
class Field:
    """A declared column of the input."""

    name: str
    type: pa.DataType
    #: Whether a value may be missing: empty, NA, NULL or NaN. A missing string reads as "".
    nullable: bool = False
    #: Whether the value is known before the outcome, or only after it; `features` never sees the latter.
    known: Literal["before", "after"] = "before"
    #: The place where the user can change the type, for messages; "" = in the code of the task.
    declared: str = ""
    #: Whether the data may lack the column, so that its values are missing in every row. Prediction sets this for
    #: columns known after the outcome.
    optional: bool = False

    @property
    def fix(self) -> str:
        """Returns the fix, for the end of a message about a value of another type."""
        if not self.declared:
            return ""
        return f" Change {self.declared}, or name the text in `missing` there if it stands for a missing value."


def check_header(source: str, columns: Sequence[str], fields: Iterable[Field]) -> None:
    """Raises UserError if the file lacks a declared column, with the nearest name that it has."""
    fields, present = list(fields), set(columns)
    missing = [field.name for field in fields if field.name not in present and not field.optional]
    if not missing:
        return
    in_path = [name for name in missing if f"/{name}=" in source]
    hint = (
        f" {join_names(in_path)} is in the partition path only: write the files without partitions, or with a "
        "copy of that "
        "column."
    )
    raise UserError(
        f"{source} {missing_columns_message(columns, missing, {field.name for field in fields})}{hint * bool(in_path)}"
    )


def missing_columns_message(
    columns: Sequence[str], missing: Sequence[str], declared: AbstractSet[str] = frozenset()
) -> str:
    """Returns the message about a header that lacks declared columns, with the nearest names in the header."""
    spare = [column for column in columns[:MOST_COMPARED] if column not in declared]
    plain = {_normalize_name(column): column for column in spare}
    near = [(name, plain.get(_normalize_name(name)) or nearest(name, spare, NEAR)) for name in missing[:MOST_HINTS]]
    hints = "".join(f" Is {quote(column)} meant to be {name!r}?" for name, column in near if column)
    if any(column and column.casefold() == name.casefold() for name, column in near):
        hints += " Upper and lower case differ: declare the names as the file writes them."
    elif not hints and columns and all(re.fullmatch(r"[\d\s.,:/+-]*", column) for column in columns):
        hints = " Its first line must name the columns."
    return (
        f"lacks the column{'s' * (len(missing) > 1)} {join_names(missing)}; it has "
        f"{join_names(columns) or 'none'}.{hints}"
    )


def _normalize_name(name: str) -> str:
    """Returns the name in lower case, without spaces, `_` and `-`."""
    return re.sub(r"[\s_-]", "", name).casefold()


# ---- the canonical types of a task's expressions, equal on every engine and for every source


#: Different decimals of up to this many digits are different float64 (C11, 5.2.4.2.2: DBL_DIG).
FLOAT64_DIGITS = 15
TYPES = "whole numbers, floats, decimals, strings, booleans, dates and timestamps"


def canonical_schema(fields: Sequence[Field]) -> ibis.Schema:
    """Returns the canonical types of the fields. Raises UserError for a type that no engine has."""
    return ibis.schema({field.name: canonical_type(field) for field in fields})


def canonical_type(field: Field) -> str:
    """Returns the canonical type of a field. Raises UserError for a type that no engine has."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        raise UserError(f"the column {field.name} is declared as {kind}: declare its value type, {kind.value_type}.")
    if pa.types.is_decimal256(kind):
        raise UserError(
            f"the column {field.name} is declared as {kind}, which cannot be read from text: declare pa.float64()."
        )
    if pa.types.is_integer(kind):
        return "int64"
    if pa.types.is_float16(kind):
        raise UserError(
            f"the column {field.name} is declared as {kind}, which cannot be read from text: declare pa.float32()."
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
    raise UserError(f"the column {field.name} is declared as {field.type}: a table's columns must be {TYPES}.")


def arrow_schema(columns: ibis.Schema) -> pa.Schema:
    """Returns the Arrow schema of an expression's columns. (Ibis's own conversion needs a package of its backends.)"""
    return pa.schema([pa.field(name, _to_arrow(kind)) for name, kind in columns.items()])


def _to_arrow(kind: dt.DataType) -> pa.DataType:
    if isinstance(kind, dt.Timestamp):
        return pa.timestamp("us", tz="UTC" if kind.timezone else None)
    if isinstance(kind, dt.Decimal):
        return pa.decimal128(kind.precision or 38, kind.scale or 0)
    simple = {dt.Date: pa.date32(), dt.String: pa.string(), dt.Boolean: pa.bool_()}
    return simple.get(type(kind)) or pa.type_for_alias(str(kind.copy(nullable=True)))


# ---- the declaration of a tabular task about its columns, checked before any file is opened


#: The column of the day of each row, in whole days from 1970-01-01, for a task with a time that groups its rows by day.
DAY = "_day"
#: Names of columns that a preparation adds to the declared ones.
RESERVED = re.compile(
    r"_(file|record|row_id|split|label|day|mark|kind|when|past|hour|rows|known|total|asked|text|copy|again|where|other)"
    r"|_(size|near|step|part)_\d+"
)


@dataclass(frozen=True)
class Declaration:
    """The class attributes of a tabular task that name columns."""

    #: The name of the class.
    task: str
    schema: tuple[Field, ...]
    key: tuple[str, ...]
    time: str
    #: The first column that the class names as `group`; "" if it names none.
    group: str
    target: str
    #: Whether the class overrides `days` and `labels`, and so needs no columns `time` and `target`.
    own_days: bool
    own_labels: bool
    #: Whether the target is a number and not a class.
    regression: bool = False

    @property
    def before(self) -> tuple[str, ...]:
        """The columns known before the outcome."""
        return tuple(field.name for field in self.schema if field.known == "before")

    def check(self) -> None:
        """Raises UserError if the names do not fit the schema."""
        fields = {field.name: field for field in self.schema}
        if not fields:
            raise UserError(f"{self.task} declares no schema: name the columns of the table and their types.")
        if not self.before:
            raise UserError(f"{self.task}.schema has no column known before the outcome: a model needs at least one.")
        self._check_names()
        canonical_schema(self.schema)
        for attribute, names in (("key", self.key), ("time", [self.time]), ("target", [self.target])):
            for name in filter(None, names):
                if name not in fields:
                    raise UserError(
                        f"{self.task}.{attribute} names {name!r}, which is not in the schema. "
                        f"{did_you_mean(name, fields)}"
                    )
        self._check_target(fields)
        for name in filter(fields.__contains__, (*self.key, self.group)):
            self._check_digits(fields[name])
        for name in filter(None, (*self.key, self.time)):
            if fields[name].nullable:
                raise UserError(f"{self.task}: {name} is part of the key or the time, so it may not be nullable.")
        if self.time and not pa.types.is_temporal(fields[self.time].type) and not self.own_days:
            raise UserError(f"{self.task}.time must be a date or a timestamp; {self.time} is {fields[self.time].type}.")

    def _check_names(self) -> None:
        """Raises UserError for reserved names and for names that differ in case only, which are equal to engines."""
        names = dict[str, str]()
        for name in [field.name for field in self.schema]:
            other = names.get(name.lower(), "")
            if not name or other == name:
                raise UserError(f"{self.task}.schema names {name!r}, which is empty or a duplicate.")
            if RESERVED.fullmatch(name.lower()):
                raise UserError(f"{self.task}.schema: {name} is a reserved name: rename the column.")
            if other:
                raise UserError(
                    f"{self.task}.schema has both {other} and {name}: no two names may differ in case only."
                )
            names[name.lower()] = name

    def _check_digits(self, field: Field) -> None:
        """Raises UserError for a decimal with too many digits, because engines compute with decimals as float64."""
        if pa.types.is_decimal(field.type) and field.type.precision > FLOAT64_DIGITS:
            raise UserError(
                f"{self.task}: the key or group {field.name} is {field.type}, computed as float64, which is exact to "
                f"{FLOAT64_DIGITS} digits: two values could become equal. Declare pa.int64() if it has no fraction; "
                "else write it as text (in a .sql file CAST(... AS STRING)), and declare pa.string()."
            )

    def _check_target(self, fields: Mapping[str, Field]) -> None:
        if not self.target and not self.own_labels:
            raise UserError(f"{self.task} needs `target`, the column of the outcome, or a method `labels`.")
        if self.target and fields[self.target].known == "before":
            raise UserError(f"{self.task}: the target {self.target} must be declared with known='after'.")
        if self.regression and self.target and not self.own_labels and not _is_number(fields[self.target].type):
            raise UserError(
                f"{self.task}: the target {self.target} is {fields[self.target].type}, but a task with `quantiles` "
                "predicts a number: declare the target as a number, name `classes` instead, or write `labels`."
            )


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(test(kind) for test in tests)
