"""What each column of a sample is to a task: key, time, a leak, something to learn from, or nothing."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.data import leaks
from vgp.data.tasks.table.guess import MOSTLY_UNIQUE, Guess
from vgp.data.tasks.table.kinds import DATES, NUMBERS
from vgp.data.tasks.table.repeats import ID
from vgp.data.tasks.table.target import Target

#: What people call the column that names a row, and the time at which it is predicted.
KEY = re.compile(
    r"(^|[_\s-])(id|key|uuid|guid|no|nr|num|number|index|rowid)$|^(id|key|uuid|index)[_\s-]|[a-z]Id$|ID$", re.I
)
BIRTH = re.compile(r"birth|dob|geburt", re.I)
#: The most values of a column by which figures are split, and how many such columns.
MOST_SLICED, MOST_SLICES = 12, 3
#: A value that more of the rows have is nearly all of them, and no part.
MOST_IN_SLICE = 0.95
#: Rows for a verdict on a leak, and for one on a column that is as good as the target.
MIN_ROWS = 40
ROWS_PER_BIN = 20
#: Of the steps from row to row of a count of the rows, so many are 1 in a sample of pieces.
MOSTLY_ONE = 0.8
#: Rows without an outcome that tell which columns come with it.
MIN_OPEN = 20


def key(columns: Mapping[str, Guess], target: str) -> str:
    """The column that names the rows: another value in each, and a name that says so; "" if none does."""
    unique = [found for name, found in columns.items() if name != target and is_name(found)]
    named = [found.name for found in unique if KEY.search(found.name)]
    return min(named, key=lambda name: (name.lower() not in ("id", "key"), list(columns).index(name)), default="")


def is_name(found: Guess) -> bool:
    """Whether a value tells which row it is: whole numbers or words, another one in every row."""
    return found.unique and found.word in ("int", "category")


def times(columns: Mapping[str, Guess]) -> list[str]:
    """What may be the time of the rows: dates that no row lacks, over two months at least."""
    dates = [found for found in columns.values() if found.word in DATES and not BIRTH.search(found.name)]
    return [found.name for found in dates if not found.missing and months(found) > 1]


def months(found: Guess) -> int:
    """How many months the dates fall into."""
    days = found.days
    return int(pc.count_distinct(pc.add(pc.multiply(pc.year(days), 12), pc.month(days))).as_py())


def days_of_last(found: Guess, share: float, least: int) -> int:
    """The days that this share of the rows takes, the latest of them.

    Args:
        least: So many days with rows are among them, if the table has three times as many.
    """
    days = np.sort(found.days.cast(pa.int32()).to_numpy(zero_copy_only=False))
    first, distinct = days[int((1 - share) * (len(days) - 1))], np.unique(days)
    if len(distinct) >= 3 * least:
        first = min(first, distinct[-least])
    return int(days[-1] - first + 1)


def slices(columns: Mapping[str, Guess]) -> list[str]:
    """Columns by whose values figures are worth a look, the fewest values first."""
    fitting = [found for found in columns.values() if found.word == "category" and 2 <= found.distinct <= MOST_SLICED]
    fitting = [found for found in fitting if _most(found) <= MOST_IN_SLICE * len(found.values)]
    chosen = sorted(fitting, key=lambda found: found.distinct)[:MOST_SLICES]
    return [name for name in columns if name in {found.name for found in chosen}]


def _most(found: Guess) -> int:
    """Rows with the most frequent value."""
    return int(pc.max(pc.value_counts(found.values).field("counts")).as_py())


def spare(found: Guess) -> str:
    """Why nothing can be learned from a column by itself; "" if something can."""
    rows = len(found.values)
    if not found.type:
        return found.why or "empty in every row"
    if not len(found.known):
        return "empty in every row"
    if found.distinct == 1 and not found.missing:
        return "the same in every row"
    if is_name(found) and (found.word == "category" or KEY.search(found.name)):
        return "another value in every row"
    if found.word == "int" and found.unique and rows >= MIN_ROWS and _counts(found.numbers):
        return "counts the rows"
    if found.word == "int" and ID.search(found.name) and found.distinct > rows // 10 and rows >= MIN_ROWS:
        return f"{found.distinct:,} numbers that name something, in {rows:,} rows: no amounts"
    if found.word == "category" and found.distinct > MOSTLY_UNIQUE * len(found.known) and rows >= MIN_ROWS:
        return f"{found.distinct:,} values in {rows:,} rows: nearly another in every row"
    return ""


def _counts(numbers: np.ndarray) -> bool:
    """Whether each is one more, or one less, than that of the row before, but for where rows were passed over.

    The same numbers in another order are a rank, or places in a queue, and may tell something.
    """
    steps = np.diff(numbers) if numbers[-1] > numbers[0] else -np.diff(numbers)
    return bool((steps > 0).all() and (steps == 1).mean() > MOSTLY_ONE)


def leak(found: Guess, target: Target, group: Guess | None = None) -> str:
    """Why a column would tell the target by itself; "" if it does not, or too few rows say so.

    Args:
        group: What rows belong to: what some of its rows tell says nothing of the others.
    """
    if _comes_with(found, target):
        return "known only afterwards, it seems: it is missing where the target is"
    if target.regression:
        share = leaks.explained(*_halves(found, target, group))
        told = f"alone it tells {share:.1%} of how the target varies, on held-out rows"
        return told if share > leaks.MAX_EXPLAINED else ""
    codes, labels = _halves(found, target, group)
    if len(codes) >= MIN_ROWS and _same(codes, labels) and _same(labels, codes):
        return "as good as the target: each value stands for one class"
    for code, title in enumerate(target.classes):
        auc = leaks.separation(codes, labels == code)
        if auc > leaks.MAX_AUC:
            return f"alone it tells {title!r} from the rest (AUC {auc:.3f} on held-out rows)"
    return ""


def near_leak(found: Guess, target: Target, group: Guess | None = None) -> str:
    """How much of the target a column tells by itself, where it may be known only afterwards; "" if it is not much."""
    words = leaks.nearly(*_halves(found, target, group), target.classes, ordered=found.word in NUMBERS)[1]
    return f"alone it nearly tells the target ({words})" if words else ""


def _halves(found: Guess, target: Target, group: Guess | None) -> tuple[np.ndarray, np.ndarray]:
    """The codes and the target of rows that have one, in an order whose halves tell of each other."""
    known = np.flatnonzero(~np.isnan(target.values) if target.regression else target.values >= 0)
    rows = known[leaks.order(len(known))]
    rows = rows if group is None else leaks.apart(rows, _codes(group))
    return _codes(found)[rows], target.values[rows]


def _comes_with(found: Guess, target: Target) -> bool:
    """Whether a value is missing in most rows without an outcome, and in few others: both come to be together."""
    open_ = np.isnan(target.values) if target.regression else target.values < 0
    missing = np.asarray(found.values.is_null().to_numpy(zero_copy_only=False))
    if open_.sum() < MIN_OPEN or open_.all():
        return False
    return bool(missing[open_].mean() > 0.5 and missing[open_].mean() > 10 * missing[~open_].mean())


def _same(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether each value of the first comes with one value of the second."""
    return len(np.unique(np.stack([first, second]), axis=1).T) == len(np.unique(first))


def _codes(found: Guess) -> np.ndarray:
    """Codes from 0: of a number by quantiles, each with enough rows to learn from."""
    if found.word in NUMBERS:
        return leaks.codes(found.numbers, min(leaks.BINS, max(4, len(found.known) // ROWS_PER_BIN)))
    encoded = pc.fill_null(found.values.cast(pa.string()), "").dictionary_encode()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False)).astype(np.int64)


def names(columns: Sequence[str]) -> dict[str, str]:
    """The columns whose names cannot be used, and why."""
    wrong, spelled = {}, dict[str, str]()
    for name in columns:
        other = spelled.setdefault(name.lower(), name)
        if not name.strip():
            wrong[name] = "without a name, as an index that was saved with the table"
        elif other != name:
            wrong[name] = f"differs from {other} in case only, and engines do not tell them apart"
    return wrong
