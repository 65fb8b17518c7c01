"""The findings as a person reads them, and as a script does."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from rich.text import Text

from vgp.text.printable import one_line, printable
from vgp.vertex.preflight.finding import Finding, Level

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


def lines(found: Sequence[Finding]) -> Iterator[Text]:
    """A line for each finding with what to do below it; what matters most comes last, where a person looks.

    Not in a table: a command that is folded to a column cannot be copied.
    """
    for each in sorted(found, key=lambda each: _RANK.index(each.level)):
        mark, style = _MARKS[each.level]
        subject = _DIGEST.sub(r"\1", each.subject)
        rest = "dim" if each.level in ("ok", "skipped") else ""
        yield Text.assemble((mark, style), (f" {each.check:<20}", "dim"), (one_line(f"{subject} {each.seen}"), rest))
        for line in printable(each.hint).splitlines():
            yield Text(f"    {line}", style="cyan")


def summary(found: Sequence[Finding]) -> str:
    """4 ok, 1 error, ...: the levels that occur."""
    words = {"warning": "warnings", "error": "errors"}
    present = [(number, level) for level, number in counts(found).items() if number]
    return ", ".join(f"{number} {words.get(level, level) if number != 1 else level}" for number, level in present) + "."
