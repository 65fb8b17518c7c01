"""A split that a column of the input gives: `train`, `validation` or `test`; rows that say nothing are left out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from training.data.alike import Kinds
from training.data.declaration import Declaration
from training.data.shares import NAMES, nonzero, require_labelled
from training.errors import UserError
from training.printable import quoted


class WrongRow(ValueError):
    """The row number `record` of a table says what cannot be."""

    def __init__(self, record: int, text: str):
        super().__init__(text)
        self.record = record


@dataclass(frozen=True)
class ByColumn:
    """A column of the names of splits; the mark of a row is the code of its split, -1 for none."""

    column: str
    unlabelled: str

    @classmethod
    def chosen(cls, task: Declaration, unlabelled: str, column: str) -> "ByColumn":
        field = next(field for field in task.schema if field.name == column)
        if not pa.types.is_string(field.type):
            raise UserError(f"{task.task}: the split column {column} must be of strings; it is {field.type}.")
        return cls(column, unlabelled)

    def marks(self, table: pa.Table, days: Callable[[pa.Table], NDArray[np.int32]]) -> NDArray[np.int32]:
        """Raises WrongRow for a text that is no split."""
        column = table[self.column].combine_chunks()
        codes = pc.index_in(column, pa.array(NAMES))
        record = pc.index(pc.and_(codes.is_null(), pc.not_equal(column, "")), True).as_py()
        if record >= 0:
            raise WrongRow(record, f"the split {quoted(column[record].as_py())} is none of {', '.join(NAMES)}.")
        return np.asarray(pc.fill_null(codes, -1).cast(pa.int32()))

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> dict[str, Any]:
        require_labelled(any(mark >= 0 for mark in labelled), f"the column {self.column}", self.unlabelled)
        without = sum(count for mark, count in unlabelled.items() if mark >= 0)
        left_out = labelled.get(-1, 0) + unlabelled.get(-1, 0)
        return {
            "split": {"by": f"column {self.column}"},
            "rows_dropped": nonzero({self.unlabelled: without, f"no split in {self.column}": left_out}),
        }

    def assign(
        self, table: pa.Table, marks: NDArray[np.int32], group: pa.Array | None, first_row: int,
        statistics: Mapping[str, Any],
    ) -> NDArray[np.int8]:  # fmt: skip
        return marks.astype(np.int8)
