"""The findings as a person reads them, and as a script does."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pipelines.vertex.preflight.finding import Finding, Level

_MARKS = {
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "error": ("✗", "red"),
    "unknown": ("?", "yellow"),
    "skipped": ("–", "dim"),
}
_RANK = ("ok", "skipped", "unknown", "warning", "error")
#: The end of a digest says nothing to a person.
_DIGEST = re.compile(r"(@sha256:[0-9a-f]{12})[0-9a-f]{52}$")


def as_json(name: str, found: Sequence[Finding]) -> dict[str, Any]:
    """The findings, and how many there are of each level."""
    return {"pipeline": name, "counts": counts(found), "findings": [each.as_json() for each in found]}


def counts(found: Sequence[Finding]) -> dict[str, int]:
    levels = Counter(each.level for each in found)
    return {level: levels[level] for level in get_args(Level)}


def drawn(found: Sequence[Finding]) -> RenderableType:
    """A line for each finding with what to do below it; what matters most comes last, where a person looks."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for each in sorted(found, key=lambda each: _RANK.index(each.level)):
        mark, style = _MARKS[each.level]
        subject = _DIGEST.sub(r"\1", each.subject)
        text = Text(f"{subject} {each.seen}", style="dim" if each.level == "skipped" else "")
        if each.hint:
            text.append(f"\n{each.hint}", style="cyan")
        table.add_row(Text(mark, style=style), each.check, text)
    return table


def summary(found: Sequence[Finding]) -> str:
    """4 ok, 1 error, ...: the levels that occur."""
    words = {"warning": "warnings", "error": "errors"}
    present = [(number, level) for level, number in counts(found).items() if number]
    return ", ".join(f"{number} {words.get(level, level) if number != 1 else level}" for number, level in present) + "."
