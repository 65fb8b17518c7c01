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

from vgp.base.documents import json_text
from vgp.base.documents.bounded_text import FieldPath, spend
from vgp.base.documents.document import LIMITS

_PARAMETER = re.compile(r"\{\{\$\.inputs\.parameters\[['\"]([^'\"{}]+)['\"]\]\}\}")
#: Anything that some program would have to fill in: {{...}}, ${NAME}, $(NAME).
_TEMPLATE = re.compile(r"\{\{[^{}]*+\}\}|\$\{[^{}]++\}|\$\(\w++\)|<%[^%]*+%>")
#: kfp fills these in, and in no other place.
_OF_KFP = ("{{$", "{{channel:")
#: Words of names that people fill in: MACHINE_TYPE, <your-project>, [REGION].
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
#: Longer texts are no names.
_MOST = 300
_CAMEL = re.compile(r"(?<!^)(?=[A-Z])")
MAX_LOOKUPS = 50
#: Of a text that placeholders are put into. Compiled components have commands of 20 kB.
MAX_SPLICED = 1_000_000


class Computed(str):
    """A value that a program or a shell makes when it runs; the text says how, and why it is not known."""

    __slots__ = ()


def placeholder(text: str) -> str:
    """The part of a text that its reader is to fill in, empty without one: {{ x }}, $X, <your-project>, MACHINE_TYPE.

    In the name of an image it is the whole, for the rest of it can be judged.
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
    #: Whether texts are as they are written, placeholders too.
    is_verbatim: bool = False

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
            value, (*self.path, step), self.scope, self.runtime, self.dangling, self.assumed, self.depth,
            self.is_verbatim,
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
        if self.is_verbatim:
            return self._at(value, key)
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) and isinstance(key, str):
            value = value[0] if value[0] and placeholder(value[0]) == value[0] else value  # YAML's [REGION] is a list
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
        if (part := placeholder(self.value)) != "":
            return replace(self, runtime=f"{part} is to be filled in")
        match = _TEMPLATE.search(self.value)
        if match is None:
            return self
        if self.scope is not None and match.group().startswith("{{$"):
            return replace(self, runtime=f"{match.group()} is filled in by the run")
        return replace(self, dangling=f"nothing fills in {match.group()[:80]}")


def _loads(text: str) -> object:
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


def whole_number(value: object) -> int | None:
    """4, 4.0, '4' and '4.0' are four; None for what is no whole number."""
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
