"""Parses and checks the text of a task.toml."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vgp.base.exits import UserError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import quote
from vgp.data.tasks.table import declaration
from vgp.data.tasks.table.column_types import DATES, NUMBERS, parse_kind
from vgp.data.tasks.table.declaration import Declared

#: The most bytes of the text as JSON, which is passed in one argument of a process: Linux limits it to 128 KiB
#: (MAX_ARG_STRLEN).
MOST_BYTES = 96 << 10
_TABLES: dict[str, type[BaseModel]] = {
    "split": declaration.Split,
    "reading": declaration.Reading,
    "network": declaration.Network,
}
_EXAMPLES = {"target": 'target = "COLUMN"', "columns": '[columns], and below it NAME = "TYPE" for each column'}


def parse(text: str, file: str = "the task's TOML") -> Declared:
    """Returns the declaration in a text.

    Args:
        file: The name of the text in messages.

    Raises:
        UserError: the text is not TOML, or declares a task that cannot be; lists each mistake with its line.
    """
    if (size := len(json.dumps(text))) > MOST_BYTES:
        raise UserError(
            f"{file} has {size:,} bytes as JSON, and at most {MOST_BYTES:,} can be passed as a parameter. Remove "
            "comments, and columns that the model does not need."
        )
    try:
        values = tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{file} is not valid TOML: {str(error) or 'nested too deeply'}.") from None
    try:
        declared = Declared.model_validate(values)
    except ValidationError as error:
        problems = [(_list_keys(problem), _sentence(problem)) for problem in error.errors()]
    else:
        problems = find_problems(declared)
        if not problems:
            return declared
    raise UserError("\n".join(f"{file}, line {line_of(text, keys)}: {sentence}" for keys, sentence in problems))


def _list_keys(problem: ErrorDetails) -> tuple[str, ...]:
    return tuple(part for part in problem["loc"] if isinstance(part, str))


def _sentence(problem: ErrorDetails) -> str:
    """Describes an error of pydantic, with the valid choices."""
    keys, value = _list_keys(problem), problem["input"]
    name = ".".join(keys)
    match problem["type"]:
        case "extra_forbidden":
            known: type[BaseModel] = _TABLES.get(keys[0], Declared) if len(keys) > 1 else Declared
            return f"unknown key {quote(name)}. {did_you_mean(keys[-1], known.model_fields)}"
        case "missing":
            return f"{name} is missing: write {_EXAMPLES.get(name, name)}."
        case "too_long" if name == "columns":
            return declaration.too_many_columns(len(value))
        case "too_long":
            return f"{name} names {len(value):,} classes; at most {declaration.MOST_CLASSES:,} are possible."
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} = {quote(value) if isinstance(value, str) else quote(str(value))[1:-1]}: it {message}."


# ---- consistency between the parts of a task.toml


#: The key of a mistake, for its line, and a sentence.
Problem = tuple[tuple[str, ...], str]


def find_problems(declared: Declared) -> list[Problem]:
    """Returns mistakes in the names and types of columns or, if there are none, in the use of the columns."""
    problems = [*_check_types(declared), *_names(declared), *_check_references(declared)]
    return problems or [*_check_target(declared), *_check_roles(declared), *_check_rest(declared)]


def _check_types(declared: Declared) -> Iterator[Problem]:
    for table, columns in (("columns", declared.columns), ("ignored", declared.ignored)):
        for name, text in columns.items():
            try:
                parse_kind(text)
            except ValueError as error:
                if text or table == "columns":
                    yield (table, name), f"the column {quote(name)}: {error}"


def _names(declared: Declared) -> Iterator[Problem]:
    spellings = dict[str, str]()
    for name in declared.columns:
        if not name.strip():
            yield ("columns", name), "a column without a name cannot be read: name it in the data file."
        if (other := spellings.setdefault(name.lower(), name)) != name:
            rule = "differ only in case, which engines ignore: remove one, or rename it in the data file."
            yield ("columns", name), f"{quote(name)} and {quote(other)} {rule}"
        if name in declared.ignored:
            yield ("ignored", name), f"{quote(name)} is in both [columns] and [ignored]: remove one of the lines."


def _check_references(declared: Declared) -> Iterator[Problem]:
    for key in ("target", "key", "time", "group", "slices", "trusted"):
        value = getattr(declared, key)
        for name in filter(None, [value] if isinstance(value, str) else value):
            if name in declared.columns or key == "group" and name in ("day", "row"):
                continue
            fix = "It is in [ignored]: move its line." if name in declared.ignored else ""
            yield (key,), f"{key}: [columns] has no {quote(name)}. {fix or did_you_mean(name, declared.columns)}"


def _check_target(declared: Declared) -> Iterator[Problem]:
    text, name = declared.columns[declared.target], declared.kinds[declared.target].name
    target = f"the target {quote(declared.target)} is {quote(text)}"
    if declared.kind == "regression":
        if name not in NUMBERS:
            rule = (
                'a regression learns a number (int, float, number). Write kind = "classes", or choose another target.'
            )
            yield ("kind",), f"{target}, and {rule}"
        if not declared.quantiles or not all(0 < q < 1 for q in declared.quantiles):
            yield (
                ("quantiles",),
                f"quantiles = {declared.quantiles}: give numbers between 0 and 1, such as [0.1, 0.5, 0.9].",
            )
        elif sorted(set(declared.quantiles)) != declared.quantiles:
            yield ("quantiles",), f"quantiles = {declared.quantiles}: give each number once, in rising order."
        for key in ("classes", "left_out"):
            if getattr(declared, key):
                yield (key,), f'{key} has no effect with kind = "regression": remove the line.'
    elif name not in ("bool", "category"):
        rule = '"category" ("category int" if a Parquet file stores numbers) or "bool". To learn a number, write '
        yield ("columns", declared.target), f'{target}; a target with classes is a {rule}kind = "regression".'
    elif len(declared.classes) < 2 or len(set(declared.classes)) < len(declared.classes):
        yield ("classes",), f"classes = {declared.classes}: name two or more, each once, in the order of their codes."
    elif name == "bool" and declared.classes != ["false", "true"]:
        yield ("classes",), f'classes = {declared.classes}: {target}, whose classes are ["false", "true"].'
    elif both := sorted({*declared.classes} & {*declared.left_out}):
        yield ("left_out",), f"{quote(both[0])} is in both classes and left_out: remove it from one of them."


def _check_roles(declared: Declared) -> Iterator[Problem]:
    time = declared.time and declared.kinds[declared.time]
    if time and time.name not in DATES:
        rule = f"the time {quote(declared.time)} is {quote(declared.columns[declared.time])}"
        yield ("columns", declared.time), f"{rule}; it must be a date or a timestamp."
    if len(set(declared.groups)) < len(declared.groups) or len(declared.groups) > 2:
        yield ("group",), f"group = {declared.group}: name one column, or two different ones."
    if "row" in declared.groups and len(declared.groups) > 1 and "row" not in declared.columns:
        yield ("group",), f'group = {declared.group}: "row" makes each row independent, so it excludes other groups.'
    if "day" in declared.groups and not time and "day" not in declared.columns:
        yield ("group",), 'group = "day" is the day of the time: set `time` to a column of dates.'
    for role, names in (("key", declared.key), ("time", [declared.time]), ("group", declared.groups)):
        for name in filter(declared.kinds.__contains__, names):
            if role != "group" and declared.kinds[name].missing:
                text = quote(declared.columns[name])
                yield ("columns", name), f"{quote(name)} is {text}, and a {role} may not be missing: remove the rows."
        if declared.target in names:
            yield (role,), f"{role} names the target, which is unknown at prediction time."
    for name in declared.slices:
        if name not in declared.features or declared.kinds[name].name != "category":
            yield ("slices",), f"slices: {quote(name)} is not a category that the model learns from."


def _check_rest(declared: Declared) -> Iterator[Problem]:
    if not declared.features and not declared.time:
        rule = "add a column that is not the target, a key or a group."
        yield ("columns",), f"[columns] has nothing to learn from: {rule}"
    if not declared.network.hidden or min(declared.network.hidden) < 1:
        yield ("network", "hidden"), f"hidden = {declared.network.hidden}: give the width of each layer, 1 or more."


# ---- the line numbers of keys, which tomllib does not report


_HEADER = re.compile(r"\s*\[([^\[\]].*)\]\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*=""")


def line_of(text: str, keys: Sequence[str]) -> int:
    """Returns the line of a key, such as ("columns", "age"), else the line of its table, else 1."""
    known = _lines(text)
    return known.get(tuple(keys)) or known.get(tuple(keys[:1])) or 1


def strip_line(text: str, number: int) -> str:
    """Returns a line without its comment and alignment, for a message."""
    line = re.sub(r"\s+#[^\"']*$", "", text.split("\n")[number - 1]).strip()
    return re.sub(r"\s+=\s+", " = ", line, count=1)


@lru_cache(maxsize=4)
def _lines(text: str) -> Mapping[tuple[str, ...], int]:
    """Returns the first line of each table and of each key."""
    table: tuple[str, ...] = ()
    lines: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = (_plain(header[1]),)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, _plain(key[1])), number)
    return lines


def _plain(name: str) -> str:
    """Removes the quotes of a key."""
    if name[:1] not in "\"'":
        return name.strip()
    try:
        return next(iter(tomllib.loads(f"{name.strip()} = 0")))
    except tomllib.TOMLDecodeError:
        return name
