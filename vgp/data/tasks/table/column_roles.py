"""Finds the role of each column of a sample: key, time, slice, leak, or without information."""

import re
import shlex
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgp.data import leaks
from vgp.data.sources.values import is_text
from vgp.data.tasks.table.column_guess import MOSTLY_UNIQUE, Guess
from vgp.data.tasks.table.column_types import DATES, NUMBERS
from vgp.data.tasks.table.repeated_values import ID
from vgp.data.tasks.table.target_column import Target

#: Usual names of columns that identify rows.
KEY = re.compile(
    r"(^|[_\s-])(id|key|uuid|guid|no|nr|num|number|index|rowid)$|^(id|key|uuid|index)[_\s-]|[a-z]Id$|ID$", re.I
)
BIRTH = re.compile(r"birth|dob|geburt", re.I)
#: Names of columns that may hold the year of each row.
YEAR = re.compile(r"((fiscal|school|calendar)[_ .]?)?(year|yr|season)|jahr|ann[eé]e", re.I)
#: The most values of a slice column, and the most slice columns.
MOST_SLICED, MOST_SLICES = 12, 3
#: The largest share of the rows with one value of a slice column.
MOST_IN_SLICE = 0.95
#: The least rows for a verdict, and per bin of a number.
MIN_ROWS = 40
ROWS_PER_BIN = 20
#: A row counter rises by 1 in more than this share of the rows; not in all, because a sample may consist of pieces.
MOSTLY_ONE = 0.8
#: The least rows without an outcome that show which columns are unknown until the outcome is.
MIN_OPEN = 20


def find_key(columns: Mapping[str, Guess], target: str) -> str:
    """Returns the column that identifies the rows: unique, and named like an id (`KEY`); "" if there is none."""
    unique = [column for name, column in columns.items() if name != target and is_row_name(column)]
    keys = [column.name for column in unique if KEY.search(column.name)]
    return min(keys, key=lambda name: (name.lower() not in ("id", "key"), list(columns).index(name)), default="")


def is_row_name(column: Guess) -> bool:
    """Whether the column holds a different whole number or word in each row."""
    return column.unique and column.word in ("int", "category")


def find_times(columns: Mapping[str, Guess]) -> list[str]:
    """Returns the columns that may be the time of the rows: dates without gaps that span at least two months."""
    dates = [found for found in columns.values() if found.word in DATES and not BIRTH.search(found.name)]
    return [found.name for found in dates if not found.missing and count_months(found) > 1]


def explain_year(column: Guess) -> str:
    """Returns how to split by a column of whole years, or "" if the column holds none."""
    if column.word != "int" or column.missing or column.distinct < 2 or not YEAR.fullmatch(column.name):
        return ""
    if column.numbers.min() < 1900 or column.numbers.max() > 2100:
        return ""
    form = "date %Y" if is_text(column.values.type) else "date int %Y"
    options = f"--read {shlex.quote(f'{column.name}={form}')} --time {shlex.quote(column.name)} --group row"
    return f"the split ignores it; to test on the latest years, give {options}"


def count_months(column: Guess) -> int:
    """Counts the calendar months with dates."""
    days = column.days
    return int(pc.count_distinct(pc.add(pc.multiply(pc.year(days), 12), pc.month(days))).as_py())


def count_last_days(column: Guess, share: float, least: int) -> int:
    """Returns the length in days of the window that holds the latest `share` of the rows.

    Args:
        least: The window holds at least this many days with rows, if the table has three times as many.
    """
    days = np.sort(column.days.cast(pa.int32()).to_numpy(zero_copy_only=False))
    first, distinct = days[int((1 - share) * (len(days) - 1))], np.unique(days)
    if len(distinct) >= 3 * least:
        first = min(first, distinct[-least])
    return int(days[-1] - first + 1)


def find_slices(columns: Mapping[str, Guess]) -> list[str]:
    """Returns the categories by which the report splits its figures: those with the fewest values."""
    fitting = [
        column for column in columns.values() if column.word == "category" and 2 <= column.distinct <= MOST_SLICED
    ]
    fitting = [column for column in fitting if _count_most_frequent(column) <= MOST_IN_SLICE * len(column.values)]
    best = {column.name for column in sorted(fitting, key=lambda column: column.distinct)[:MOST_SLICES]}
    return [name for name in columns if name in best]


def _count_most_frequent(column: Guess) -> int:
    """Counts the rows with the most frequent value."""
    return int(pc.max(pc.value_counts(column.values).field("counts")).as_py())


