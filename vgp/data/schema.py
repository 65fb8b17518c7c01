"""The declared columns of a table, and what to say of a file that lacks one."""

import difflib
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.text.printable import listed, quoted

#: Column names that a missing one is compared with, and missing ones that get a hint: each comparison takes 10 us.
MOST_COMPARED = 1_000
MOST_HINTS = 10
#: How alike, from 0 to 1, a name is that may be a slip of another: aera of area, and not arr_delay of dep_delay.
NEAR = 0.75


@dataclass(frozen=True)
class Field:
    """One column of the input."""

    name: str
    type: pa.DataType
    #: May be empty (or NA, NULL, NaN). An empty string column reads as "".
    nullable: bool = False
    #: Is its value known before the outcome, or only after it? `features` never sees the latter.
    known: Literal["before", "after"] = "before"
    #: Where a person can change its type, for messages; "" = in the code of its task.
    declared: str = ""
    #: May the data lack the column? Then it is missing in every row; so of what is known after the outcome, where rows
    #: are only predicted.
    optional: bool = False

    @property
    def fix(self) -> str:
        """How a message about a value of another type goes on."""
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
        f" {listed(in_path)} stands in its path alone, where partitions have it: write the files without partitions, "
        "or with a copy of that column."
    )
    raise UserError(f"{source} {lacking(columns, missing, {field.name for field in fields})}{hint * bool(in_path)}")


def lacking(columns: Sequence[str], missing: Sequence[str], declared: AbstractSet[str] = frozenset()) -> str:
    """What to say of a header without some of the declared columns, with the nearest names that it has."""
    spare = [column for column in columns[:MOST_COMPARED] if column not in declared]
    plain = {_plain(column): column for column in spare}
    near = [(name, plain.get(_plain(name)) or _nearest(name, spare)) for name in missing[:MOST_HINTS]]
    hints = "".join(f" Is {quoted(column)} meant to be {name!r}?" for name, column in near if column)
    if any(column and column.casefold() == name.casefold() for name, column in near):
        hints += " Upper and lower case differ: declare the names as the file writes them."
    elif not hints and columns and all(re.fullmatch(r"[\d\s.,:/+-]*", column) for column in columns):
        hints = " Its first line must name the columns."
    return f"lacks the column{'s' * (len(missing) > 1)} {listed(missing)}; it has {listed(columns) or 'none'}.{hints}"


def _plain(name: str) -> str:
    """A name without what people write in one way or another."""
    return re.sub(r"[\s_-]", "", name).casefold()


def _nearest(name: str, columns: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(name, columns, 1, NEAR)), "")
