"""What the class of a tabular task declares about its columns; checked before any file is opened."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.data import canonical
from vgp.data.schema import Field

#: The column of the day of each row, of a task with a time that groups its rows by it: whole days from 1970-01-01 on.
DAY = "_day"
#: Columns of our own beside the declared ones, on the way.
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
    #: Whether the class has methods of its own in place of the columns `time` and `target`.
    own_days: bool
    own_labels: bool
    #: Whether the target is a number to predict, and no class.
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
            raise UserError(
                f"{self.task}.schema has no column known before the outcome: there is nothing to learn from."
            )
        self._check_names()
        canonical.schema(self.schema)
        for attribute, names in (("key", self.key), ("time", [self.time]), ("target", [self.target])):
            for name in filter(None, names):
                if name not in fields:
                    raise UserError(f"{self.task}.{attribute} names {name!r}. {did_you_mean(name, fields)}")
        self._check_target(fields)
        for name in filter(fields.__contains__, (*self.key, self.group)):
            self._check_digits(fields[name])
        for name in filter(None, (*self.key, self.time)):
            if fields[name].nullable:
                raise UserError(f"{self.task}: {name} is a key or the time and may not be nullable.")
        if self.time and not pa.types.is_temporal(fields[self.time].type) and not self.own_days:
            raise UserError(f"{self.task}.time must be a date or a timestamp; {self.time} is {fields[self.time].type}.")

    def _check_names(self) -> None:
        """Engines do not tell upper from lower case in the names of columns."""
        spelled = dict[str, str]()
        for name in [field.name for field in self.schema]:
            other = spelled.get(name.lower(), "")
            if not name or other == name:
                raise UserError(f"{self.task}.schema names {name!r}, which is empty or stands there twice.")
            if RESERVED.fullmatch(name.lower()):
                raise UserError(f"{self.task}.schema: {name} is a name that preparing needs itself: rename the column.")
            if other:
                raise UserError(
                    f"{self.task}.schema has both {other} and {name}: no two names may differ in case only."
                )
            spelled[name.lower()] = name

    def _check_digits(self, field: Field) -> None:
        """Engines compute with decimals as float64."""
        if pa.types.is_decimal(field.type) and field.type.precision > canonical.FLOAT64_DIGITS:
            raise UserError(
                f"{self.task}: the key or group {field.name} is {field.type}, computed as float64: two of them of more "
                f"than {canonical.FLOAT64_DIGITS} digits could become one. Declare pa.int64() if it has no fraction; "
                "else write it as text (in a .sql file CAST(... AS STRING)), and declare pa.string()."
            )

    def _check_target(self, fields: Mapping[str, Field]) -> None:
        if not self.target and not self.own_labels:
            raise UserError(f"{self.task} needs `target`, the column of the outcome, or a method `labels`.")
        if self.target and fields[self.target].known == "before":
            raise UserError(f"{self.task}: the target {self.target} must be declared with known='after'.")
        if self.regression and self.target and not self.own_labels and not _is_number(fields[self.target].type):
            raise UserError(
                f"{self.task}: the target {self.target} is {fields[self.target].type}, and `quantiles` make it a "
                "regression, which predicts a number: declare it as one, name `classes` instead, or write `labels`."
            )


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(test(kind) for test in tests)
