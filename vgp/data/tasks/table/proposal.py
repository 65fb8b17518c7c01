"""Proposes the content of a task.toml from a sample of a table."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow.compute as pc

from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import join_names, quote
from vgp.data.schema import RESERVED
from vgp.data.sources.values import is_text
from vgp.data.tasks.table import ambiguities, column_doubts, column_roles, repeated_values
from vgp.data.tasks.table import target_column as sums
from vgp.data.tasks.table.ambiguities import Doubt
from vgp.data.tasks.table.column_guess import Guess, guess_column
from vgp.data.tasks.table.column_types import DATES, NUMBERS, parse_kind, with_missing
from vgp.data.tasks.table.declaration import Split
from vgp.data.tasks.table.missing_header import find_header_doubt
from vgp.data.tasks.table.repeated_values import Repeats
from vgp.data.tasks.table.sample import Sample
from vgp.data.tasks.table.strange_values import find_accents
from vgp.data.tasks.table.target_column import Target, read_target

#: `--time none`: split at random although the table has dates.
NO_TIME = "none"
#: The most columns with repeated values in the report.
MOST_REPORTED = 12
#: Values of `--group` that name no column.
NO_GROUP = ("row", "day")
#: The share of the rows that tests, if the table has a time.
TEST_SHARE = 0.2
#: The least days of a test split: with fewer the promotion test rarely distinguishes a better model from chance
#: (docs/explanation/the-gate.md).
TEST_DAYS = 15


@dataclass(frozen=True)
class ProposalRequest:
    """The user's options; "" = to be proposed."""

    target: str
    kind: str = ""
    positive: str = ""
    left_out: Sequence[str] = ()
    key: Sequence[str] = ()
    time: str = ""
    #: A column, or what counts as independent instead: each `row`, or each `day` of the time.
    group: str = ""
    #: Types of ambiguous columns, each as `COLUMN=TYPE`.
    read: Sequence[str] = ()


@dataclass(frozen=True)
class Column:
    """A column with its type, its role in the task, and the reason for both."""

    name: str
    type: str
    role: str
    why: str
    #: The reason to suspect that a learned column is known only after the outcome.
    doubt: str = ""


@dataclass(frozen=True)
class Proposal:
    """The proposed content of a task.toml."""

    target: Target
    columns: Sequence[Column]
    key: Sequence[str] = ()
    time: str = ""
    group: str = ""
    slices: Sequence[str] = ()
    missing: Sequence[str] = ()
    split: Split = Split()
    left_out: Sequence[str] = ()
    #: For each column with repeated values: how often they occur, and how similar the target is within a value.
    repeats: Mapping[str, str] = field(default_factory=dict)
    sample: Sample = field(repr=False, kw_only=True)

    def of_role(self, *roles: str) -> list[Column]:
        return [column for column in self.columns if column.role in roles]


