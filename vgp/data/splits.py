"""The splits of a table into rows that train, validate and test; the task's class and its options choose one of three.

`ByTime`          windows of a time column: `train`, `test`
split_hash.py     shares by a hash of the group, the key, or the columns known before the outcome: `test_share`
`ByColumn`        a column of the input with the names of splits
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
from vgp.base.text.printable import quote
from vgp.data.engine import Row
from vgp.data.periods import Spans, date_of, format_spans
from vgp.data.schema import Declaration
from vgp.data.split_hash import ByHash
from vgp.data.split_parts import NAMES, Kinds, Planned, mix_bits, nonzero, parse_percent, require_labelled
from vgp.data.task import Options
from vgp.data.windows import Windows, windows

#: The options of every tabular task about its splits. `split`: time, hash or a declared column; "" = time if the task
#: has a time column, else hash.
OPTIONS: Options = {"split": "", "train": "", "test": "", "test_share": 0.2, "validation_share": 0.05}


class Split(Protocol):
    """One of the three splits. A row's mark, an integer, decides its split; marks are counted first."""

    @property
    def column(self) -> str:
        """The column that holds the split, which is not a feature; "" if there is none."""

    @property
    def deciding(self) -> tuple[str, ...]:
        """The columns, or the one feature, that decide the split; () if the mark alone decides.

        Their number (`identity.number_rows`) is the column `_kind` of the rows.
        """

    @property
    def counts_kinds(self) -> bool:
        """Whether `plan` needs the counts of equal rows; then all of `deciding` are declared columns."""

    def mark(self, rows: ir.Table, day: ir.IntegerValue | None) -> ir.IntegerValue:
        """Returns the mark of each row; `day` is its day since 1970-01-01, for a task with a time.

        Null, or a day outside the calendar, marks a row that cannot be split: `wrong` explains it.
        """

    def wrong(self, row: Row) -> str:
        """Explains why a row has no mark; `row` has all declared columns."""

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> Planned:
        """Returns the plan for `assign`, with `split`, `rows_dropped` and `notes` of the manifest.

        Args:
            labelled, unlabelled: The number of rows by mark.
            kinds: The counts of equal rows; None unless `counts_kinds`.

        Raises:
            UserError: The data lacks rows that the split needs.
        """

    def assign(self, rows: ir.Table, planned: Planned) -> ir.IntegerValue:
        """Returns the split of each row, a position in `shares.NAMES`, or -1 for none.

        Args:
            rows: The rows with `_row_id`, `_mark`, and `_kind` if `deciding` is not empty.
        """


def choose(task: Declaration, unlabelled: str, defaults: Options, options: Options) -> Split:
    """Returns the split of the task.

    Args:
        unlabelled: The reason why a row may have no label.
        defaults: The options of the task's class.
        options: The user's options; a `train` window without `test` also drops the class's own `test` window.

    Raises:
        UserError: An option is wrong, or has no effect on this split.
    """
    merged = {**defaults, **options}
    if "train" in options and "test" not in options:
        merged["test"] = ""
    kind = merged["split"] or ("time" if task.time else "hash")
    _refuse_unused(task, kind, options)
    if kind == "time":
        return ByTime.choose(task, unlabelled, merged)
    if kind == "hash":
        return ByHash.choose(task, unlabelled, merged)
    names = [field.name for field in task.schema]
    if kind not in names:
        raise UserError(
            f"{task.task}: split = {kind!r} is neither time nor hash nor a column. {did_you_mean(kind, names)}"
        )
    return ByColumn.choose(task, unlabelled, kind)


def _refuse_unused(task: Declaration, kind: str, options: Options) -> None:
    """Raises UserError for an option that has no effect on the split `kind`."""
    if kind == "time" and not task.time:
        raise UserError(f"{task.task} has no time column, so split = time is not possible.")
    used = {"time": ("train", "test", "validation_share"), "hash": ("test_share", "validation_share")}.get(kind, ())
    ignored = [name for name in OPTIONS if name != "split" and name not in used and options.get(name, "") != ""]
    if ignored:
        reasons = {"time": "windows of time decide which rows are test rows",
                   "hash": f"{task.task} {'is split by a hash' if task.time else 'has no time column'}"}  # fmt: skip
        reason = reasons.get(kind, f"the column {kind} decides which rows are test rows")
        raise UserError(f"{' and '.join(ignored)} would do nothing: {reason}.")


# ---- the split by windows of time; whole days of the train window validate

#: The most days that a row's day is compared with one by one.
MOST_COMPARED = 4


