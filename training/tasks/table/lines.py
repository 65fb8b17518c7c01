"""On which line of a TOML text a key stands: tomllib does not tell."""

import re
import tomllib
from collections.abc import Sequence

_HEADER = re.compile(r"\s*\[([^\[\]].*)\]\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*=""")


def line(text: str, keys: Sequence[str]) -> int:
    """The line of a key, such as ("columns", "age"), else of the table that it would stand in; 1 if there is none."""
    table: tuple[str, ...] = ()
    found = 1
    for number, written in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(written):
            table = (_plain(header[1]),)
            found = number if table == tuple(keys[:1]) else found
        elif (key := _KEY.match(written)) and (*table, _plain(key[1])) == tuple(keys):
            return number
    return found


def written(text: str, number: int) -> str:
    """A line without its comment and the blanks around it, for a message."""
    return re.sub(r"\s+#[^\"']*$", "", text.split("\n")[number - 1]).strip()


def _plain(name: str) -> str:
    """A key without its quotes."""
    try:
        return next(iter(tomllib.loads(f"{name.strip()} = 0")))
    except (tomllib.TOMLDecodeError, RecursionError):
        return name.strip()