def explain_useless(column: Guess) -> str:
    """Returns the reason why a model cannot learn from a column, or "" if it can."""
    rows = len(column.values)
    if not column.type:
        return column.why or "empty in every row"
    if not len(column.known):
        return "empty in every row"
    if column.distinct == 1 and not column.missing:
        return "the same in every row"
    if (is_row_name(column) or column.unique and is_whole(column)) and (
        column.word == "category" or KEY.search(column.name)
    ):
        return "a different value in each row"
    if is_whole(column) and column.unique and rows >= MIN_ROWS and _counts_rows(column.numbers):
        return "counts the rows"
    if is_whole(column) and ID.search(column.name) and column.distinct > rows // 10 and rows >= MIN_ROWS:
        return f"identifiers: {column.distinct:,} different numbers in {rows:,} rows"
    if column.word == "category" and column.distinct > MOSTLY_UNIQUE * len(column.known) and rows >= MIN_ROWS:
        return f"{column.distinct:,} values in {rows:,} rows: nearly unique"
    return ""


def is_whole(column: Guess) -> bool:
    """Whether the column holds whole numbers, also as floats: pandas writes 17.0 where another row has no value."""
    return column.word in NUMBERS and bool(np.all(np.nan_to_num(column.numbers) % 1 == 0))


def _counts_rows(numbers: np.ndarray) -> bool:
    """Whether the numbers count the rows up or down, with gaps where the sample has gaps.

    Unique numbers in another order may be a rank, which carries information.
    """
    steps = np.diff(numbers) if numbers[-1] > numbers[0] else -np.diff(numbers)
    return bool((steps > 0).all() and (steps == 1).mean() > MOSTLY_ONE)


def explain_leak(column: Guess, target: Target, group: Guess | None = None) -> str:
    """Returns the reason why a column gives the target away, or "" if it does not or there are too few rows.

    Args:
        group: The column that groups the rows: held-out rows are of other groups.
    """
    if _comes_with(column, target):
        return "probably known only with the outcome: it is missing where the target is"
    if target.regression:
        share = leaks.measure_explained_variance(*_halves(column, target, group))
        reason = f"alone it explains {share:.1%} of the target's variance on held-out rows"
        return reason if share > leaks.MAX_EXPLAINED else ""
    codes, labels = _halves(column, target, group)
    if len(codes) >= MIN_ROWS and _determines(codes, labels) and _determines(labels, codes):
        return "equivalent to the target: each value belongs to one class"
    for code, title in enumerate(target.classes):
        auc = leaks.separation(codes, labels == code)
        if auc > leaks.MAX_AUC:
            return f"alone it separates {title!r} from the rest (AUC {auc:.3f} on held-out rows)"
    return ""


def explain_near_leak(column: Guess, target: Target, group: Guess | None = None) -> str:
    """Returns the reason to suspect that a column leaks, which only the user can decide; "" if there is none."""
    words = leaks.measure_near_leak(*_halves(column, target, group), target.classes, ordered=column.word in NUMBERS)[1]
    return f"alone it nearly predicts the target ({words})" if words else ""


def _halves(column: Guess, target: Target, group: Guess | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns codes and targets of the rows with a target, shuffled so that one half tests the other."""
    known = np.flatnonzero(~np.isnan(target.values) if target.regression else target.values >= 0)
    rows = known[leaks.order(len(known))]
    rows = rows if group is None else leaks.sort_by_group(rows, _codes(group))
    return _codes(column)[rows], target.values[rows]


def _comes_with(column: Guess, target: Target) -> bool:
    """Whether a value is missing in most rows without an outcome but in few others, so it is known with the outcome."""
    unknown = np.isnan(target.values) if target.regression else target.values < 0
    missing = np.asarray(column.values.is_null().to_numpy(zero_copy_only=False))
    if unknown.sum() < MIN_OPEN or unknown.all():
        return False
    return bool(missing[unknown].mean() > 0.5 and missing[unknown].mean() > 10 * missing[~unknown].mean())


def _determines(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether each value of the first occurs with a single value of the second."""
    return len(np.unique(np.stack([first, second]), axis=1).T) == len(np.unique(first))


def _codes(column: Guess) -> np.ndarray:
    """Returns a code from 0 for each value; numbers are binned by quantiles with enough rows each."""
    if column.word in NUMBERS:
        return leaks.codes(column.numbers, min(leaks.BINS, max(4, len(column.known) // ROWS_PER_BIN)))
    encoded = pc.fill_null(column.values.cast(pa.string()), "").dictionary_encode()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False)).astype(np.int64)


def find_unusable_names(columns: Sequence[str]) -> dict[str, str]:
    """Returns the columns with unusable names, and the reasons."""
    reasons, spellings = {}, dict[str, str]()
    for name in columns:
        other = spellings.setdefault(name.lower(), name)
        if not name.strip():
            reasons[name] = "without a name, like an index that was saved with the table"
        elif other != name:
            reasons[name] = f"differs from {other} only in case, which engines ignore"
    return reasons
