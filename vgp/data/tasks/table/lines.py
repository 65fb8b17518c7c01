"""On which line of a TOML text a key stands: tomllib does not tell."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache

_HEADER = re.compile(r"\s*\[([^\[\]].*)\]\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*=""")


def line(text: str, keys: Sequence[str]) -> int:
    """The line of a key, such as ("columns", "age"), else of the table that it would stand in; 1 if there is none."""
    known = _lines(text)
    return known.get(tuple(keys)) or known.get(tuple(keys[:1])) or 1


def written(text: str, number: int) -> str:
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
