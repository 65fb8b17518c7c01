"""A split that a column of the input gives: `train`, `validation` or `test`; rows that say nothing are left out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import ibis.expr.types as ir
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.printable import quoted
from vgp.data.alike import Kinds
from vgp.data.declaration import Declaration
from vgp.data.shares import NAMES, nonzero, require_labelled


@dataclass(frozen=True)
class ByColumn:
    """A column of the names of splits; the mark of a row is the code of its split, -1 for none."""

    column: str
    unlabelled: str
    deciding: tuple[str, ...] = ()
    counts_kinds: bool = False

    @classmethod
    def chosen(cls, task: Declaration, unlabelled: str, column: str) -> "ByColumn":
        field = next(field for field in task.schema if field.name == column)
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise UserError(f"{task.task}: the split column {column} must be of strings; it is {field.type}.")
        return cls(column, unlabelled)

    def mark(self, rows: ir.Table, day: ir.IntegerValue | None) -> ir.IntegerValue:
        codes = [(name, code) for code, name in enumerate(NAMES)]
        text = cast(ir.StringValue, rows[self.column].fill_null(""))
        return cast(ir.IntegerValue, text.cases(*codes, ("", -1), else_=None).cast("int64"))

    def wrong(self, row: Mapping[str, Any]) -> str:
        return f"the split {quoted(row[self.column])} is none of {', '.join(NAMES)}."

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> dict[str, Any]:
        require_labelled(any(mark >= 0 for mark in labelled), f"the column {self.column}", self.unlabelled)
        without = sum(count for mark, count in unlabelled.items() if mark >= 0)
        left_out = labelled.get(-1, 0) + unlabelled.get(-1, 0)
        return {
            "split": {"by": f"column {self.column}"},
            "rows_dropped": nonzero({self.unlabelled: without, f"no split in {self.column}": left_out}),
        }

    def assigned(self, rows: ir.Table, planned: Mapping[str, Any]) -> ir.IntegerValue:
        return cast(ir.IntegerValue, rows["_mark"].cast("int8"))
