"""Comparison of a command's output with a page, where `...` stands for any text, and alone on a line for any lines."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

ELLIPSIS = "..."
#: A page shows so many lines of an output that it has not shown before.
LONGEST = 15


def matches(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Returns whether the lines `printed` are those that the page shows."""
    *groups, last = _split(shown)
    if not groups:
        return len(last) == len(printed) and _begins(last, printed)
    first, *middle = groups
    if not _begins(first, printed):
        return False
    position = len(first)
    for group in middle:
        starts = range(position, len(printed) - len(group) + 1)
        position = next((start + len(group) for start in starts if _begins(group, printed[start:])), -1)
        if position < 0:
            return False
    return len(printed) - len(last) >= position and _begins(last, printed[len(printed) - len(last) :])


def renew(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Returns the lines that the page shows from now on: `printed`, with the elisions of `shown` that still fit."""
    if not shown:
        return list(printed) if len(printed) <= LONGEST else [*printed[: LONGEST - 1], ELLIPSIS]
    patterns = [line for line in shown if ELLIPSIS in line and line.strip() != ELLIPSIS]
    lines = [next((pattern for pattern in patterns if _fits(pattern, line)), line) for line in printed]
    renewed: list[str] = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, shown, lines, autojunk=False).get_opcodes():
        groups = _split(shown[i1:i2])
        if kind == "equal" or len(groups) == 1:
            renewed += lines[j1:j2]
        else:
            head = min(j1 + len(groups[0]), j2)
            renewed += [*lines[j1:head], ELLIPSIS, *lines[max(head, j2 - len(groups[-1])) : j2]]
    return renewed


def _split(lines: Sequence[str]) -> list[list[str]]:
    """Returns the groups of lines between the lines that are `...`."""
    groups: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == ELLIPSIS:
            groups.append([])
        else:
            groups[-1].append(line)
    return groups


def _begins(shown: Sequence[str], printed: Sequence[str]) -> bool:
    return len(printed) >= len(shown) and all(map(_fits, shown, printed))


def _fits(shown: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(text) for text in shown.split(ELLIPSIS))
    return shown == printed or bool(re.fullmatch(pattern, printed))
