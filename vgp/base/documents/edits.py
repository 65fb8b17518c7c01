"""Single values of a JSON or YAML text, changed where they stand: every other character stays."""

import copy
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from vgp.base.documents.bounded_text import FieldPath
from vgp.base.documents.document import Document, parse
from vgp.base.documents.node import spellings
from vgp.base.documents.yaml_text import Level, Words, events


@dataclass(frozen=True)
class Change:
    """Another value for a field; `old` None: the field is missing. `barred`: why it must not be made."""

    path: FieldPath
    old: object
    new: str | int
    barred: str = ""


class CannotEdit(ValueError):
    """The value cannot be changed in the text: why, in a sentence without its end."""


@dataclass(frozen=True)
class _Value:
    """Where a value stands in the text, and its key before it."""

    start: int
    end: int
    text: str
    style: str
    key_start: int
    key_end: int
    is_flow: bool


class Editor:
    """Gathers changes of one document, of which each set is taken whole or not at all."""

    def __init__(self, document: Document, paths: Iterable[FieldPath]) -> None:
        self.document, self.source = document, document.text
        self.expected = copy.deepcopy(document.data)
        self.edits: list[tuple[int, int, str]] = []
        self.values: dict[Words, _Value] = {}
        wanted = {_words(path) for path in paths}
        # The fields beside them too: a missing one is written after one of these.
        self.parents = {path[:-1] for path in wanted}
        if document.places is None and document.fault is None:
            self._find()

    def _find(self) -> None:
        """JSON is read as YAML, which it is; the few texts that are not stay as they are."""
        try:
            self.values = _values(self.source, self.parents)
        except yaml.YAMLError:
            self.values = {}

    def take(self, changes: Sequence[Change]) -> None:
        """Raises CannotEdit where one of the changes cannot be made; then none of them is."""
        if self.document.places is not None:
            raise CannotEdit("programs and scripts are not changed")
        edits = [self._edit(change) for change in changes]
        taken = {(start, end) for start, end, _ in self.edits if end > start}
        if any((start, end) in taken for start, end, _ in edits):
            raise CannotEdit("another finding changes the same value")
        self.edits += edits
        for change in changes:
            self._expect(change)

    def result(self) -> str:
        """The text with the changes; raises CannotEdit where it would not say what is wanted."""
        text = self.source
        for start, end, new in reversed(sorted(self.edits, key=lambda edit: edit[0])):
            text = text[:start] + new + text[end:]
        documents = parse(self.document.file, text)
        if len(documents) != 1 or documents[0].fault or documents[0].data != self.expected:
            raise CannotEdit("the text would not say what is meant")
        return text

    def _edit(self, change: Change) -> tuple[int, int, str]:
        if change.barred:
            raise CannotEdit(change.barred)
        if not re.fullmatch(r"[\w.-]+", str(change.new)):
            raise CannotEdit(f"'{change.new}' is no plain value")
        value = self.values.get(_words(change.path))
        if _at(self.document.data, change.path) != change.old:
            raise CannotEdit("the value does not stand in the file as such")
        if value is not None:
            return value.start, value.end, self._written(value, change.new)
        if change.old is not None:
            raise CannotEdit("the value stands behind an alias, or in a text of its own")
        return self._inserted(change)

    def _written(self, value: _Value, new: str | int) -> str:
        if value.text and value.style in ("'", '"'):
            if value.text[0] != value.style or "\n" in value.text:
                raise CannotEdit("the value has an anchor or a tag, or goes over several lines")
            return f"{value.style}{new}{value.style}"
        if value.style in ("|", ">") or "\n" in value.text or re.match(r"[&!*]", value.text):
            raise CannotEdit("the value has an anchor or a tag, or goes over several lines")
        text = self._plain(new)
        return text if value.text or not self.source[: value.start].endswith(":") else f" {text}"

    def _plain(self, new: str | int) -> str:
        return str(new) if self.document.is_yaml else json.dumps(new)

    def _inserted(self, change: Change) -> tuple[int, int, str]:
        """A field that is missing, after the one that stands beside it, and written like it."""
        beside = self._beside(change)
        if beside is None:
            raise CannotEdit("no field stands beside it")
        value, key = self.values[beside], self._key(change)
        quote = self.source[value.key_start] if self.source[value.key_start] in "\"'" else ""
        colon = self.source[value.key_end : value.start]
        colon = colon if re.fullmatch(r" ?: ?", colon) else ": "
        pair = f"{quote}{key}{quote}{colon}{self._plain(change.new)}"
        line_start = self.source.rfind("\n", 0, value.key_start) + 1
        before = self.source[line_start : value.key_start]
        if value.is_flow:
            alone = f",\n{before}" if not before.strip() and line_start else ", " if colon.endswith(" ") else ","
            return value.end, value.end, alone + pair
        line_end = self.source.find("\n", value.end)
        line_end = len(self.source) if line_end < 0 else line_end
        return line_end, line_end, f"\n{' ' * len(before)}{pair}"

    def _beside(self, change: Change) -> Words | None:
        """The first scalar field of the mapping that misses one."""
        parent = _words(change.path[:-1])
        return next((path for path in self.values if path[:-1] == parent), None)

    def _key(self, change: Change) -> str | int:
        """The name of a missing field, in the spelling of the one beside it."""
        name, beside = change.path[-1], self._beside(change)
        if change.old is not None or _words(change.path) in self.values or beside is None:
            return name
        separators = _separators(beside[-1])
        return next((own for own in spellings(str(name)) if separators in (_separators(own), (False, False))), name)

    def _expect(self, change: Change) -> None:
        """Writes it into the data that the new text must have."""
        parent = _at(self.expected, change.path[:-1])
        is_text = isinstance(change.old, str)
        parent[self._key(change)] = str(change.new) if is_text else change.new


def _separators(name: str) -> tuple[bool, bool]:
    return "_" in name, "-" in name


def _words(path: FieldPath) -> Words:
    return tuple(map(str, path))


def _at(data: Any, path: FieldPath) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _values(text: str, parents: set[Words]) -> dict[Words, _Value]:
    """Where the scalar fields of these mappings stand; what is behind an alias does not."""
    stack: list[tuple[Level, bool]] = []
    found: dict[Words, _Value] = {}
    keys: dict[int, tuple[int, int]] = {}
    for event in events(text):
        if isinstance(event, yaml.DocumentEndEvent):
            break
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
        if not isinstance(event, yaml.NodeEvent):
            continue
        level, is_flow = stack[-1] if stack else (None, False)
        path, is_here = level.enter(event) if level else ((), False)
        start, end = event.start_mark.index, event.end_mark.index
        if level is not None and level.index is None and is_here:
            keys[id(level)] = (start, end)
        elif level is not None and path[:-1] in parents:
            found.pop(path, None)  # of a key that is given twice the last one counts
            if isinstance(event, yaml.ScalarEvent) and level.index is None:
                found[path] = _Value(start, end, text[start:end], event.style or "", *keys[id(level)], is_flow)
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(
                (Level(path, 0 if isinstance(event, yaml.SequenceStartEvent) else None), bool(event.flow_style))
            )
    return found
