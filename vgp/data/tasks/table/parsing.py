"""The text of a task.toml -> what it declares."""

import json
import tomllib
from typing import Any

from pydantic import BaseModel, ValidationError

from vgp.base.exits import UserError
from vgp.base.options import nearest
from vgp.base.printable import quoted
from vgp.data.tasks.table import declaration, lines, rules
from vgp.data.tasks.table.declaration import Declared

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
        problems = rules.problems(declared)
        if not problems:
            return declared
    raise UserError("\n".join(f"{file}, line {lines.line(text, keys)}: {says}" for keys, says in problems))


def _keys(problem: Any) -> tuple[str, ...]:
    return tuple(part for part in problem["loc"] if isinstance(part, str))


def _sentence(problem: Any) -> str:
    """What pydantic found, and the choices."""
    keys, given = _keys(problem), problem["input"]
    name = ".".join(keys)
    match problem["type"]:
        case "extra_forbidden":
            known: type[BaseModel] = _TABLES.get(keys[0], Declared) if len(keys) > 1 else Declared
            return f"there is no key {quoted(name)}. {nearest(keys[-1], known.model_fields)}"
        case "missing":
            return f"{name} is missing: write {_EXAMPLES.get(name, name)}."
        case "too_long" if name == "columns":
            return declaration.too_many(len(given))
        case "too_long":
            return f"{name} names {len(given):,} classes; at most {declaration.MOST_CLASSES:,} are learned."
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} = {quoted(given) if isinstance(given, str) else quoted(str(given))[1:-1]}: it {message}."