def propose(sample: Sample, request: ProposalRequest) -> Proposal:
    """Proposes a task for the table.

    Raises:
        UserError: an option names a column that does not exist or does not fit, no column is left to learn from, or
            the user has to choose: between readings of a column, or what makes rows independent.
    """
    names = sample.rows.column_names
    types, _ = ambiguities.parse_types(request.read, names)
    numbered = sample.whole and sample.files == 1
    ambiguities.require_none(find_header_doubt(sample.rows, types), sample.rows, numbered=numbered)
    request = _match_spelling(request, names)
    no_time = request.time == NO_TIME and NO_TIME not in names
    request = replace(request, time="" if no_time else request.time)
    for option, columns_asked in _column_options(request):
        for name in columns_asked:
            if name not in names and not (option == "group" and name in NO_GROUP):
                hint = did_you_mean(name, names)
                raise UserError(f"--{option} {name}: the table has no column {quote(name)}. {hint}")
    unusable = column_roles.find_unusable_names([name for name in names if name != request.target])
    unusable |= {name: "a reserved name" for name in names if RESERVED.fullmatch(name.lower())}
    guesses, open_doubts = _guesses(sample, request, unusable)
    dates = {name: column for name, column in guesses.items() if name not in (*unusable, request.target)}
    times = [] if request.time or no_time else column_roles.find_times(dates)
    open_doubts += [] if request.time or no_time else column_doubts.find_time_doubts(times, dates)
    ambiguities.require_none(open_doubts, sample.rows, numbered=numbered)
    goal = read_target(guesses[request.target], request.kind, request.positive, request.left_out)
    _check(guesses, request)
    usable = {name: column for name, column in guesses.items() if name not in unusable}
    time = request.time or "".join(times)
    key = list(request.key) or [name for name in [column_roles.find_key(usable, request.target)] if name]
    fixed = {request.target, time, *key}
    repeated = repeated_values.find_repeats(
        {name: c for name, c in usable.items() if name not in fixed}, goal, whole=sample.whole
    )
    group = _group(request, repeated, goal, time)
    repeated = repeated_values.discount_group(repeated, group, goal)
    guesses |= {
        name: _as_names(guesses[name], name == group) for name, r in repeated.items() if r.is_group or name == group
    }
    parts = sums.find_sum_parts(
        {name: c for name, c in guesses.items() if name in usable and name not in (time, group, *key)}, goal
    )
    columns = [
        _column(
            guesses[name], goal, unusable.get(name, ""), key, time, group, parts, repeated.get(name), guesses.get(group)
        )
        for name in names
    ]
    if not time and not no_time:
        years = {name: column_roles.explain_year(column) for name, column in dates.items()}
        columns = [replace(c, why="; ".join(filter(None, [c.why, years.get(c.name)]))) for c in columns]
    columns, missing = _share_markers(guesses, columns)
    if not any(column.role in ("learned", "time") for column in columns):
        raise UserError(_no_column_message(request.target, columns))
    return Proposal(
        goal, columns, key, time, group,
        column_roles.find_slices({column.name: guesses[column.name] for column in columns if column.role == "learned"}),
        missing, _split(guesses[time] if time else None, sample.whole),
        request.left_out, _remarks(repeated, group), sample=sample,
    )  # fmt: skip


def list_columns(sample: Sample) -> str:
    """Returns the message for a missing --target: the columns of the table with their types and values."""
    guesses = [guess_column(name, sample.rows[name]) for name in sample.rows.column_names]
    width = max(len(column.name) for column in guesses)
    lines = [
        f"  {c.name:{width}}  {', '.join(filter(None, [c.type, describe_column(c) if c.type else c.why]))}"
        for c in guesses
    ]
    if find_header_doubt(sample.rows):
        lines.append("If these are values, add a line with the names of the columns at the top of each file.")
    return "\n".join([f"name the column to predict with --target; {sample.data} has these columns:", *lines])


def _guesses(
    sample: Sample, request: ProposalRequest, unusable: Collection[str]
) -> tuple[dict[str, Guess], list[Doubt]]:
    """Returns the guessed column of each name, and the doubts that no option of the user resolves."""
    types, patterns = ambiguities.parse_types(request.read, sample.rows.column_names)
    rows, open_doubts = column_doubts.split_totals(sample.rows, types)
    guesses = {name: guess_column(name, rows[name], types.get(name, "")) for name in rows.column_names}
    marked = {text for column in guesses.values() if column.word in (*NUMBERS, *DATES) for text in column.markers}
    guesses |= {name: column_doubts.drop_markers(column, marked) for name, column in guesses.items()
                if name not in (*types, request.target)}  # fmt: skip
    for name, column in guesses.items():
        is_target = name == request.target
        if (
            name in (*types, *unusable)
            or column.distinct < 2
            or not (is_target or column.doubts or not column_roles.explain_useless(column))
        ):
            continue
        if doubt := column_doubts.find_doubt(column, target=is_target):
            if type_ := ambiguities.choose_type(doubt, patterns):
                guesses[name] = guess_column(name, rows[name], type_)
            else:
                open_doubts.append(doubt)
    return guesses, open_doubts


def _match_spelling(request: ProposalRequest, names: Sequence[str]) -> ProposalRequest:
    """Replaces the names of columns by their spelling in the header, where a name after `, ` begins with a blank."""
    plain = {name.strip(): name for name in names if [n.strip() for n in names].count(name.strip()) == 1}

    def there(name: str) -> str:
        return name if name in names else plain.get(name, name)

    return replace(request, target=there(request.target), key=[there(name) for name in request.key],
                   time=there(request.time), group=there(request.group))  # fmt: skip


