"""Which rows train, validate and test: by windows of months, or by a stable hash where there is no time."""

from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from training.data import keys
from training.data import windows as months
from training.data.windows import Windows
from training.errors import UserError

if TYPE_CHECKING:
    from training.data.tabular import TabularTask

#: The code of a split is its position; a row of none has -1.
NAMES = ("train", "validation", "test")
#: One day in this many of the train window is held out for the learning curve.
VALIDATION_DAYS = 20
#: Without time: per cent of the groups (or keys) that test and validate.
TEST_PERCENT, VALIDATION_PERCENT = 20, 5
EPOCH = date(1970, 1, 1)


def windows_of(task: "TabularTask") -> Windows | None:
    """The windows asked for, or the task's own; None = to be taken from the data, or no time at all."""
    if not task.time:
        if task.train_months or task.test_month:
            raise UserError(f"{type(task).__name__} has no time column, so train_months and test_month mean nothing.")
        return None
    train = task.train_months or task.default_train_months
    test = task.test_month or ("" if task.train_months else task.default_test_month)
    if test and not train:
        raise UserError(f"test_month {test!r} needs train_months.")
    return months.windows(train, test) if train else None


def plan(task: "TabularTask", labelled: Counter[int], unlabelled: Counter[int]) -> dict[str, Any]:
    """The split of the input with these rows per day, and the count of the rows that it leaves out.

    Raises:
        UserError: a month of the windows is not in the data, or has no labelled row.
    """
    if not task.time:
        _check_labelled(sum(labelled.values()), "the input", task.unlabelled)
        return {"rows_dropped": _nonzero({task.unlabelled: sum(unlabelled.values())})}
    present = {_month(day) for day in labelled.keys() | unlabelled.keys()}
    chosen = task.windows.resolve(present) if task.windows else months.latest(present)
    inside = {(month.year, month.month) for month in (*chosen.train, chosen.test)}
    outside = sum(n for day, n in (labelled + unlabelled).items() if _month(day) not in inside)
    train_days = sorted(day for day in labelled if _month(day) in set(chosen.train))
    test_days = sorted(day for day in labelled if _month(day) == chosen.test)
    for days, name in ((train_days, months.spoken(chosen.train)), (test_days, str(chosen.test))):
        _check_labelled(len(days), name, task.unlabelled)
    dropped = sum(n for day, n in unlabelled.items() if _month(day) in inside)
    return {
        "train_months": months.spoken(chosen.train),
        "test_month": str(chosen.test),
        "validation_days": _validation(train_days),
        "rows_dropped": _nonzero({task.unlabelled: dropped, "outside the months asked for": outside}),
    }


def assign(
    task: "TabularTask", table: pa.Table, days: NDArray[np.int32], statistics: Mapping[str, Any]
) -> NDArray[np.int8]:
    """The split code of each row, int8 (rows,); -1 for none."""
    if not task.time:
        return _by_hash(task, table)
    train = months.parse(statistics["train_months"], "train_months")
    test = months.parse(statistics["test_month"], "test_month")
    validation = set(statistics["validation_days"])
    distinct, position = np.unique(days, return_inverse=True)
    codes = [
        1 if _date(day).isoformat() in validation else 0 if _month(day) in train else 2 if _month(day) in test else -1
        for day in distinct.tolist()
    ]
    return np.array(codes, np.int8)[position]


def _by_hash(task: "TabularTask", table: pa.Table) -> NDArray[np.int8]:
    names = [task.group] if task.group in table.column_names else list(task.key) or table.column_names
    percent = keys.hashed([table[name].combine_chunks() for name in names]) % np.uint64(100)
    codes = np.select([percent < TEST_PERCENT, percent < TEST_PERCENT + VALIDATION_PERCENT], [2, 1], 0)
    return codes.astype(np.int8)


def _validation(train_days: list[int]) -> list[str]:
    """One day in VALIDATION_DAYS, but at least one of two: those whose hashes are the smallest."""
    count = max(len(train_days) // VALIDATION_DAYS, int(len(train_days) > 1))
    hashes = keys.mixed(np.array(train_days, np.int64).view(np.uint64))
    return sorted(_date(train_days[i]).isoformat() for i in np.argsort(hashes)[:count])


def _check_labelled(count: int, where: str, reason: str) -> None:
    if not count:
        raise UserError(f"{where} has no row with a label ({reason}): there is nothing to learn or to test.")


def _nonzero(counts: dict[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in counts.items() if count}


def _date(day: int) -> date:
    return EPOCH + timedelta(days=day)


def _month(day: int) -> tuple[int, int]:
    return _date(day).year, _date(day).month
