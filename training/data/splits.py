"""Which rows train, validate and test: by windows of months; without a time by a hash of what marks rows as alike.

Never by what is known only after the outcome: rows that differ in their label alone would then go to a split by it,
and the model would be tested on the opposite of what it learned.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from training.data import keys
from training.data import windows as months
from training.data.alike import Kinds
from training.data.keys import Hashes
from training.data.windows import Windows
from training.errors import UserError

if TYPE_CHECKING:
    from training.data.tabular import TabularTask

#: The code of a split is its position; a row of none has -1.
NAMES = ("train", "validation", "test")
#: One day in this many of the train window is held out for the learning curve.
VALIDATION_DAYS = 20
#: Without time: per cent of the groups, keys or rows that test and validate.
TEST_PERCENT, VALIDATION_PERCENT = 20, 5
#: By position, each run of so many rows gives its exact share to every split.
RUN_ROWS = 20
#: Rows that are alike are worth a word from this share of all on.
MANY_ALIKE = 0.05
#: Below this, splits of whole groups are off by more than .4 * sqrt(1 / 64), five percentage points, by chance.
ENOUGH_GROUPS = 64
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


def plan(task: "TabularTask", labelled: Counter[int], unlabelled: Counter[int], kinds: Kinds | None) -> dict[str, Any]:
    """The split of the input with these rows per day, and the count of the rows that it leaves out.

    Args:
        kinds: How often rows are alike in `deciding`; None where that does not matter.

    Raises:
        UserError: a month of the windows is not in the data, or has no labelled row.
    """
    if not task.time:
        _check_labelled(sum(labelled.values()), "the input", task.unlabelled)
        without = {task.unlabelled: sum(unlabelled.values())}
        return {"rows_dropped": _nonzero(without), **_by_kinds(task, kinds)}
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


def deciding(task: "TabularTask") -> tuple[str, ...]:
    """The declared columns that decide the split where there is no time: the group, else the key, else all that are
    known before the outcome. Empty if the group is a feature of the task's own making."""
    before = [field.name for field in task.schema if field.known == "before"]
    if task.group:
        return (task.group,) if task.group in before else ()
    return tuple(name for name in task.key if name in before) or tuple(before)


def counts_kinds(task: "TabularTask") -> bool:
    """Whether rows may be alike in what decides their split: not with a key, which occurs once, nor with a time."""
    if task.time:
        return False
    return bool(deciding(task)) if task.group else not task.key or deciding(task) != task.key


def hashes(task: "TabularTask", table: pa.Table) -> Hashes:
    """A hash of the deciding columns, uint64 (rows,)."""
    columns = [table[name].combine_chunks() for name in deciding(task)]
    return keys.hashed(columns) if columns else np.zeros(table.num_rows, np.uint64)


def assign(
    task: "TabularTask",
    table: pa.Table,
    group: pa.Array | None,
    days: NDArray[np.int32],
    first_row: int,
    statistics: Mapping[str, Any],
) -> NDArray[np.int8]:
    """The split code of each row, int8 (rows,); -1 for none.

    Args:
        group: The rows' groups, if the task has some.
        first_row: The position of the first row in the whole input.
    """
    if not task.time:
        if group is not None:
            return _by_hash(hashes(task, table) if deciding(task) else keys.hashed([group]))
        kinds = hashes(task, table)
        common = np.isin(kinds, statistics["_common"])
        return np.where(common, _by_position(first_row, len(kinds)), _by_hash(kinds))
    train = months.parse(statistics["train_months"], "train_months")
    test = months.parse(statistics["test_month"], "test_month")
    validation = set(statistics["validation_days"])
    distinct, position = np.unique(days, return_inverse=True)
    codes = [
        1 if _date(day).isoformat() in validation else 0 if _month(day) in train else 2 if _month(day) in test else -1
        for day in distinct.tolist()
    ]
    return np.array(codes, np.int8)[position]


def _by_hash(hashes: Hashes) -> NDArray[np.int8]:
    return _codes(hashes % np.uint64(100), 1)


def _by_position(first: int, rows: int) -> NDArray[np.int8]:
    """By chance, but the same for the same position, and with the exact shares in each run of RUN_ROWS."""
    start, stop = first // RUN_ROWS, -(-(first + rows) // RUN_ROWS)
    draws = keys.mixed(np.arange(start * RUN_ROWS, stop * RUN_ROWS, dtype=np.uint64)).reshape(-1, RUN_ROWS)
    ranks = draws.argsort(axis=1).argsort(axis=1).reshape(-1)
    return _codes(ranks[first - start * RUN_ROWS :][:rows], 100 // RUN_ROWS)


def _codes(places: NDArray[Any], percent: int) -> NDArray[np.int8]:
    """The splits of rows whose place, times `percent`, lies in 0 to 99."""
    test, validation = TEST_PERCENT // percent, VALIDATION_PERCENT // percent
    return np.select([places < test, places < test + validation], [2, 1], 0).astype(np.int8)


def _by_kinds(task: "TabularTask", kinds: Kinds | None) -> dict[str, Any]:
    """What decides the split, and what a reader must know of it."""
    if task.group:
        notes = (_few_groups(task, kinds),) if kinds and kinds.concentration > 1 / ENOUGH_GROUPS else ()
        return {"split_by": f"group {task.group}", "notes": notes}
    if not kinds:
        return {"split_by": "key", "notes": (), "_common": np.zeros(0, np.uint64)}
    many = len(kinds.common) or kinds.alike > MANY_ALIKE * kinds.rows
    by = "position" if kinds.common_rows > kinds.rows / 2 else "columns"
    return {"split_by": by, "notes": (_alike(task, kinds),) if many else (), "_common": kinds.common}


def _few_groups(task: "TabularTask", kinds: Kinds) -> str:
    return (
        f"A group goes to one split as a whole, and few make up most of the {kinds.rows:,} rows ({kinds.kinds:,} "
        f"values of {task.group}): the splits may be far from their shares, and a test on few groups says little."
    )


def _alike(task: "TabularTask", kinds: Kinds) -> str:
    where = f"the columns of the key ({', '.join(deciding(task))})" if task.key else "all columns"
    said = (
        f"{kinds.alike:,} of {kinds.rows:,} rows are like another in {where} known before the outcome: there are "
        f"{kinds.kinds:,} kinds of rows, and no key or group tells which belong together."
    )
    if len(kinds.common):
        said += (
            f" Rows of common kinds ({len(kinds.common):,} kinds, {kinds.common_rows:,} rows) go to the splits one by "
            "one, by their position in the input, so that their like may be in train and test."
        )
    if kinds.alike > kinds.common_rows:
        said += " Rows of every other kind stay together." if len(kinds.common) else " Rows of one kind stay together."
    return said + " A key or a group, if you declare one, decides instead."


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
    try:
        return EPOCH + timedelta(days=day)
    except OverflowError:
        raise UserError(f"a row is dated {day:,} days from 1970, which is beyond the years 1 to 9999.") from None


def _month(day: int) -> tuple[int, int]:
    return _date(day).year, _date(day).month
