"""Atomic writes of files by commands, and unified diffs of texts."""

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from vgp.base.errors import RequestError
from vgp.base.storage import files

# ---- atomic writes


def write(path: Path, content: str | bytes) -> None:
    """Writes or replaces a file atomically; links stay links, and permissions stay.

    Raises:
        RequestError: the file cannot be written.
    """
    try:
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write(target, content, durable=True)
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {error.strerror or error}.") from None


_Run = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]
#: Maximum number of inserted lines to look ahead.
_AHEAD = 4


class _Aligned(difflib.SequenceMatcher[str]):
    """A matcher with precomputed runs, for difflib's grouping."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__()
        self.runs = list(_compare_lines(old, new))

    def get_opcodes(self) -> list[_Run]:
        return self.runs


def diff_lines(before: str, after: str, name: str) -> Iterator[str]:
    """Yields the lines of the diff; nothing for equal texts."""
    old, new = before.split("\n"), after.split("\n")
    groups = list(_Aligned(old, new).get_grouped_opcodes(3)) if before != after else []
    if groups:
        yield f"--- {name}"
        yield f"+++ {name}"
    for group in groups:
        first, last = group[0], group[-1]
        yield f"@@ -{_format_range(first[1], last[2])} +{_format_range(first[3], last[4])} @@"
        for kind, i, i_end, j, j_end in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[i:i_end])
            else:
                yield from (f"-{line}" for line in old[i:i_end])
                yield from (f"+{line}" for line in new[j:j_end])


def _format_range(start: int, end: int) -> str:
    return f"{start + 1},{end - start}"


def _compare_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[_Run]:
    """Yields runs of equal and of replaced lines; a line is changed, or has a few new lines before it."""
    i = j = 0
    while i < len(old) or j < len(new):
        start, start_new = i, j
        while i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
        if i > start:
            yield "equal", start, i, start_new, j
        start, start_new = i, j
        while (i < len(old) or j < len(new)) and not (i < len(old) and j < len(new) and old[i] == new[j]):
            ahead = next((k for k in range(1, _AHEAD) if i < len(old) and new[j + k : j + k + 1] == [old[i]]), 0)
            i, j = (i, j + ahead) if ahead else (min(i + 1, len(old)), min(j + 1, len(new)))
        if (i, j) != (start, start_new):
            yield "replace", start, i, start_new, j
