"""A sample of a table -> what its task.toml should say, and why."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow.compute as pc

from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import listed, quoted
from vgp.data.schema import RESERVED
from vgp.data.sources.values import is_text
from vgp.data.tasks.table import doubts, questions, repeats, roles
from vgp.data.tasks.table import target as sums
from vgp.data.tasks.table.declaration import Split
from vgp.data.tasks.table.doubts import Doubt
from vgp.data.tasks.table.guess import Guess, guess
from vgp.data.tasks.table.kinds import DATES, NUMBERS, kind, with_missing
from vgp.data.tasks.table.repeats import Repeats
from vgp.data.tasks.table.sample import Sample
from vgp.data.tasks.table.target import Target, target

#: As a time: there is none, although columns are dates.
NO_TIME = "none"
#: Columns whose values come again, of which the report speaks.
MOST_REPORTED = 12
#: Answers that are no column.
NO_GROUP = ("row", "day")
#: Of a table with a time, which the end of it tests.
TEST_SHARE = 0.2
#: Fewest days with which a test can distinguish a better model from luck at the level of one of a year's nights
#: (docs/explanation/the-gate.md).
TEST_DAYS = 15


@dataclass(frozen=True)
class Asked:
    """What the user said; "" = to be proposed."""

    target: str
    kind: str = ""
    positive: str = ""
    left_out: Sequence[str] = ()
    key: Sequence[str] = ()
    time: str = ""
    #: A column; `row` or `day`, where rows that share a value count by themselves, or by the day of their time.
    group: str = ""
    #: Types of columns that can be read in several ways, each as `COLUMN=TYPE`.
    read: Sequence[str] = ()


@dataclass(frozen=True)
class Column:
    """A column with its type, what it is to the task, and why."""

    name: str
    type: str
    role: str
    why: str
    #: Why it may be known only after the outcome, although it is learned from.
    doubt: str = ""


@dataclass(frozen=True)
class Proposal:
    """What a task.toml should say."""

    target: Target
    columns: Sequence[Column]
    key: Sequence[str] = ()
    time: str = ""
    group: str = ""
    slices: Sequence[str] = ()
    missing: Sequence[str] = ()
    split: Split = Split()
    left_out: Sequence[str] = ()
    #: How often the values of a column come, and what rows that share one have in common, by its name.
    repeats: Mapping[str, str] = field(default_factory=dict)
    sample: Sample = field(repr=False, kw_only=True)

    def of_role(self, *roles: str) -> list[Column]:
        return [column for column in self.columns if column.role in roles]


def propose(sample: Sample, asked: Asked) -> Proposal:
    """Raises UserError: a named column is not there or cannot be what it was named for, nothing can be learned, or only
    the user knows what rows belong to."""
    names = sample.rows.column_names
    asked = _spelled(asked, names)
    no_time = asked.time == NO_TIME and NO_TIME not in names
    asked = replace(asked, time="" if no_time else asked.time)
    for option, given in (
        ("target", [asked.target]),
        ("key", asked.key),
        ("time", [asked.time]),
        ("group", [asked.group]),
    ):
        for name in filter(None, given):
            if not (option == "group" and name in NO_GROUP):
                _known(option, name, names)
    wrong = roles.names([name for name in names if name != asked.target])
    wrong |= {name: "a name that preparing needs itself" for name in names if RESERVED.fullmatch(name.lower())}
    found, asking = _guesses(sample, asked, wrong)
    dates = {name: column for name, column in found.items() if name not in (*wrong, asked.target)}
    times = [] if asked.time or no_time else roles.times(dates)
    asking += [] if asked.time or no_time else questions.time(times, dates)
    doubts.require_none(asking, sample.rows, numbered=sample.whole and sample.files == 1)
    goal = target(found[asked.target], asked.kind, asked.positive, asked.left_out)
    _check(found, asked)
    usable = {name: column for name, column in found.items() if name not in wrong}
    time = asked.time or "".join(times)
    key = list(asked.key) or [name for name in [roles.key(usable, asked.target)] if name]
    named = {asked.target, time, *key}
    seen = repeats.look({name: c for name, c in usable.items() if name not in named}, goal, whole=sample.whole)
    group = _group(asked, seen, goal, time)
    seen = repeats.beside(seen, group, goal)
    found |= {
        name: _as_names(found[name], name == group) for name, one in seen.items() if one.is_group or name == group
    }
    added = sums.sum_parts(
        {name: c for name, c in found.items() if name in usable and name not in (time, group, *key)}, goal
    )
    columns = [
        _column(found[name], goal, wrong.get(name, ""), key, time, group, added, seen.get(name), found.get(group))
        for name in names
    ]
    columns, missing = _marked(found, columns)
    if not any(column.role in ("learned", "time") for column in columns):
        raise UserError(_nothing(asked.target, columns))
    return Proposal(
        goal, columns, key, time, group,
        roles.slices({column.name: found[column.name] for column in columns if column.role == "learned"}),
        missing, _split(found[time] if time else None, sample.whole),
        asked.left_out, _reported(seen, group), sample=sample,
    )  # fmt: skip


def columns(sample: Sample) -> str:
    """What to say where no target is named: the columns of the table, each with what it seems to hold."""
    found = [guess(name, sample.rows[name]) for name in sample.rows.column_names]
    width = max(len(column.name) for column in found)
    lines = [
        f"  {c.name:{width}}  {', '.join(filter(None, [c.type, described(c) if c.type else c.why]))}" for c in found
    ]
    return "\n".join([f"name the column that is to be predicted, by --target; {sample.data} has:", *lines])


def _guesses(sample: Sample, asked: Asked, unusable: Collection[str]) -> tuple[dict[str, Guess], list[Doubt]]:
    """What each column holds, and what its owner has to choose."""
    types, patterns = doubts.declared(asked.read, sample.rows.column_names)
    rows, asking = questions.sums(sample.rows, types)
    found = {name: guess(name, rows[name], types.get(name, "")) for name in rows.column_names}
    marked = {text for column in found.values() if column.word in (*NUMBERS, *DATES) for text in column.markers}
    found |= {name: questions.without(column, marked) for name, column in found.items()
              if name not in (*types, asked.target)}  # fmt: skip
    for name, column in found.items():
        is_target = name == asked.target
        if (
            name in (*types, *unusable)
            or column.distinct < 2
            or not (is_target or column.doubts or not roles.spare(column))
        ):
            continue
        if doubt := questions.of(column, target=is_target):
            if type_ := doubts.chosen(doubt, patterns):
                found[name] = guess(name, rows[name], type_)
            else:
                asking.append(doubt)
    return found, asking


def _spelled(asked: Asked, names: Sequence[str]) -> Asked:
    """With the names as the header has them: what follows `, ` begins with a blank there."""
    plain = {name.strip(): name for name in names if [n.strip() for n in names].count(name.strip()) == 1}

    def there(name: str) -> str:
        return name if name in names else plain.get(name, name)

    return replace(asked, target=there(asked.target), key=[there(name) for name in asked.key],
                   time=there(asked.time), group=there(asked.group))  # fmt: skip


def _known(option: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise UserError(f"--{option} {name}: the table has no column {quoted(name)}. {did_you_mean(name, names)}")


def _group(asked: Asked, seen: Mapping[str, Repeats], goal: Target, time: str) -> str:
    """What rows belong to; "" if nothing, `row` or `day` where the user wants it so.

    Raises:
        UserError: rows that share a value share the target, and only the user knows what that means.
    """
    if asked.group == "day" and not time and "day" not in seen:
        raise UserError("--group day is the day of the time, and the table has none: --group row counts each row.")
    fitting = [] if asked.group else repeats.candidates(seen, goal)
    if len(fitting) > 1 or any(not one.is_named for one in fitting):
        raise UserError(repeats.question(fitting, time))
    return asked.group or (fitting[0].name if fitting else "")


def _reported(seen: Mapping[str, Repeats], group: str) -> dict[str, str]:
    """What the report says of the columns whose values come again, those first whose rows agree most."""
    told = sorted((one for name, one in seen.items() if one.agrees and name != group), key=lambda one: -one.agreement)
    return {one.name: one.words for one in [*([seen[group]] if group in seen else []), *told[:MOST_REPORTED]]}


def _as_names(found: Guess, is_group: bool) -> Guess:
    """A column whose values are names, also where they are whole numbers."""
    whole = found.word in NUMBERS and bool(np.all(np.nan_to_num(found.numbers) % 1 == 0))
    if (is_group and found.word in ("int", "category")) or not (whole or is_group):
        return found
    if is_text(found.values.type):
        return replace(found, type="category", why="" if is_group else "numbers that are names")
    return replace(found, type=f"category {found.word}", why="numbers that are names") if whole else found


def _check(found: Mapping[str, Guess], asked: Asked) -> None:
    """Raises UserError for a key, a time or a group that cannot be one."""
    for option, given in (("key", asked.key), ("time", [asked.time]), ("group", [asked.group])):
        if asked.target in given:
            raise UserError(f"--{option} {asked.target}: that is the target, which is not known beforehand.")
        for name in filter(None, given):
            if option == "group" and name in NO_GROUP and name not in found:
                continue
            if not found[name].type:
                raise UserError(f"--{option} {name}: the column is {found[name].why or 'empty in every row'}.")
            if option != "group" and found[name].missing:
                share = f"{found[name].missing:.1%}"
                raise UserError(
                    f"--{option} {name}: the column is empty in {share} of the rows, and a {option} never is."
                )
    if asked.time and found[asked.time].word not in DATES:
        dates = [name for name, column in found.items() if column.word in DATES]
        there = f"There is {', '.join(dates)}." if dates else "No column of the table is."
        raise UserError(f"--time {asked.time}: the column holds {found[asked.time].word}, and no dates. {there}")


def _column(found: Guess, goal: Target, wrong: str, key: Sequence[str], time: str, group: str,
            added: Sequence[str], seen: Repeats | None, parts: Guess | None) -> Column:  # fmt: skip
    name = found.name
    if name == goal.name:
        return Column(name, goal.type, "target", goal.why)
    if time and name == time:
        return Column(name, found.type, "time", "later rows test; its weekday is learned from")
    if name in key:
        return Column(name, found.type, "key", "names the rows, and is not learned from")
    if group and name == group:
        what = "rows of one value count as one" if time else "all rows of one value stay in one split"
        what += "" if time or not found.missing else ", each row without one goes to a split by itself"
        return Column(name, found.type, "group", ": ".join(filter(None, [what, seen.words if seen else ""])))
    if wrong := wrong or roles.spare(found):
        return Column(name, found.type, "ignored", wrong)
    if name in added:
        what = "a multiple of it" if len(added) == 1 else f"a sum of {listed(added)}"
        return Column(name, found.type, "leak", f"would leak: the target is {what}")
    if leak := roles.leak(found, goal, parts):
        several = len(goal.classes) < found.distinct <= repeats.MIN_VALUES and found.word in ("int", "category")
        other = f"; if it is what rows belong to, such as a patient: --group {name}" if several else ""
        return Column(name, found.type, "leak", f"would leak: {leak}{other}")
    doubt = roles.near_leak(found, goal, parts)
    told = f"{seen.words}: its rows train and test" if seen and seen.agrees else described(found)
    why = [f"LOOK: {doubt}: is it known beforehand?" if doubt else "", told]
    return Column(name, found.type, "learned", "; ".join(filter(None, why)), doubt)


def described(found: Guess) -> str:
    """What is in a column, in few words."""
    words = [found.why] if found.why else []
    if found.word in ("category", "bool"):
        shown = ", ".join(sorted(map(str, found.known.unique().to_pylist()))) if found.distinct <= 6 else ""
        words.append(
            f"{found.distinct:,} value{'s' * (found.distinct != 1)}"
            + (f": {shown}" if shown and len(shown) <= 60 else "")
        )
    elif found.word in ("int", "float"):
        words.append(f"{np.nanmin(found.numbers):,g} to {np.nanmax(found.numbers):,g}")
    if found.missing:
        words.append(f"{found.missing:.1%} missing" if found.missing >= 0.001 else "a few missing")
    return ", ".join(words)


def _marked(found: Mapping[str, Guess], columns: Sequence[Column]) -> tuple[list[Column], list[str]]:
    """The columns, and the markers of missing values of all of them; one that is a name elsewhere is its column's."""
    read = [found[column.name] for column in columns if column.role not in ("ignored", "leak")]
    markers = sorted({marker for column in read for marker in column.markers})
    held = {marker for column in read if column.word in ("category", "text") and is_text(column.known.type)
            for marker in markers if pc.index(column.known, marker).as_py() >= 0}  # fmt: skip
    changed = [_with_own(column, sorted(held & {*found[column.name].markers})) for column in columns]
    return changed, [marker for marker in markers if marker not in held]


def _with_own(column: Column, markers: Sequence[str]) -> Column:
    if not markers or column.role in ("ignored", "leak"):
        return column
    plain, _, _ = column.type.partition(" missing ")
    return replace(column, type=with_missing(plain, (*kind(column.type).missing, *markers)))


def _split(time: Guess | None, whole: bool) -> Split:
    """Of a table with a time the last fifth of its rows tests, in round lengths; of one that goes on the last month."""
    if not time:
        return Split()
    days, months = roles.days_of_last(time, TEST_SHARE, TEST_DAYS), roles.months(time)
    if not whole and months > 1:
        return Split(test="1 month")
    weeks = max(round(days / 7), 3 if days >= TEST_DAYS else 0)  # two weeks would lack a day
    units = (("month", round(days / 30.4)), ("week", weeks), ("day", days))
    return next(Split(test=f"{n} {unit}{'s' * (n != 1)}") for unit, n in units if n > 1 or unit == "day")


def _nothing(name: str, columns: Sequence[Column]) -> str:
    why = "; ".join(f"{column.name}: {column.why}" for column in columns if column.name != name)
    return f"no column is left to learn {quoted(name)} from. {why[:600]}"
