"""A value in a spec, with where it stands and what is known of it before the run.

A compiled pipeline refers to values by placeholders (`{{$.inputs.parameters['gpu']}}`). A Node follows them to the
constant or default that they will have, and remembers the path of that; what only the run knows stays unknown.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from vgp.documents import json_text
from vgp.documents.budget import spend
from vgp.documents.document import LIMITS
from vgp.documents.field_path import FieldPath

_PARAMETER = re.compile(r"\{\{\$\.inputs\.parameters\[['\"]([^'\"{}]+)['\"]\]\}\}")
#: Anything that some program would have to fill in: {{...}}, ${NAME}, $(NAME).
_TEMPLATE = re.compile(r"\{\{[^{}]*+\}\}|\$\{\w++\}|\$\(\w++\)")
_CAMEL = re.compile(r"(?<!^)(?=[A-Z])")
MAX_LOOKUPS = 50
#: Of a text that placeholders are put into. Compiled components have commands of 20 kB.
MAX_SPLICED = 1_000_000


class Computed(str):
    """A value that a program or a shell makes when it runs; the text says how, and why it is not known."""

    __slots__ = ()


class Scope(Protocol):
    """Where placeholders get their values: the inputs of a task."""

    def lookup(self, name: str, depth: int) -> "Node": ...


@dataclass(frozen=True)
class Node:
    """A value at its place; unknown where only the run has it, or nobody."""

    value: Any
    path: FieldPath = ()
    scope: Scope | None = None
    #: Why the value is not known before the run; empty if it is.
    runtime: str = ""
    #: Why no run can ever know it.
    dangling: str = ""
    #: The pipeline parameter whose default this is.
    assumed: str = ""
    depth: int = 0

    @property
    def known(self) -> bool:
        return not self.runtime and not self.dangling

    @property
    def missing(self) -> bool:
        return self.known and self.value is None

    def get(self, name: str) -> "Node":
        """The field of that camelCase name, written as camelCase, snake_case or kebab-case."""
        if not self.known or not isinstance(self.value, dict):
            return self._at(None, name)
        for spelled in spellings(name):
            if spelled in self.value:
                return self._child(self.value[spelled], spelled)
        return self._at(None, name)

    def _at(self, value: Any, step: str | int) -> "Node":
        """A value below this one, of which is known what is known of this one; `replace` takes three times as long."""
        return Node(
            value, (*self.path, step), self.scope, self.runtime, self.dangling, self.assumed, self.depth
        )  # fmt: skip

    def items(self) -> Iterator["Node"]:
        """The items of a list; nothing for anything else."""
        if self.known and isinstance(self.value, list):
            for index, value in enumerate(self.value):
                yield self._child(value, index)

    def decoded(self) -> "Node":
        """A list or object given as JSON text is what the text says."""
        if isinstance(self.value, str) and self.value.lstrip()[:1] in ("[", "{"):
            value = _loads(self.value)
            return self if value is None else replace(self, value=value)
        return self

    def text(self) -> str | None:
        return self.value if self.known and isinstance(self.value, str) else None

    def _child(self, value: Any, key: str | int) -> "Node":
        child = Node(value, (*self.path, key), self.scope, assumed=self.assumed, depth=self.depth)
        return child.resolved() if isinstance(value, str) else child

    def resolved(self) -> "Node":
        """The value with its placeholders followed."""
        if not isinstance(self.value, str) or not self.known:
            return self
        if isinstance(self.value, Computed):
            return replace(self, runtime=str(self.value))
        if self.depth > MAX_LOOKUPS:
            return replace(self, dangling="it refers to itself")
        whole = _PARAMETER.fullmatch(self.value.strip())
        if whole and self.scope is not None:
            return self._fallback_path(self.scope.lookup(whole.group(1), self.depth + 1))
        if self.scope is not None and _PARAMETER.search(self.value):
            return self._spliced()
        return self._template()

    def _fallback_path(self, value: "Node") -> "Node":
        """Keeps the place of the placeholder where the value itself stands nowhere."""
        return value if value.path else replace(value, path=self.path)

    def _spliced(self) -> "Node":
        assert self.scope is not None
        text = self.value
        for match in _PARAMETER.finditer(self.value):
            part = self.scope.lookup(match.group(1), self.depth + 1)
            if not part.known:
                return replace(part, path=self.path)
            text = text.replace(match.group(), _as_text(part.value))
            if len(text) > MAX_SPLICED:
                return replace(self, dangling=f"with its placeholders filled in it passes {MAX_SPLICED:,} characters")
            spend("characters", len(text))
        return replace(self, value=text)

    def _template(self) -> "Node":
        match = _TEMPLATE.search(self.value)
        if match is None:
            return self
        if self.scope is not None and match.group().startswith("{{$"):
            return replace(self, runtime=f"{match.group()} is filled in by the run")
        return replace(self, dangling=f"nothing fills in {match.group()[:80]}")


def _loads(text: str) -> Any:
    """What a JSON text says; None where it is none. Deeper than a file may be counts as none."""
    spend("characters", len(text))
    try:
        data, _ = json_text.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if json_text.levels(data) <= LIMITS.levels else None


@cache
def spellings(name: str) -> tuple[str, str, str]:
    snake = _CAMEL.sub("_", name).lower()
    return name, snake, snake.replace("_", "-")


def whole_number(value: Any) -> int | None:
    """4, 4.0, '4' and '4.0' are four; None for what is no whole number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 2**53 else None
    except (ValueError, OverflowError):
        return None


def _as_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value, default=str)