@dataclass(frozen=True)
class ByTime:
    """The split by windows of days; the mark of a row is its day, counted from 1970-01-01."""

    windows: Windows
    validation_percent: int
    time: str
    unlabelled: str
    column: str = ""
    deciding: tuple[str, ...] = ()
    counts_kinds: bool = False

    @classmethod
    def choose(cls, task: Declaration, unlabelled: str, options: Options) -> "ByTime":
        pair = windows(options["train"], options["test"])
        return cls(pair, parse_percent("validation_share", options["validation_share"]), task.time, unlabelled)

    def mark(self, rows: ir.Table, day: ir.IntegerValue | None) -> ir.IntegerValue:
        assert day is not None, "a split by time is of a task with a time"
        return day

    def wrong(self, row: Row) -> str:
        return f"the row has no day of the years 1 to 9999; its {self.time} is {row[self.time]}."

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> Planned:
        present = labelled.keys() | unlabelled.keys()
        if not present:
            raise UserError("the input has no rows, so no model can be trained or tested.")
        train, test = self.windows.resolve(present)
        for spans in (train, test):
            require_labelled(any(_is_inside(day, spans) for day in labelled), format_spans(spans), self.unlabelled)
        without = sum(n for day, n in unlabelled.items() if _is_inside(day, (*train, *test)))
        outside = sum(n for days in (labelled, unlabelled) for day, n in days.items()
                      if not _is_inside(day, (*train, *test)))  # fmt: skip
        held_out = self._choose_validation([day for day in labelled if _is_inside(day, train)])
        return {
            "split": {"by": f"time ({self.time})", "train": format_spans(train), "test": format_spans(test)},
            "validation_days": [date_of(day).isoformat() for day in held_out],
            "rows_dropped": nonzero({self.unlabelled: without, "outside the windows": outside}),
            "_spans": (train, test),
            "_held_out": held_out,
        }

    def assign(self, rows: ir.Table, planned: Planned) -> ir.IntegerValue:
        day, (train, test) = cast(ir.IntegerValue, rows["_mark"]), planned["_spans"]
        held_out = [(_is_among(day, planned["_held_out"]), 1)] if planned["_held_out"] else []
        codes = ibis.cases((_is_within(day, test), 2), *held_out, (_is_within(day, train), 0), else_=-1)
        return cast(ir.IntegerValue, codes.cast("int8"))

    def _choose_validation(self, train_days: Collection[int]) -> list[int]:
        """Returns the validation share of the days, those with the smallest hashes; at least one if there are two."""
        days: Sequence[int] = sorted(train_days)
        fewest = int(len(days) > 1 and self.validation_percent > 0)
        count = max(len(days) * self.validation_percent // 100, fewest)
        order = np.argsort(mix_bits(np.array(days, np.int64).view(np.uint64)))
        return sorted(days[i] for i in order[:count])


def _is_inside(day: int, spans: Spans) -> bool:
    return any(start <= day < end for start, end in spans)


def _is_within(day: ir.IntegerValue, spans: Sequence[tuple[int, int]]) -> ir.BooleanValue:
    return cast(ir.BooleanValue, ibis.or_(*(day.between(start, end - 1) for start, end in spans)))


def _is_among(day: ir.IntegerValue, days: Sequence[int]) -> ir.BooleanValue:
    """Returns whether the day is one of these sorted days, by a binary search.

    Ten years hold out 182 days: a search takes a few comparisons for each row, where `isin` would join with a list.
    """
    if len(days) <= MOST_COMPARED:
        return cast(ir.BooleanValue, ibis.or_(*(day == other for other in days)))
    middle = len(days) // 2
    return (day < days[middle]).ifelse(_is_among(day, days[:middle]), _is_among(day, days[middle:]))


# ---- the split by a column of the input with `train`, `validation` or `test`; rows with "" are left out


@dataclass(frozen=True)
class ByColumn:
    """The split by a column of the names of splits; the mark of a row is the code of its split, or -1 for none."""

    column: str
    unlabelled: str
    deciding: tuple[str, ...] = ()
    counts_kinds: bool = False

    @classmethod
    def choose(cls, task: Declaration, unlabelled: str, column: str) -> "ByColumn":
        field = next(field for field in task.schema if field.name == column)
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise UserError(f"{task.task}: the split column {column} must hold strings; it is {field.type}.")
        return cls(column, unlabelled)

    def mark(self, rows: ir.Table, day: ir.IntegerValue | None) -> ir.IntegerValue:
        codes = [(name, code) for code, name in enumerate(NAMES)]
        text = cast(ir.StringValue, rows[self.column].fill_null(""))
        return cast(ir.IntegerValue, text.cases(*codes, ("", -1), else_=None).cast("int64"))

    def wrong(self, row: Row) -> str:
        return f"the split {quote(row[self.column])} is none of {', '.join(NAMES)}."

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> Planned:
        require_labelled(any(mark >= 0 for mark in labelled), f"the column {self.column}", self.unlabelled)
        without = sum(count for mark, count in unlabelled.items() if mark >= 0)
        left_out = labelled.get(-1, 0) + unlabelled.get(-1, 0)
        return {
            "split": {"by": f"column {self.column}"},
            "rows_dropped": nonzero({self.unlabelled: without, f"no split in {self.column}": left_out}),
        }

    def assign(self, rows: ir.Table, planned: Planned) -> ir.IntegerValue:
        return cast(ir.IntegerValue, rows["_mark"].cast("int8"))
