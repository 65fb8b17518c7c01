"""Reads pipelines.toml with the line of each value, and writes single values without changing other text.

tomllib parses the values. tomlkit, which keeps comments and order, finds the lines and writes.
"""

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vgp.base import whole_files
from vgp.base.documents import bounded_text, toml_text
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError

Keys = tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """One settings file."""

    path: Path
    text: str

    @cached_property
    def values(self) -> JsonObject:
        """Returns the parsed values; raises RequestError if the text is not TOML, or is nested too deeply."""
        return toml_text.loads(self.text, str(self.path))

    def line(self, keys: Keys) -> int:
        """Returns the line of the key, from 1, or of its table if the key is missing."""
        for size in range(len(keys), 0, -1):
            inside = [line for at, line in self._lines.items() if at[:size] == keys[:size]]
            if inside:
                return self._lines.get(keys[:size], min(inside))
        return 1

    @cached_property
    def _lines(self) -> dict[Keys, int]:
        """Returns the line of each key, found by a mark before each item of tomlkit's exact copy of the text."""
        import tomlkit

        document = tomlkit.parse(self.text)
        marked = list(_list_items(document))
        for number, (_, item) in enumerate(marked):
            item.trivia.indent = f"\0{number}\0{item.trivia.indent}"
        lines: dict[Keys, int] = {}
        line = 1
        for mark in re.finditer("\0([0-9]+)\0|\n", document.as_string()):
            if mark[1] is None:
                line += 1
            else:
                lines.setdefault(marked[int(mark[1])][0], line)
        return lines


def read(path: Path) -> Document:
    """Reads a settings file; raises RequestError if it cannot be read."""
    return Document(path, bounded_text.read(path, toml_text.MAX_BYTES))


def write_value(path: Path, keys: Sequence[str], value: object) -> None:
    """Sets one value atomically, such as `("environments", "prod", "image")`; every other byte of the file stays."""
    write_values(path, {tuple(keys): value})


def write_values(path: Path, changes: Mapping[Keys, object]) -> None:
    """Sets several values at once, as `write_value` sets one.

    Raises:
        RequestError: the file cannot be read or written, is not TOML, or has no table where `keys` need one.
    """
    import tomlkit

    before = read(path)
    values = copy.deepcopy(before.values)
    document = tomlkit.parse(before.text)
    for keys, value in changes.items():
        _set_value(before, values, keys, value)
        table: Any = document
        for key in keys[:-1]:
            table = table[key] if key in table else table.setdefault(key, tomlkit.table())
        table[keys[-1]] = value
    text = document.as_string()
    assert _dump_sorted(tomllib.loads(text)) == _dump_sorted(values), "tomlkit changed other values"
    whole_files.write(path, text)


def _set_value(document: Document, values: JsonObject, keys: Sequence[str], value: object) -> None:
    """Sets the value in `values`, the values of the file."""
    table: Any = values
    for depth, key in enumerate(keys[:-1], start=1):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise RequestError(
                f"{document.path}:{document.line(tuple(keys))}: {'.'.join(keys[:depth])} is not a table."
            )
    table[keys[-1]] = value


def _dump_sorted(values: JsonObject) -> str:
    """Returns a text that is equal for equal values, including nan, in any order."""
    return json.dumps(values, sort_keys=True, default=repr)


def _list_items(container: Any, at: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Yields every item of a tomlkit container with its keys, in the order of the text.

    A table in a list gets its number, from 1.
    """
    for key, item in container.body:
        if key is None:  # a comment or an empty line
            continue
        here = (*at, key.key)
        if hasattr(item, "body"):  # [[name]] has several
            for number, part in enumerate(item.body, 1):
                yield (*here, str(number)) if number > 1 else here, part
                yield from _list_items(part.value, (*here, str(number)))
            continue
        yield here, item
        if hasattr(item.value, "body"):
            yield from _list_items(item.value, here)
        elif isinstance(item, list):
            for number, inner in enumerate(item, 1):
                yield from _list_items(inner.value, (*here, str(number))) if hasattr(inner.value, "body") else ()
