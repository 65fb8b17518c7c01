"""Edits of single values in a JSON or YAML text that keep every other character."""

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
    """A new value for a field, whose `old` is None if it is missing; `barred` is the reason not to change it, or ""."""

    path: FieldPath
    old: object
    new: str | int
    barred: str = ""


class CannotEdit(ValueError):
    """The reason why a value cannot be changed in the text, as a clause without a full stop."""


@dataclass(frozen=True)
class _Value:
    """The offsets of a value and of its key in the text."""

    start: int
    end: int
    text: str
    style: str
    key_start: int
    key_end: int
    is_flow: bool


class Editor:
    """Collects changes of one document; each set of changes is accepted whole or not at all."""

    def __init__(self, document: Document, paths: Iterable[FieldPath]) -> None:
        self.document, self.source = document, document.text
        self.expected = copy.deepcopy(document.data)
        self.edits: list[tuple[int, int, str]] = []
        self.values: dict[Words, _Value] = {}
        targets = {_words(path) for path in paths}
        # Sibling fields too, because a missing field is written after a sibling.
        self.parents = {path[:-1] for path in targets}
        if document.places is None and document.fault is None:
            self._find()

    def _find(self) -> None:
        """Locates the values, parsing JSON as YAML; the few JSON texts that are not YAML are not edited."""
        try:
            self.values = _locate_scalars(self.source, self.parents)
        except yaml.YAMLError:
            self.values = {}

    def take(self, changes: Sequence[Change]) -> None:
        """Accepts all changes; raises CannotEdit, and accepts none, if one cannot be made."""
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
        """Returns the changed text; raises CannotEdit if it would not parse to the expected data."""
        text = self.source
        for start, end, new in reversed(sorted(self.edits, key=lambda edit: edit[0])):
            text = text[:start] + new + text[end:]
        documents = parse(self.document.file, text)
        if len(documents) != 1 or documents[0].fault or documents[0].data != self.expected:
            raise CannotEdit("the changed text would not have the expected values")
        return text

    def _edit(self, change: Change) -> tuple[int, int, str]:
        if change.barred:
            raise CannotEdit(change.barred)
        if not re.fullmatch(r"[\w.-]+", str(change.new)):
            raise CannotEdit(f"'{change.new}' is not a plain value")
        value = self.values.get(_words(change.path))
        if _get_at(self.document.data, change.path) != change.old:
            raise CannotEdit("the file does not contain the value in this form")
        if value is not None:
            return value.start, value.end, self._format_value(value, change.new)
        if change.old is not None:
            raise CannotEdit("the value is behind an alias or inside an embedded text")
        return self._insert(change)

    def _format_value(self, value: _Value, new: str | int) -> str:
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

    def _insert(self, change: Change) -> tuple[int, int, str]:
        """Returns the edit that adds a missing field after a sibling, in the sibling's style."""
        beside = self._find_sibling(change)
        if beside is None:
            raise CannotEdit("the missing field has no sibling")
        value, key = self.values[beside], self._spell_key(change)
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

    def _find_sibling(self, change: Change) -> Words | None:
        """Returns the path of the first scalar field in the mapping of the missing field, or None."""
        parent = _words(change.path[:-1])
        return next((path for path in self.values if path[:-1] == parent), None)

    def _spell_key(self, change: Change) -> str | int:
        """Returns the name of a missing field in the spelling of its sibling."""
        name, beside = change.path[-1], self._find_sibling(change)
        if change.old is not None or _words(change.path) in self.values or beside is None:
            return name
        separators = _separators(beside[-1])
        return next((own for own in spellings(str(name)) if separators in (_separators(own), (False, False))), name)

    def _expect(self, change: Change) -> None:
        """Applies the change to the data that the new text must parse to."""
        parent = _get_at(self.expected, change.path[:-1])
        is_text = isinstance(change.old, str)
        parent[self._spell_key(change)] = str(change.new) if is_text else change.new


def _separators(name: str) -> tuple[bool, bool]:
    return "_" in name, "-" in name


def _words(path: FieldPath) -> Words:
    return tuple(map(str, path))


def _get_at(data: Any, path: FieldPath) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _locate_scalars(text: str, parents: set[Words]) -> dict[Words, _Value]:
    """Locates the scalar fields of the mappings at `parents`, without values behind an alias."""
    stack: list[tuple[Level, bool]] = []
    values: dict[Words, _Value] = {}
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
            values.pop(path, None)  # the last of two equal keys counts
            if isinstance(event, yaml.ScalarEvent) and level.index is None:
                values[path] = _Value(start, end, text[start:end], event.style or "", *keys[id(level)], is_flow)
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(
                (Level(path, 0 if isinstance(event, yaml.SequenceStartEvent) else None), bool(event.flow_style))
            )
    return values
