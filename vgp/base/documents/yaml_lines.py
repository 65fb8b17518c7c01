"""Where paths stand in a YAML text: its events are walked once more when lines are asked for, and nothing is kept."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from vgp.base.documents.bounded_text import FieldPath
from vgp.base.documents.yaml_text import events

#: Aliases of aliases that a line is looked for behind; each costs one more reading of the text.
MAX_ALIASES = 3

Words = tuple[str, ...]


def lines(text: str, paths: Iterable[FieldPath]) -> dict[FieldPath, int]:
    """The line (from 1) of each path, or of its nearest parent in the text; behind an alias, where that was written."""
    by_words = _lines(text, {tuple(map(str, path)) for path in paths}, MAX_ALIASES)
    return {path: by_words[tuple(map(str, path))] for path in paths}


def _lines(text: str, paths: set[Words], aliases: int) -> dict[Words, int]:
    known: dict[Words, int] = {(): 1}
    behind: dict[Words, Words] = {}
    wanted = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
    for place, line, original in _places(text, wanted):
        known.setdefault(place, line)
        if original is not None:
            behind.setdefault(place, original)
        if len(known) > len(wanted):  # all of them, and the whole
            break
    moved = {path: (*behind[place], *path[len(place) :]) for path in paths if (place := _within(behind, path))}
    elsewhere = _lines(text, set(moved.values()), aliases - 1) if moved and aliases else {}
    return {path: elsewhere.get(moved.get(path, ())) or known[_within(known, path)] for path in paths}


def _within(places: Mapping[Words, object], path: Words) -> Words:
    """The nearest of the places that the path is at or below."""
    return next((path[:depth] for depth in range(len(path), 0, -1) if path[:depth] in places), ())


@dataclass
class Level:
    """A list (`index`: of its next item) or a mapping (`key`: where its next value stands) at a path."""

    path: Words
    index: int | None
    key: Words = ()
    expects_key: bool = True

    def enter(self, event: Any) -> tuple[Words, bool]:
        """Where the event stands, and whether its line is that of the place."""
        if self.index is not None:
            self.index += 1
            return (*self.path, str(self.index - 1)), True
        self.expects_key = not self.expects_key
        if not self.expects_key:
            self.key = (*self.path, event.value if isinstance(event, yaml.ScalarEvent) else "")
        return self.key, not self.expects_key


def _places(text: str, wanted: set[Words]) -> Iterator[tuple[Words, int, Words | None]]:
    """(path, line, None) of each key or item that is wanted, and (path, line, what it names) of each wanted alias."""
    stack: list[Level] = []
    anchors: dict[str, Words] = {}
    for event in events(text):
        if isinstance(event, yaml.DocumentEndEvent):
            return  # what follows may be no YAML
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        path, is_here = stack[-1].enter(event) if stack else ((), False)
        if isinstance(event, yaml.AliasEvent):
            is_here, original = True, anchors.get(event.anchor)
        else:
            original = None
            if event.anchor:
                anchors[event.anchor] = path
        if is_here and path in wanted:
            yield path, event.start_mark.line + 1, original
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(Level(path, 0 if isinstance(event, yaml.SequenceStartEvent) else None))