def _column_options(request: ProposalRequest) -> Iterator[tuple[str, list[str]]]:
    """Yields the options that name columns, without their empty values."""
    yield "target", [request.target]
    yield "key", [name for name in request.key if name]
    yield "time", [request.time] if request.time else []
    yield "group", [request.group] if request.group else []


def _group(request: ProposalRequest, repeated: Mapping[str, Repeats], goal: Target, time: str) -> str:
    """Returns the column that groups the rows, the user's `row` or `day`, or "" if the rows are independent.

    Raises:
        UserError: rows that share a value have similar targets, and only the user knows the reason.
    """
    if request.group == "day" and not time and "day" not in repeated:
        raise UserError("--group day counts days of the time, and the table has no time. Use --group row.")
    candidates = [] if request.group else repeated_values.find_candidates(repeated, goal)
    if len(candidates) > 1 or any(not column.is_named for column in candidates):
        raise UserError(repeated_values.format_question(candidates, time))
    return request.group or (candidates[0].name if candidates else "")


def _remarks(repeated: Mapping[str, Repeats], group: str) -> dict[str, str]:
    """Returns the report's remarks on repeated values by column: the group first, then by falling agreement."""
    others = [column for name, column in repeated.items() if column.agrees and name != group]
    others = sorted(others, key=lambda column: -column.agreement)[:MOST_REPORTED]
    return {column.name: column.words for column in [*([repeated[group]] if group in repeated else []), *others]}


def _as_names(column: Guess, is_group: bool) -> Guess:
    """Returns the column as a category if its values are whole numbers, which are then names, or if it is the group."""
    whole = column_roles.is_whole(column)
    if (is_group and column.word in ("int", "category")) or not (whole or is_group):
        return column
    if is_text(column.values.type):
        return replace(column, type="category", why="" if is_group else "numbers that are names")
    return replace(column, type=f"category {column.word}", why="numbers that are names") if whole else column


def _check(guesses: Mapping[str, Guess], request: ProposalRequest) -> None:
    """Raises UserError for a key, a time or a group that does not fit its role."""
    for option, names in _column_options(request):
        if option == "target":
            continue
        if request.target in names:
            raise UserError(f"--{option} {request.target}: this is the target, which is unknown at prediction time.")
        for name in names:
            if option == "group" and name in NO_GROUP and name not in guesses:
                continue
            if not guesses[name].type:
                raise UserError(f"--{option} {name}: the column is {guesses[name].why or 'empty in every row'}.")
            if option != "group" and guesses[name].missing:
                share = f"{guesses[name].missing:.1%}"
                raise UserError(
                    f"--{option} {name}: the column is empty in {share} of the rows; a {option} may not be."
                )
    if request.time and guesses[request.time].word not in DATES:
        dates = [name for name, column in guesses.items() if column.word in DATES]
        hint = f"Columns with dates: {', '.join(dates)}." if dates else "The table has no column of dates."
        raise UserError(f"--time {request.time}: the column holds {guesses[request.time].word}, not dates. {hint}")


