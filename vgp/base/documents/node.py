"""A value in a spec, with its path and whether it is known before the run.

A compiled pipeline refers to values by placeholders (`{{$.inputs.parameters['gpu']}}`). A Node resolves them to the
constant or default that they will have, and keeps the path of that value; values of the run stay unknown.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from vgp.base.documents import json_text
from vgp.base.documents.bounded_text import FieldPath, spend
from vgp.base.documents.document import LIMITS

_PARAMETER = re.compile(r"\{\{\$\.inputs\.parameters\[['\"]([^'\"{}]+)['\"]\]\}\}")
#: Templates that a program fills in: {{...}}, ${NAME}, $(NAME).
_TEMPLATE = re.compile(r"\{\{[^{}]*+\}\}|\$\{[^{}]++\}|\$\(\w++\)|<%[^%]*+%>")
#: Beginnings of the templates that kfp fills in.
_OF_KFP = ("{{$", "{{channel:")
#: Words of names that users fill in: MACHINE_TYPE, <your-project>, [REGION].
_THING = (
    "type|count|id|uri|url|name|region|location|zone|project|image|repository|repo|bucket|tag|size|number|version|"
    "topology|digest|registry|account|machine|accelerator|network|strategy|timeout|tier"
)
_IN_BRACKETS = rf"(?i:your|insert|enter|replace|todo|here|(?<![a-z])(?:{_THING}|gpu|reservation)s?(?![a-z]))"
_TO_FILL_IN = re.compile(
    rf"""
    \$[A-Za-z_]\w*+ | %\([A-Za-z_]\w*\)[sd] | \{{[A-Za-z_]\w*+\}} | __[A-Z][A-Z0-9_]*__
    | (?P<at>[@%])[A-Z][A-Z0-9_]*+(?P=at)
    | [<\[](?=[^<>\[\]]*{_IN_BRACKETS})[A-Za-z][\w .:-]*+[>\]]
    | (?<![A-Za-z0-9])(?:YOUR|[Yy]our|MY)[-_]\w++(?:-\w+)*+
    | (?<![A-Za-z0-9_])(?:[A-Z][A-Z0-9]*[-_])*(?:{_THING.upper()})(?![A-Za-z0-9_])
    """,
    re.VERBOSE,
)
_REMINDER = re.compile(
    r"(?:(?:replace|change|fill|insert|edit)[-_ ]?(?:me|this|it|here|in)|to-?do|tbd|fixme|xxx+|placeholder|"
    r"\.{3}|\?{2,})\W*",
    re.IGNORECASE,
)
#: Maximum length of a name in characters.
_MOST = 300
_CAMEL = re.compile(r"(?<!^)(?=[A-Z])")
MAX_LOOKUPS = 50
#: Maximum characters of a text with its placeholders filled in. Compiled components have commands of 20 kB.
MAX_SPLICED = 1_000_000


class Computed(str):
    """A value that a program or a shell computes at run time; the text shows how, and why it is unknown."""

    __slots__ = ("source",)
    #: Text of the value with its shell variables; "" if a program computes it.
    source: str

    def __new__(cls, why: str, source: str = "") -> "Computed":
        computed = super().__new__(cls, why)
        computed.source = source
        return computed


def placeholder(text: str) -> str:
    """Returns the part of a text that the user must fill in, such as {{ x }}, $X, <your-project> or MACHINE_TYPE, or
    "".

    A name inside a path (an image) or a sentence counts only if it is the whole text.
    """
    template = _TEMPLATE.search(text)
    if template is not None:
        return "" if template.group().startswith(_OF_KFP) else template.group()[:80]
    text = text.strip()
    match = _TO_FILL_IN.search(text) if len(text) <= _MOST else None
    if match is None or _REMINDER.fullmatch(text):
        return text if len(text) <= _MOST and _REMINDER.fullmatch(text) else ""
    around = text[: match.start()] + text[match.end() :]
    is_path = "/" in text and not text.startswith(("projects/", "gs://"))
    return "" if around and (is_path or re.search(r"\s", around)) else match.group()


class Scope(Protocol):
    """The inputs of a task, which give placeholders their values."""

    def lookup(self, name: str, depth: int) -> "Node": ...


@dataclass(frozen=True)
class Node:
    """A value with its path; unknown if only the run has it, or nothing defines it."""

    value: Any
    path: FieldPath = ()
    scope: Scope | None = None
    #: Why the value is not known before the run; empty if it is.
    runtime: str = ""
    #: Why no run can know the value; empty if one can.
    dangling: str = ""
    #: The pipeline parameter whose default this is.
    assumed: str = ""
    depth: int = 0
    #: Whether placeholders in texts stay unresolved.
    is_verbatim: bool = False

    @property
    def known(self) -> bool:
        return not self.runtime and not self.dangling

    @property
    def missing(self) -> bool:
        return self.known and self.value is None

    def get(self, name: str) -> "Node":
        """Returns the field `name` (camelCase), spelled in camelCase, snake_case or kebab-case."""
        if not self.known or not isinstance(self.value, dict):
            return self._derive_child(None, name)
        for spelling in spellings(name):
            if spelling in self.value:
                return self._child(self.value[spelling], spelling)
        return self._derive_child(None, name)

    def _derive_child(self, value: Any, step: str | int) -> "Node":
        """Returns a child that is as known as this value; three times as fast as `replace`."""
        return Node(
            value, (*self.path, step), self.scope, self.runtime, self.dangling, self.assumed, self.depth,
            self.is_verbatim,
        )  # fmt: skip

    def items(self) -> Iterator["Node"]:
        """Yields the items of a list, and nothing for other values."""
        if self.known and isinstance(self.value, list):
            for index, value in enumerate(self.value):
                yield self._child(value, index)

    def decode(self) -> "Node":
        """Returns the node with a JSON text of a list or object parsed, otherwise itself."""
        if isinstance(self.value, str) and self.value.lstrip()[:1] in ("[", "{"):
            value = _parse_json(self.value)
            return self if value is None else replace(self, value=value)
        return self

    def text(self) -> str | None:
        return self.value if self.known and isinstance(self.value, str) else None

    def _child(self, value: Any, key: str | int) -> "Node":
        if self.is_verbatim:
            return self._derive_child(value, key)
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) and isinstance(key, str):
            value = value[0] if value[0] and placeholder(value[0]) == value[0] else value  # YAML's [REGION] is a list
        child = Node(value, (*self.path, key), self.scope, assumed=self.assumed, depth=self.depth)
        return child.resolve() if isinstance(value, str) else child

    def resolve(self) -> "Node":
        """Returns the value with its placeholders resolved."""
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
            return self._splice()
        return self._template()

    def _fallback_path(self, value: "Node") -> "Node":
        """Returns the value, with the placeholder's path if it has none."""
        return value if value.path else replace(value, path=self.path)

    def _splice(self) -> "Node":
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
        if (part := placeholder(self.value)) != "":
            return replace(self, runtime=f"{part} is a placeholder that you must fill in")
        match = _TEMPLATE.search(self.value)
        if match is None:
            return self
        if self.scope is not None and match.group().startswith("{{$"):
            return replace(self, runtime=f"{match.group()} is filled in by the run")
        return replace(self, dangling=f"nothing fills in {match.group()[:80]}")


def _parse_json(text: str) -> object:
    """Parses a JSON text; returns None for invalid JSON and for deeper nesting than a file may have."""
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


def whole_number(value: object) -> int | None:
    """Returns 4 for 4, 4.0, '4' and '4.0', and None for anything but a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 2**53 else None
    except (ValueError, OverflowError):
        return None


def _as_text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value, default=str)
