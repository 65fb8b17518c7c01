"""The text of a task.toml -> what it declares."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import quoted
from vgp.data.tasks.table import declaration
from vgp.data.tasks.table.declaration import Declared
from vgp.data.tasks.table.kinds import DATES, NUMBERS, kind

#: Of the text as JSON, in which it travels: within one argument of a process, which Linux bounds at 128 KiB
#: (MAX_ARG_STRLEN).
MOST_BYTES = 96 << 10
_TABLES: dict[str, type[BaseModel]] = {
    "split": declaration.Split,
    "reading": declaration.Reading,
    "network": declaration.Network,
}
_EXAMPLES = {"target": 'target = "COLUMN"', "columns": '[columns], and below it a line NAME = "TYPE" for each'}


def parse(text: str, file: str = "the task's TOML") -> Declared:
    """What a text says.

    Args:
        file: What the text is called in messages.

    Raises:
        UserError: it is no TOML, or says what cannot be: the line, what was given, and the choices.
    """
    if (size := len(json.dumps(text))) > MOST_BYTES:
        raise UserError(
            f"{file} has {size:,} bytes as JSON, and may have {MOST_BYTES:,}: it travels as a parameter. Take columns "
            "and comments out: columns that it does not name are not read."
        )
    try:
        values = tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{file} is not valid TOML: {str(error) or 'nested too deeply'}.") from None
    try:
        declared = Declared.model_validate(values)
    except ValidationError as error:
        problems = [(_keys(problem), _sentence(problem)) for problem in error.errors()]
    else:
        problems = declared_problems(declared)
        if not problems:
            return declared
    raise UserError("\n".join(f"{file}, line {line_of(text, keys)}: {says}" for keys, says in problems))


def _keys(problem: ErrorDetails) -> tuple[str, ...]:
    return tuple(part for part in problem["loc"] if isinstance(part, str))


def _sentence(problem: ErrorDetails) -> str:
    """What pydantic found, and the choices."""
    keys, given = _keys(problem), problem["input"]
    name = ".".join(keys)
    match problem["type"]:
        case "extra_forbidden":
            known: type[BaseModel] = _TABLES.get(keys[0], Declared) if len(keys) > 1 else Declared
            return f"there is no key {quoted(name)}. {did_you_mean(keys[-1], known.model_fields)}"
        case "missing":
            return f"{name} is missing: write {_EXAMPLES.get(name, name)}."
        case "too_long" if name == "columns":
            return declaration.too_many(len(given))
        case "too_long":
            return f"{name} names {len(given):,} classes; at most {declaration.MOST_CLASSES:,} are learned."
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} = {quoted(given) if isinstance(given, str) else quoted(str(given))[1:-1]}: it {message}."


# ---- what the parts of a task.toml must be to each other: each problem as the keys where it stands, and a sentence


Problem = tuple[tuple[str, ...], str]


def declared_problems(declared: Declared) -> list[Problem]:
    """Those of the names and types of columns; if there are none, those of what is said about them."""
    found = [*_types(declared), *_names(declared), *_references(declared)]
    return found or [*_target(declared), *_roles(declared), *_rest(declared)]


def _types(declared: Declared) -> Iterator[Problem]:
    for table, columns in (("columns", declared.columns), ("ignored", declared.ignored)):
        for name, text in columns.items():
            try:
                kind(text)
            except ValueError as error:
                if text or table == "columns":
                    yield (table, name), f"the column {quoted(name)}: {error}"


def _names(declared: Declared) -> Iterator[Problem]:
    spelled = dict[str, str]()
    for name in declared.columns:
        if not name.strip():
            yield ("columns", name), "a column without a name cannot be read: give it one in the file."
        if (other := spelled.setdefault(name.lower(), name)) != name:
            rule = "differ in case only, and engines do not tell them apart: leave one out, or rename it in the file."
            yield ("columns", name), f"{quoted(name)} and {quoted(other)} {rule}"
        if name in declared.ignored:
            yield ("ignored", name), f"{quoted(name)} stands in [columns] and in [ignored]: take one line out."


def _references(declared: Declared) -> Iterator[Problem]:
    for key in ("target", "key", "time", "group", "slices", "trusted"):
        value = getattr(declared, key)
        for name in filter(None, [value] if isinstance(value, str) else value):
            if name in declared.columns or key == "group" and name in ("day", "row"):
                continue
            fix = "It stands in [ignored]: move its line." if name in declared.ignored else ""
            yield (key,), f"{key}: [columns] has no {quoted(name)}. {fix or did_you_mean(name, declared.columns)}"


def _target(declared: Declared) -> Iterator[Problem]:
    text, name = declared.columns[declared.target], declared.kinds[declared.target].name
    target = f"the target {quoted(declared.target)} is {quoted(text)}"
    if declared.kind == "regression":
        if name not in NUMBERS:
            rule = 'a regression learns a number (int, float, number). Write kind = "classes", or another target.'
            yield ("kind",), f"{target}, and {rule}"
        if not declared.quantiles or not all(0 < q < 1 for q in declared.quantiles):
            yield (
                ("quantiles",),
                f"quantiles = {declared.quantiles}: give some between 0 and 1, such as [0.1, 0.5, 0.9].",
            )
        elif sorted(set(declared.quantiles)) != declared.quantiles:
            yield ("quantiles",), f"quantiles = {declared.quantiles}: they rise, and none comes twice."
        for key in ("classes", "left_out"):
            if getattr(declared, key):
                yield (key,), f'{key} means nothing with kind = "regression": take the line out.'
    elif name not in ("bool", "category"):
        rule = '"category" (category int where a Parquet file stores numbers) or "bool". For a number write '
        yield ("columns", declared.target), f'{target}; classes are a {rule}kind = "regression".'
    elif len(declared.classes) < 2 or len(set(declared.classes)) < len(declared.classes):
        yield ("classes",), f"classes = {declared.classes}: name two or more, each once, in the order of their codes."
    elif name == "bool" and declared.classes != ["false", "true"]:
        yield ("classes",), f'classes = {declared.classes}: {target}, whose classes are ["false", "true"].'
    elif both := sorted({*declared.classes} & {*declared.left_out}):
        yield ("left_out",), f"{quoted(both[0])} stands in classes and in left_out: take it out of one."


def _roles(declared: Declared) -> Iterator[Problem]:
    time = declared.time and declared.kinds[declared.time]
    if time and time.name not in DATES:
        rule = f"the time {quoted(declared.time)} is {quoted(declared.columns[declared.time])}"
        yield ("columns", declared.time), f"{rule}; it must be a date or a timestamp."
    if len(set(declared.groups)) < len(declared.groups) or len(declared.groups) > 2:
        yield ("group",), f"group = {declared.group}: name one column, or two that differ."
    if "row" in declared.groups and len(declared.groups) > 1 and "row" not in declared.columns:
        yield ("group",), f'group = {declared.group}: "row" says that every row counts by itself, so it stands alone.'
    if "day" in declared.groups and not time and "day" not in declared.columns:
        yield ("group",), 'group = "day" is the day of the time: name the column of the time.'
    for role, names in (("key", declared.key), ("time", [declared.time]), ("group", declared.groups)):
        for name in filter(declared.kinds.__contains__, names):
            if role != "group" and declared.kinds[name].missing:
                text = quoted(declared.columns[name])
                yield ("columns", name), f"{quoted(name)} is {text}, and a {role} is never missing: take its rows out."
        if declared.target in names:
            yield (role,), f"{role} names the target, which is not known beforehand."
    for name in declared.slices:
        if name not in declared.features or declared.kinds[name].name != "category":
            yield ("slices",), f"slices: {quoted(name)} is no category that the model learns from."


def _rest(declared: Declared) -> Iterator[Problem]:
    if not declared.features and not declared.time:
        rule = "beside the target it needs at least one that is neither key nor group."
        yield ("columns",), f"[columns] leaves nothing to learn from: {rule}"
    if not declared.network.hidden or min(declared.network.hidden) < 1:
        yield ("network", "hidden"), f"hidden = {declared.network.hidden}: the width of each layer, 1 or more."


# ---- on which line of a TOML text a key stands: tomllib does not tell


_HEADER = re.compile(r"\s*\[([^\[\]].*)\]\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*=""")


def line_of(text: str, keys: Sequence[str]) -> int:
    """The line of a key, such as ("columns", "age"), else of the table that it would stand in; 1 if there is none."""
    known = _lines(text)
    return known.get(tuple(keys)) or known.get(tuple(keys[:1])) or 1


def written_line(text: str, number: int) -> str:
    """A line without its comment and the blanks that line it up, for a message."""
    line = re.sub(r"\s+#[^\"']*$", "", text.split("\n")[number - 1]).strip()
    return re.sub(r"\s+=\s+", " = ", line, count=1)


@lru_cache(maxsize=4)
def _lines(text: str) -> Mapping[tuple[str, ...], int]:
    """The first line of every table, and of every key in it."""
    table: tuple[str, ...] = ()
    lines: dict[tuple[str, ...], int] = {}
    for number, written in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(written):
            table = (_plain(header[1]),)
            lines.setdefault(table, number)
        elif key := _KEY.match(written):
            lines.setdefault((*table, _plain(key[1])), number)
    return lines


def _plain(name: str) -> str:
    """A key without its quotes."""
    if name[:1] not in "\"'":
        return name.strip()
    try:
        return next(iter(tomllib.loads(f"{name.strip()} = 0")))
    except tomllib.TOMLDecodeError:
        return name