def _column(column: Guess, goal: Target, unusable: str, key: Sequence[str], time: str, group: str,
            parts: Sequence[str], repeated: Repeats | None, group_column: Guess | None) -> Column:  # fmt: skip
    """Returns the role of a column, and the reason.

    Args:
        unusable: Why the name of the column cannot be used; "" if it can.
        parts: Columns that add up to the target.
    """
    name = column.name
    if name == goal.name:
        return Column(name, goal.type, "target", goal.why)
    if time and name == time:
        return Column(name, column.type, "time", "the latest rows test; the model learns the weekday")
    if name in key:
        return Column(name, column.type, "key", "identifies each row; not learned")
    if group and name == group:
        effect = "rows that share a value count as one" if time else "rows that share a value stay in one split"
        effect += "" if time or not column.missing else ", and each row without a value is split separately"
        return Column(name, column.type, "group", ": ".join(filter(None, [effect, repeated.words if repeated else ""])))
    if reason := unusable or column_roles.explain_useless(column):
        return Column(name, column.type, "ignored", reason)
    if name in parts:
        relation = "a multiple of it" if len(parts) == 1 else f"a sum of {join_names(parts)}"
        return Column(name, column.type, "leak", f"would leak: the target is {relation}")
    if leak := column_roles.explain_leak(column, goal, group_column):
        several = len(goal.classes) < column.distinct <= repeated_values.MIN_VALUES and column.word in (
            "int",
            "category",
        )
        hint = f"; if it groups the rows, as a patient does, give --group {name}" if several else ""
        return Column(name, column.type, "leak", f"would leak: {leak}{hint}")
    doubt = column_roles.explain_near_leak(column, goal, group_column)
    in_all = f"{repeated.words}: rows of one value are in every split" if repeated and repeated.agrees else ""
    why = [f"CHECK: {doubt}: is it known at prediction time?" if doubt else "", in_all or describe_column(column)]
    return Column(name, column.type, "learned", "; ".join(filter(None, why)), doubt)


def describe_column(column: Guess) -> str:
    """Describes the values of a column in a few words: its distinct values or range, and the missing share."""
    words = [column.why] if column.why else []
    if column.word in ("category", "bool"):
        values = ", ".join(sorted(map(str, column.known.unique().to_pylist()))) if column.distinct <= 6 else ""
        count = f"{column.distinct:,} value{'s' * (column.distinct != 1)}"
        words.append(f"{count}: {values}" if values and len(values) <= 60 else count)
        if is_text(column.known.type) and (accents := find_accents(column.known.unique().to_pylist())):
            words[-1] += f"; {join_names(accents)} count as different names"
    elif column.word in ("int", "float"):
        least, most = np.nanmin(column.numbers), np.nanmax(column.numbers)
        is_year = column_roles.YEAR.fullmatch(column.name)
        words.append(f"{least:g} to {most:g}" if is_year else f"{least:,g} to {most:,g}")
    if column.missing:
        words.append(f"{column.missing:.1%} missing" if column.missing >= 0.001 else "a few missing")
    return ", ".join(words)


def _share_markers(guesses: Mapping[str, Guess], columns: Sequence[Column]) -> tuple[list[Column], list[str]]:
    """Returns the columns, and the markers of missing values that hold for all columns.

    A marker that is an ordinary value of another column is written in the type of its own column instead.
    """
    read = [guesses[column.name] for column in columns if column.role not in ("ignored", "leak")]
    markers = sorted({marker for column in read for marker in column.markers})
    ambiguous = {marker for column in read if column.word in ("category", "text") and is_text(column.known.type)
            for marker in markers if pc.index(column.known, marker).as_py() >= 0}  # fmt: skip
    changed = [_with_missing(column, sorted(ambiguous & {*guesses[column.name].markers})) for column in columns]
    return changed, [marker for marker in markers if marker not in ambiguous]


def _with_missing(column: Column, markers: Sequence[str]) -> Column:
    if not markers or column.role in ("ignored", "leak"):
        return column
    plain, _, _ = column.type.partition(" missing ")
    return replace(column, type=with_missing(plain, (*parse_kind(column.type).missing, *markers)))


def _split(time: Guess | None, whole: bool) -> Split:
    """Returns the test window of a table with a time: its last fifth in round units, or its last month if sampled."""
    if not time:
        return Split()
    days, months = column_roles.count_last_days(time, TEST_SHARE, TEST_DAYS), column_roles.count_months(time)
    if not whole and months > 1:
        return Split(test="1 month")
    weeks = max(round(days / 7), 3 if days >= TEST_DAYS else 0)  # two weeks are a day less than TEST_DAYS
    units = (("month", round(days / 30.4)), ("week", weeks), ("day", days))
    return next(Split(test=f"{n} {unit}{'s' * (n != 1)}") for unit, n in units if n > 1 or unit == "day")


def _no_column_message(name: str, columns: Sequence[Column]) -> str:
    why = "; ".join(f"{column.name}: {column.why}" for column in columns if column.name != name)
    return f"no column is left to predict {quote(name)} from. {why[:600]}"
