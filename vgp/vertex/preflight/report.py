"""The findings as a person reads them, and as a script does."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from rich.text import Text

from vgp.base.text.printable import one_line, printable
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


def as_json(name: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings, and how many there are of each level."""
    return {"pipeline": name, "counts": counts(findings), "findings": [finding.as_json() for finding in findings]}


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    levels = Counter(finding.level for finding in findings)
    return {level: levels[level] for level in get_args(Level)}


def lines(findings: Sequence[Finding]) -> Iterator[Text]:
    """A line for each finding with what to do below it; what matters most comes last, where a person looks.

    Not in a table: a command that is folded to a column cannot be copied.
    """
    for one in sorted(findings, key=lambda finding: _RANK.index(finding.level)):
        mark, style = _MARKS[one.level]
        subject = _DIGEST.sub(r"\1", one.subject)
        rest = "dim" if one.level in ("ok", "skipped") else ""
        yield Text.assemble((mark, style), (f" {one.check:<20}", "dim"), (one_line(f"{subject} {one.seen}"), rest))
        for line in printable(one.hint).splitlines():
            yield Text(f"    {line}", style="cyan")


def summary(findings: Sequence[Finding]) -> str:
    """4 ok, 1 error, ...: the levels that occur."""
    words = {"warning": "warnings", "error": "errors"}
    present = [(number, level) for level, number in counts(findings).items() if number]
    return ", ".join(f"{number} {words.get(level, level) if number != 1 else level}" for number, level in present) + "."
