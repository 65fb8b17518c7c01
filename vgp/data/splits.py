"""Which rows train, validate and test. The task's class and its options say which of three ways is taken.

`ByTime`          windows of a time column: `train`, `test`
split_hash.py     shares by a hash of the group, the key, or the columns known before the outcome: `test_share`
`ByColumn`        a column of the input that says it
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import quoted
from vgp.data.engine import Row
from vgp.data.periods import Spans, date_of, spoken
from vgp.data.schema import Declaration
from vgp.data.shares import NAMES, Kinds, Planned, mixed, nonzero, percent, require_labelled
from vgp.data.split_hash import ByHash
from vgp.data.task import Options
from vgp.data.windows import Windows, windows

#: The options of every tabular task about its splits. `split`: time, hash or a declared column; "" = time if the task
#: has a time column, else hash.
OPTIONS: Options = {"split": "", "train": "", "test": "", "test_share": 0.2, "validation_share": 0.05}


class Split(Protocol):
    """One of the three ways. Rows are split by their marks: whole numbers, which are counted first."""

    @property
    def column(self) -> str:
        """A column that says the split, and is no feature; "" if there is none."""

    @property
    def deciding(self) -> tuple[str, ...]:
        """Columns, or the one feature, by whose values alone the split is decided; none if the mark says all.

        Their number (`identity.numbered`) is then the column `_kind` of the rows that are split.
        """

    @property
    def counts_kinds(self) -> bool:
        """Whether `plan` wants to know how often rows are alike: then all of `deciding` are declared columns."""

    def mark(self, rows: ir.Table, day: ir.IntegerValue | None) -> ir.IntegerValue:
        """The mark of each row; `day` is its day since 1970-01-01, where there is a time.

        Null, or a day that no calendar has, is the mark of a row that cannot be split: `wrong` says why.
        """

    def wrong(self, row: Row) -> str:
        """What is wrong with a row that has no mark; the row has all declared columns."""

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> Planned:
        """The statistics that `assigned` needs, and `split`, `rows_dropped` and `notes` of the manifest.

        Args:
            labelled, unlabelled: How many rows have each mark.
            kinds: How often rows are alike; None where that does not matter.

        Raises:
            UserError: the data lacks what the split needs.
        """

    def assigned(self, rows: ir.Table, planned: Planned) -> ir.IntegerValue:
        """The split of each row, a position in `shares.NAMES`; -1 for none.

        Args:
            rows: With `_row_id`, `_mark`, and where some columns are `deciding` their `_kind`.
        """


def choose(task: Declaration, unlabelled: str, defaults: Options, options: Options) -> Split:
    """The way that the task is split.

    Args:
        unlabelled: Why a row may have no label.
        defaults: The options of the task's class.
        options: What the user gave; a `train` window alone is not tested by the class's own `test` window.

    Raises:
        UserError: an option is wrong, or means nothing for this way.
    """
    chosen = {**defaults, **options}
    if "train" in options and "test" not in options:
        chosen["test"] = ""
    way = chosen["split"] or ("time" if task.time else "hash")
    _refuse_meaningless(task, way, options)
    if way == "time":
        return ByTime.chosen(task, unlabelled, chosen)
    if way == "hash":
        return ByHash.chosen(task, unlabelled, chosen)
    names = [field.name for field in task.schema]
    if way not in names:
        raise UserError(
            f"{task.task}: split = {way!r} is neither time nor hash nor a column. {did_you_mean(way, names)}"
        )
    return ByColumn.chosen(task, unlabelled, way)


def _refuse_meaningless(task: Declaration, way: str, options: Options) -> None:
    """Raises UserError for an option that would do nothing."""
    if way == "time" and not task.time:
        raise UserError(f"{task.task} has no time column, so split = time is not possible.")
    used = {"time": ("train", "test", "validation_share"), "hash": ("test_share", "validation_share")}.get(way, ())
    ignored = [name for name in OPTIONS if name != "split" and name not in used and options.get(name, "") != ""]
    if ignored:
        reasons = {"time": "windows of time say which rows test",
                   "hash": f"{task.task} {'is split by a hash' if task.time else 'has no time column'}"}  # fmt: skip
        reason = reasons.get(way, f"the column {way} says which rows test")
        raise UserError(f"{' and '.join(ignored)} would do nothing: {reason}.")


# ---- windows of time; of the train window whole days validate

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
    def chosen(cls, task: Declaration, unlabelled: str, options: Options) -> "ByTime":
        pair = windows(options["train"], options["test"])
        return cls(pair, percent("validation_share", options["validation_share"]), task.time, unlabelled)

    def mark(self, rows: ir.Table, day: ir.IntegerValue | None) -> ir.IntegerValue:
        assert day is not None, "a split by time is of a task with a time"
        return day

    def wrong(self, row: Row) -> str:
        return f"the row has no day of the years 1 to 9999; its {self.time} is {row[self.time]}."

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> Planned:
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

    def assigned(self, rows: ir.Table, planned: Planned) -> ir.IntegerValue:
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


# ---- a split that a column of the input gives: `train`, `validation` or `test`; rows that say nothing are left out


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

    def wrong(self, row: Row) -> str:
        return f"the split {quoted(row[self.column])} is none of {', '.join(NAMES)}."

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> Planned:
        require_labelled(any(mark >= 0 for mark in labelled), f"the column {self.column}", self.unlabelled)
        without = sum(count for mark, count in unlabelled.items() if mark >= 0)
        left_out = labelled.get(-1, 0) + unlabelled.get(-1, 0)
        return {
            "split": {"by": f"column {self.column}"},
            "rows_dropped": nonzero({self.unlabelled: without, f"no split in {self.column}": left_out}),
        }

    def assigned(self, rows: ir.Table, planned: Planned) -> ir.IntegerValue:
        return cast(ir.IntegerValue, rows["_mark"].cast("int8"))
