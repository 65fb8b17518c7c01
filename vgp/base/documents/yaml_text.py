"""Untrusted YAML texts, read within limits from the events of PyYAML's C parser.

PyYAML's loader builds a tree of nodes first, which takes five times as long, crashes on very deep nesting, and silently
keeps the last of two equal keys.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml

from vgp.base.documents.bounded_text import FieldPath
from vgp.base.documents.json_text import MAX_DIGITS, Repeating

# ---- the lines of paths: the events are read again for each request, and not stored

#: Maximum depth of aliases of aliases when searching a line; each level reads the text once more.
MAX_ALIASES = 3

Words = tuple[str, ...]


def lines(text: str, paths: Iterable[FieldPath]) -> dict[FieldPath, int]:
    """Returns the line (from 1) of each path, or of its nearest parent; behind an alias, the line of the anchor."""
    by_words = _find_lines(text, {tuple(map(str, path)) for path in paths}, MAX_ALIASES)
    return {path: by_words[tuple(map(str, path))] for path in paths}


def _find_lines(text: str, paths: set[Words], aliases: int) -> dict[Words, int]:
    known: dict[Words, int] = {(): 1}
    behind: dict[Words, Words] = {}
    wanted = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
    for place, line, original in _locate_paths(text, wanted):
        known.setdefault(place, line)
        if original is not None:
            behind.setdefault(place, original)
        if len(known) > len(wanted):  # all paths, and the root
            break
    moved = {
        path: (*behind[place], *path[len(place) :]) for path in paths if (place := _find_longest_prefix(behind, path))
    }
    elsewhere = _find_lines(text, set(moved.values()), aliases - 1) if moved and aliases else {}
    return {path: elsewhere.get(moved.get(path, ())) or known[_find_longest_prefix(known, path)] for path in paths}


def _find_longest_prefix(places: Mapping[Words, object], path: Words) -> Words:
    """Returns the longest prefix of `path` in `places`, or ()."""
    return next((path[:depth] for depth in range(len(path), 0, -1) if path[:depth] in places), ())


@dataclass
class Level:
    """An open list (`index` of its next item) or mapping (`key`, the path of its next value) at a path."""

    path: Words
    index: int | None
    key: Words = ()
    expects_key: bool = True

    def enter(self, event: yaml.Event) -> tuple[Words, bool]:
        """Returns the path of the event, and whether its line is the line of that path."""
        if self.index is not None:
            self.index += 1
            return (*self.path, str(self.index - 1)), True
        self.expects_key = not self.expects_key
        if not self.expects_key:
            self.key = (*self.path, event.value if isinstance(event, yaml.ScalarEvent) else "")
        return self.key, not self.expects_key


def _locate_paths(text: str, paths: set[Words]) -> Iterator[tuple[Words, int, Words | None]]:
    """Yields (path, line, None) of each key or item in `paths`, and (path, line, path of the anchor) of each alias."""
    stack: list[Level] = []
    anchors: dict[str, Words] = {}
    for event in events(text):
        if isinstance(event, yaml.DocumentEndEvent):
            return  # the rest may be invalid YAML
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
        if is_here and path in paths:
            yield path, event.start_mark.line + 1, original
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(Level(path, 0 if isinstance(event, yaml.SequenceStartEvent) else None))


_RESOLVER = yaml.resolver.Resolver()
_TAG = "tag:yaml.org,2002:"
#: Marks for `<<` and for an open anchor while the text is read.
_MERGE, _OPEN = object(), object()
#: Maximum number of repeated keys, about whose meaning YAML parsers disagree.
MAX_REPEATED = 10_000
_PARTS = (yaml.ScalarEvent, yaml.NodeEvent, yaml.CollectionEndEvent)


class TooMuch(ValueError):
    """A limit that the text exceeds, named in the message."""


@dataclass
class Limits:
    """Limits of one document with its aliases expanded."""

    values: int
    characters: int
    levels: int


@dataclass
class _Container:
    """A list or mapping that is still being read; `key` has no value yet."""

    value: Any
    anchor: str | None
    before: tuple[int, int]
    key: object = _OPEN
    merged: list[dict[Any, Any]] = field(default_factory=list)


def events(text: str) -> Iterator[yaml.Event]:
    """Yields the events of the text; raises yaml.YAMLError."""
    loader = yaml.CSafeLoader(text)
    try:
        while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
            yield event
    finally:
        loader.dispose()


def documents(text: str, limits: Limits) -> Iterator[tuple[Any, Repeating]]:
    """Yields each document's data, and its mappings with a repeated key, each with that key.

    Raises:
        yaml.YAMLError: the text is not YAML, or has custom tags.
        TooMuch: a document exceeds a limit.
    """
    reader = None
    for event in events(text):
        if reader is not None and isinstance(event, _PARTS):
            reader.take(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            reader = _Reader(limits)
        elif isinstance(event, yaml.DocumentEndEvent) and reader is not None:
            yield reader.root, reader.repeating


class _Reader:
    """Builds one document from its events, without recursion; an alias is the anchor's object, counted again."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.root: object = None
        self.repeating: Repeating = []
        self.stack: list[_Container] = []
        self.anchors: dict[str, tuple[object, int, int]] = {}
        self.values = self.characters = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self.count(1, len(event.value))
            self.put(_construct_scalar(event), event.anchor, 1, len(event.value))
        elif isinstance(event, yaml.AliasEvent):
            value, values, characters = self.anchors.get(event.anchor, (None, 0, 0))
            if event.anchor not in self.anchors:
                problem = f"nothing above has the anchor &{event.anchor}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
            if value is _OPEN:
                raise TooMuch(f"The alias *{event.anchor} is inside its own anchor: its expansion never ends.")
            self.count(values, characters)
            self.put(value, None, values, characters)
        elif isinstance(event, yaml.CollectionStartEvent):
            self.open(event)
        else:
            self.close()

    def open(self, event: yaml.Event) -> None:
        if event.tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
            problem = f"the tag {event.tag} is not part of plain YAML"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        if len(self.stack) >= self.limits.levels:
            raise TooMuch(f"The document is nested more than {self.limits.levels} levels deep.")
        container: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        self.stack.append(_Container(container, event.anchor, (self.values, self.characters)))
        if event.anchor:
            self.anchors[event.anchor] = (_OPEN, 0, 0)
        self.count(1, 0)

    def close(self) -> None:
        container = self.stack.pop()
        # Own keys override merged ones, and earlier merged mappings later ones.
        for key, value in ((key, value) for mapping in container.merged for key, value in mapping.items()):
            container.value.setdefault(key, value)
        values, characters = container.before
        self.put(container.value, container.anchor, self.values - values, self.characters - characters)

    def put(self, value: object, anchor: str | None, values: int, characters: int) -> None:
        """Adds a complete value to the open container, and stores it under its anchor."""
        if anchor:
            self.anchors[anchor] = (value, values, characters)
        if not self.stack:
            self.root = value
            return
        parent = self.stack[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is _OPEN:
            if isinstance(value, dict | list):
                raise yaml.YAMLError("a key is a list or a mapping")
            parent.key = value
        else:
            key, parent.key = parent.key, _OPEN
            self.pair(parent, key, value)

    def pair(self, parent: _Container, key: object, value: Any) -> None:
        if key is not _MERGE:
            if key in parent.value:
                self.repeating.append((parent.value, key))
                if len(self.repeating) > MAX_REPEATED:
                    raise TooMuch(f"The document repeats more than {MAX_REPEATED:,} keys.")
            parent.value[key] = value
            return
        mappings = value if isinstance(value, list) else [value]
        if not all(isinstance(mapping, dict) for mapping in mappings):
            raise yaml.YAMLError("<< merges mappings, but one of its values is not a mapping")
        self.count(sum(map(len, mappings)), 0)
        parent.merged += mappings

    def count(self, values: int, characters: int) -> None:
        self.values += values
        self.characters += characters
        most = self.limits
        if self.values > most.values or self.characters > most.characters:
            limit = f"{most.values:,} values" if self.values > most.values else f"{most.characters:,} characters"
            raise TooMuch(f"The document has more than {limit}, its aliases expanded.")


def _construct_scalar(event: yaml.ScalarEvent) -> object:
    """Returns the null, boolean, number, date or text of a scalar; an invalid number or date stays a text."""
    if event.tag in (None, "!"):
        if not event.implicit[0] or len(event.value) > MAX_DIGITS:
            return event.value
        return _plain(event.value)
    return _construct(event.tag, event.value)


@lru_cache(maxsize=4096)
def _plain(text: str) -> object:
    return _construct(_RESOLVER.resolve(yaml.ScalarNode, text, (True, False)), text)


def _construct(tag: str, text: str) -> object:
    if tag == f"{_TAG}merge":
        return _MERGE
    if tag in (f"{_TAG}str", f"{_TAG}value") or (len(text) > MAX_DIGITS and tag != f"{_TAG}binary"):
        return text
    try:
        return yaml.constructor.SafeConstructor().construct_object(yaml.ScalarNode(tag, text))
    except (ValueError, TypeError, AttributeError, OverflowError, KeyError):
        return text
