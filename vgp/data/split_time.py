"""A split by windows of time; of the train window whole days validate."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import ibis
import ibis.expr.types as ir
import numpy as np

from vgp.base.exits import UserError
from vgp.data.declaration import Declaration
from vgp.data.periods import Spans, date_of, spoken
from vgp.data.shares import Kinds, mixed, nonzero, percent, require_labelled
from vgp.data.windows import Windows, windows

#: Days that a row's is compared with one by one.
MOST_COMPARED = 4


@dataclass(frozen=True)
class ByTime:
    """Windows of days; the mark of a row is its day, counted from 1970-01-01 on."""

    windows: Windows
    validation_percent: int
    time: str
    unlabelled: str
    column: str = ""
    deciding: tuple[str, ...] = ()
    counts_kinds: bool = False

    @classmethod
    def chosen(cls, task: Declaration, unlabelled: str, options: Mapping[str, Any]) -> "ByTime":
        pair = windows(options["train"], options["test"])
        return cls(pair, percent("validation_share", options["validation_share"]), task.time, unlabelled)

    def mark(self, rows: ir.Table, day: ir.IntegerValue | None) -> ir.IntegerValue:
        assert day is not None, "a split by time is of a task with a time"
        return day

    def wrong(self, row: Mapping[str, Any]) -> str:
        return f"the row has no day of the years 1 to 9999; its {self.time} is {row[self.time]}."

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> dict[str, Any]:
        present = labelled.keys() | unlabelled.keys()
        if not present:
            raise UserError("the input has no rows: there is nothing to learn or to test.")
        train, test = self.windows.resolve(present)
        for spans in (train, test):
            require_labelled(any(_inside(day, spans) for day in labelled), spoken(spans), self.unlabelled)
        without = sum(n for day, n in unlabelled.items() if _inside(day, (*train, *test)))
        outside = sum(n for days in (labelled, unlabelled) for day, n in days.items()
                      if not _inside(day, (*train, *test)))  # fmt: skip
        held_out = self._validation([day for day in labelled if _inside(day, train)])
        return {
            "split": {"by": f"time ({self.time})", "train": spoken(train), "test": spoken(test)},
            "validation_days": [date_of(day).isoformat() for day in held_out],
            "rows_dropped": nonzero({self.unlabelled: without, "outside the windows": outside}),
            "_spans": (train, test),
            "_held_out": held_out,
        }

    def assigned(self, rows: ir.Table, planned: Mapping[str, Any]) -> ir.IntegerValue:
        day, (train, test) = cast(ir.IntegerValue, rows["_mark"]), planned["_spans"]
        held_out = [(_among(day, planned["_held_out"]), 1)] if planned["_held_out"] else []
        codes = ibis.cases((_within(day, test), 2), *held_out, (_within(day, train), 0), else_=-1)
        return cast(ir.IntegerValue, codes.cast("int8"))

    def _validation(self, train_days: Collection[int]) -> list[int]:
        """The share of the days, at least one of two: those whose hashes are the smallest."""
        days: Sequence[int] = sorted(train_days)
        fewest = int(len(days) > 1 and self.validation_percent > 0)
        count = max(len(days) * self.validation_percent // 100, fewest)
        order = np.argsort(mixed(np.array(days, np.int64).view(np.uint64)))
        return sorted(days[i] for i in order[:count])


def _inside(day: int, spans: Spans) -> bool:
    return any(start <= day < end for start, end in spans)


def _within(day: ir.IntegerValue, spans: Sequence[tuple[int, int]]) -> ir.BooleanValue:
    return cast(ir.BooleanValue, ibis.or_(*(day.between(start, end - 1) for start, end in spans)))


def _among(day: ir.IntegerValue, days: Sequence[int]) -> ir.BooleanValue:
    """Whether the day is one of these, which are sorted. Of ten years 182 are held out: halved until few are left, they
    take a few comparisons of each row, where an engine would join the rows with a list."""
    if len(days) <= MOST_COMPARED:
        return cast(ir.BooleanValue, ibis.or_(*(day == each for each in days)))
    middle = len(days) // 2
    return (day < days[middle]).ifelse(_among(day, days[:middle]), _among(day, days[middle:]))
