"""Decides whether a target is learned as two classes, as several classes or as a number; finds the positive class."""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names, quote
from vgp.data.tasks.table.column_guess import Guess
from vgp.data.tasks.table.column_types import NUMBERS, with_missing
from vgp.data.tasks.table.declaration import MOST_CLASSES

#: Whole numbers with at most this many distinct values are classes.
MOST_NUMBERED = 20
#: Usual names of the positive class.
POSITIVE = (
    "1", "1.0", "yes", "y", "true", "t", "positive", "pos", "late", "bad", "fraud", "default", "churn", "churned",
    "malignant", "spam", "survived", "died", "sick", "ill", "won", "bought", "clicked",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """The target column, with the kind of model that learns it and the reason."""

    name: str
    #: A type of `kinds`.
    type: str
    #: Empty for a regression.
    classes: tuple[str, ...]
    why: str
    #: The class code of each row, -1 for missing; for a regression the numbers, nan for missing.
    values: np.ndarray

    @property
    def regression(self) -> bool:
        return not self.classes


def read_target(column: Guess, kind: str = "", positive: str = "", left_out: Collection[str] = ()) -> Target:
    """Returns the column as a target.

    Args:
        kind: `classes` or `regression`; "" = decided by the values.
        positive: The positive one of two classes; "" = the one with a usual name (`POSITIVE`), else the rarer one.
        left_out: Classes whose rows are dropped.

    Raises:
        UserError: the column cannot be learned (no value, a single value, or a different text in each row), or does
            not fit an option.
    """
    name = quote(column.name)
    if not len(column.known):
        raise UserError(f"the target {name} has no value in any row. Choose another --target.")
    if column.distinct == 1:
        raise UserError(
            f"the target {name} has the same value in every row, {quote(str(column.known[0].as_py()))}, so there is "
            "nothing to learn. Choose another --target, or data in which it varies."
        )
    if column.word not in (*NUMBERS, "bool", "category", "text"):
        shown = f"a {column.word}" if column.word else "of an unsupported type"
        raise UserError(f"the target {name} is {shown}: a target must be a number, a text or a boolean.")
    numeric = column.word in NUMBERS
    if kind == "regression" and not numeric:
        some = join_names([str(value) for value in column.known.unique()[:3].to_pylist()])
        raise UserError(
            f"--kind regression: the target {name} is text ({some}), and a regression learns a number. Omit --kind, "
            "or choose another --target."
        )
    whole = column.word == "int" or (
        column.word == "float" and bool((column.numbers % 1 == 0)[~np.isnan(column.numbers)].all())
    )
    if kind == "regression" or (not kind and numeric and not (whole and column.distinct <= MOST_NUMBERED)):
        return _propose_regression(column, is_explicit=bool(kind), positive=positive, left_out=left_out)
    return _propose_classes(column, is_explicit=bool(kind), positive=positive, left_out=left_out)


def _propose_regression(column: Guess, *, is_explicit: bool, positive: str, left_out: Collection[str]) -> Target:
    if positive or left_out:
        option = "--positive" if positive else "--leave-out"
        raise UserError(f"{option}: the target {quote(column.name)} is a number and has no classes. To learn classes, "
                        "give --kind classes.")  # fmt: skip
    why = "as requested" if is_explicit else (
        f"{column.distinct:,} different numbers; at most {MOST_NUMBERED} whole numbers would be classes"
    )  # fmt: skip
    return Target(column.name, column.type, (), why, column.numbers)


def _propose_classes(column: Guess, *, is_explicit: bool, positive: str, left_out: Collection[str]) -> Target:
    texts = _texts(column)
    counts = Counter(text for text in texts if text)
    for value in left_out:
        if value not in counts:
            raise UserError(
                f"--leave-out {value}: the target has no class {quote(value)}; it has {join_names(list(counts))}."
            )
    counts = Counter({value: count for value, count in counts.items() if value not in left_out})
    _require(column, counts)
    names, why = _order_classes(list(counts), counts, positive)
    codes = {name: code for code, name in enumerate(names)}
    type_ = {"bool": "bool", "int": "category", "float": "category", "number": "category", "text": "category"}
    stored = column.type if column.word == "category" else type_[column.word]
    if column.word in NUMBERS:
        suffix = f" {column.word}" if str(column.values.type) != "string" else ""
        stored = with_missing(f"category{suffix}", column.kind.missing)
    why = f"{'as requested; ' if is_explicit else ''}{len(names)} classes{why}"
    return Target(column.name, stored, tuple(names), why, np.array([codes.get(text, -1) for text in texts]))


def _texts(column: Guess) -> list[str]:
    """Returns the values as the task spells its classes, "" for missing."""
    values = column.values.to_pylist()
    if column.word == "bool":
        return ["" if value is None else str(value).lower() for value in values]
    if str(column.values.type) != "string" and column.word in ("int", "float", "category"):
        return ["" if value is None else str(int(value)) for value in values]
    return ["" if value is None else str(value) for value in values]


def _require(column: Guess, counts: Counter[str]) -> None:
    """Raises UserError if there are too many classes, fewer than two, or a class with a single row."""
    name, rows = quote(column.name), counts.total()
    if len(counts) > min(MOST_CLASSES, rows / 2):
        raise UserError(
            f"the target {name} has {len(counts):,} different texts in {rows:,} rows: a target has at most "
            f"{MOST_CLASSES:,} classes, with two rows each on average. Choose another --target"
            + (", or give --kind regression." if column.word in NUMBERS else ".")
        )
    if len(counts) < 2:
        raise UserError(f"the target {name} has one class left, and needs two.")
    single = sorted(value for value, count in counts.items() if count == 1)
    if single:
        options = " ".join(f"--leave-out {quote(value)}" for value in single[:5])
        raise UserError(
            f"the target {name}: only one row has the class {join_names(single)}, which can train or test but "
            "not both. "
            f"Add rows of this class, or drop it: {options}."
        )


def _order_classes(names: list[str], counts: Counter[str], positive: str) -> tuple[list[str], str]:
    """Returns the classes in the order of their codes, and the end of a sentence that lists them."""
    names = sorted(names, key=lambda name: (0, float(name), name) if _is_number(name) else (1, 0.0, name))
    if positive and positive not in names:
        raise UserError(
            f"--positive {positive}: the target has no class {quote(positive)}; it has {join_names(names)}."
        )
    if len(names) != 2:
        if positive:
            raise UserError(
                f"--positive {positive}: only a target with two classes has a positive one, not {len(names)}."
            )
        return names, f": {join_names(names)}"
    known = [name for name in names if name.lower() in POSITIVE]
    if positive:
        why = "as requested"
    elif len(known) == 1:
        positive, why = known[0], "by its name"
    else:
        positive, why = min(names, key=lambda name: (counts[name], name)), "the rarer one"
    share = counts[positive] / counts.total()
    sentence = f"; {quote(positive)} is the positive one ({why}), {share:.{1 if share < 0.1 else 0}%} of the rows"
    return sorted(names, key=lambda name: name == positive), sentence


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


# ---- columns that add up to the target, and so are known only when the target is


#: The least rows per candidate column, because few rows always fit a sum; and the most columns.
ROWS_PER_COLUMN, MOST_COLUMNS = 10, 200
#: The largest residual of a sum, as a share of the target's standard deviation: rounding errors.
EXACT = 1e-4


def find_sum_parts(columns: Mapping[str, Guess], target: Target) -> list[str]:
    """Returns the number columns whose weighted sum is the target in every row; empty if there is no such sum.

    Fits least squares to the standardized columns: a residual near 0 means arithmetic, not a statistical relation.
    """
    numbers = [c for n, c in columns.items() if n != target.name and c.word in NUMBERS and not c.missing]
    numbers = [c for c in numbers if c.distinct > 1]
    if not target.regression or not 1 <= len(numbers) <= MOST_COLUMNS:
        return []
    inputs = np.column_stack([c.numbers for c in numbers])
    known = ~np.isnan(target.values) & ~np.isnan(inputs).any(axis=1)
    if known.sum() < ROWS_PER_COLUMN * (len(numbers) + 1):
        return []
    inputs, goal = _standardize(inputs[known]), _standardize(target.values[known])
    weights, *_ = np.linalg.lstsq(inputs, goal, rcond=None)
    if (inputs @ weights - goal).std() > EXACT:
        return []
    return [c.name for c, weight in zip(numbers, weights, strict=True) if abs(weight) > 10 * EXACT]


def _standardize(values: np.ndarray) -> np.ndarray:
    """Scales each column to mean 0 and standard deviation 1."""
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1))
