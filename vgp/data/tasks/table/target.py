"""What kind of target a column is: two classes, several, or a number; and which class is the positive one."""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from vgp.base.exits import UserError
from vgp.base.text.printable import listed, quoted
from vgp.data.tasks.table.declaration import MOST_CLASSES
from vgp.data.tasks.table.guess import Guess
from vgp.data.tasks.table.kinds import NUMBERS, with_missing

#: Whole numbers with at most so many different values are classes.
MOST_NUMBERED = 20
#: What people call the class that they look for.
POSITIVE = (
    "1", "1.0", "yes", "y", "true", "t", "positive", "pos", "late", "bad", "fraud", "default", "churn", "churned",
    "malignant", "spam", "survived", "died", "sick", "ill", "won", "bought", "clicked",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """The column, what is learned of it, and why."""

    name: str
    #: Its type in the words of a task.toml.
    type: str
    #: Of a regression none.
    classes: tuple[str, ...]
    why: str
    #: The code of each row's class, -1 for none; of a regression the numbers, nan for none.
    values: np.ndarray

    @property
    def regression(self) -> bool:
        return not self.classes


def target(found: Guess, kind: str = "", positive: str = "", left_out: Collection[str] = ()) -> Target:
    """What the column is as a target.

    Args:
        kind: `classes` or `regression`; "" = told by its values.
        positive: The second of two classes; "" = told by their names, else the rarer one.
        left_out: Classes whose rows are left out.

    Raises:
        UserError: nothing can be learned of it: it has no value, one value, or text that differs in every row.
    """
    name = quoted(found.name)
    if not len(found.known):
        raise UserError(f"the target {name} has no value in any row: there is nothing to learn. Name another --target.")
    if found.distinct == 1:
        raise UserError(
            f"the target {name} has the same value in every row, {quoted(str(found.known[0].as_py()))}: nothing can be "
            "learned. Name another --target, or give data in which it differs."
        )
    if found.word not in (*NUMBERS, "bool", "category", "text"):
        raise UserError(f"the target {name} is {_shown(found)}: a target is a number, a text or true and false.")
    numeric = found.word in NUMBERS
    if kind == "regression" and not numeric:
        some = listed([str(value) for value in found.known.unique()[:3].to_pylist()])
        raise UserError(
            f"--kind regression: the target {name} is text ({some}), and a regression learns a number. Leave --kind "
            "out, or name another --target."
        )
    whole = found.word == "int" or (
        found.word == "float" and bool((found.numbers % 1 == 0)[~np.isnan(found.numbers)].all())
    )
    if kind == "regression" or (not kind and numeric and not (whole and found.distinct <= MOST_NUMBERED)):
        return _regression(found, asked=bool(kind), positive=positive, left_out=left_out)
    return _classes(found, asked=bool(kind), positive=positive, left_out=left_out)


def _shown(found: Guess) -> str:
    return f"a {found.word}" if found.word else "of no type that is read"


def _regression(found: Guess, *, asked: bool, positive: str, left_out: Collection[str]) -> Target:
    if positive or left_out:
        option = "--positive" if positive else "--leave-out"
        raise UserError(f"{option}: the target {quoted(found.name)} is a number, learned as one: it has no classes. "
                        "For classes give --kind classes.")  # fmt: skip
    why = "asked for" if asked else (
        f"{found.distinct:,} different numbers; whole numbers with at most {MOST_NUMBERED} would be classes"
    )  # fmt: skip
    return Target(found.name, found.type, (), why, found.numbers)


def _classes(found: Guess, *, asked: bool, positive: str, left_out: Collection[str]) -> Target:
    texts = _texts(found)
    counts = Counter(text for text in texts if text)
    for value in left_out:
        if value not in counts:
            raise UserError(f"--leave-out {value}: the target has no such value; it has {listed(list(counts))}.")
    counts = Counter({value: count for value, count in counts.items() if value not in left_out})
    _require(found, counts)
    names, why = _ordered(list(counts), counts, positive)
    codes = {name: code for code, name in enumerate(names)}
    type_ = {"bool": "bool", "int": "category", "float": "category", "number": "category", "text": "category"}
    stored = found.type if found.word == "category" else type_[found.word]
    if found.word in NUMBERS:
        suffix = f" {found.word}" if str(found.values.type) != "string" else ""
        stored = with_missing(f"category{suffix}", found.kind.missing)
    why = f"{'asked for; ' if asked else ''}{len(names)} classes{why}"
    return Target(found.name, stored, tuple(names), why, np.array([codes.get(text, -1) for text in texts]))


def _texts(found: Guess) -> list[str]:
    """The values as a task of this table spells them, "" for missing."""
    values = found.values.to_pylist()
    if found.word == "bool":
        return ["" if value is None else str(value).lower() for value in values]
    if str(found.values.type) != "string" and found.word in ("int", "float", "category"):
        return ["" if value is None else str(int(value)) for value in values]
    return ["" if value is None else str(value) for value in values]


def _require(found: Guess, counts: Counter[str]) -> None:
    name, rows = quoted(found.name), counts.total()
    if len(counts) > min(MOST_CLASSES, rows / 2):
        raise UserError(
            f"the target {name} has {len(counts):,} different texts in {rows:,} rows: classes come at least twice on "
            f"average, and there are at most {MOST_CLASSES:,}. Name another --target"
            + (", or give --kind regression." if found.word in NUMBERS else ".")
        )
    if len(counts) < 2:
        raise UserError(f"the target {name} has one class left: two are needed.")
    single = sorted(value for value, count in counts.items() if count == 1)
    if single:
        ways = " ".join(f"--leave-out {quoted(value)}" for value in single[:5])
        raise UserError(
            f"the target {name}: one row only has the class {listed(single)}: it can be learned or tested, not both. "
            f"Give more of its rows, or leave it out: {ways}."
        )


def _ordered(names: list[str], counts: Counter[str], positive: str) -> tuple[list[str], str]:
    """The classes in the order of their codes, and how a sentence about them goes on."""
    names = sorted(names, key=lambda name: (0, float(name), name) if _is_number(name) else (1, 0.0, name))
    if positive and positive not in names:
        raise UserError(f"--positive {positive}: no class is called so; there are {listed(names)}.")
    if len(names) != 2:
        if positive:
            raise UserError(f"--positive {positive}: of {len(names)} classes none is the positive one.")
        return names, f": {listed(names)}"
    known = [name for name in names if name.lower() in POSITIVE]
    if positive:
        chosen, why = positive, "asked for"
    elif len(known) == 1:
        chosen, why = known[0], "by its name"
    else:
        chosen, why = min(names, key=lambda name: (counts[name], name)), "the rarer one"
    share = counts[chosen] / counts.total()
    return sorted(
        names, key=lambda name: name == chosen
    ), f"; {quoted(chosen)} is the positive one ({why}), {share:.{1 if share < 0.1 else 0}%} of the rows"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


# ---- columns that make up a target together: the parts of a sum, which are known when the sum is


#: Rows for each column that could be a part, and columns at most: with too few rows anything adds up.
ROWS_PER_COLUMN, MOST_COLUMNS = 10, 200
#: What is left of the target's spread where it is a sum, as rounding leaves it.
EXACT = 1e-4


def sum_parts(columns: Mapping[str, Guess], target: Target) -> list[str]:
    """The numbers whose weighted sum is the target in every row that has them all; none if there is no such sum.

    Least squares of the standardized columns: what is nearly exact is no relation that was learned, it is arithmetic.
    """
    numbers = [c for n, c in columns.items() if n != target.name and c.word in NUMBERS and not c.missing]
    numbers = [c for c in numbers if c.distinct > 1]
    if not target.regression or not 1 <= len(numbers) <= MOST_COLUMNS:
        return []
    inputs = np.column_stack([c.numbers for c in numbers])
    known = ~np.isnan(target.values) & ~np.isnan(inputs).any(axis=1)
    if known.sum() < ROWS_PER_COLUMN * (len(numbers) + 1):
        return []
    inputs, goal = _standardized(inputs[known]), _standardized(target.values[known])
    weights, *_ = np.linalg.lstsq(inputs, goal, rcond=None)
    if (inputs @ weights - goal).std() > EXACT:
        return []
    return [c.name for c, weight in zip(numbers, weights, strict=True) if abs(weight) > 10 * EXACT]


def _standardized(values: np.ndarray) -> np.ndarray:
    """Mean 0 and standard deviation 1 in each column."""
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1))
