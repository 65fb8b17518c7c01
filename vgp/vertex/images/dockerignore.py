"""Docker's patterns for names of files: those of .dockerignore, and of what COPY names.

https://docs.docker.com/build/concepts/context/#dockerignore-files
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

_PARTS = re.compile(
    r"(?P<folders>\*\*/)|(?P<all>\*\*)|(?P<some>\*)|(?P<one>\?)|(?P<of>\[\^?[^]]+\])|\\?(?P<as_is>.)", re.DOTALL
)


@dataclass(frozen=True)
class Ignored:
    """The lines of a .dockerignore; of those that match a name, the last one decides."""

    lines: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> "Ignored":
        lines = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
        return cls(tuple(line for line in lines if line and not line.startswith("#")))

    @property
    def lists_what_goes(self) -> bool:
        """Whether it leaves out everything first, and then names what goes."""
        return any(line.strip("/") in ("*", "**") for line in self.lines) and "!" in {line[0] for line in self.lines}

    def leaves_out(self, name: str) -> bool:
        out = False
        for line in self.lines:
            if matches(line.removeprefix("!").strip(), name):
                out = not line.startswith("!")
        return out


def matches_any(patterns: Iterable[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


def matches(pattern: str, name: str) -> bool:
    """Whether the pattern is that of the file, or of a folder that it lies in."""
    return _compiled(pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    path = "/".join(part for part in pattern.split("/") if part not in ("", "."))
    if not path:  # the folder itself
        return re.compile(".*", re.DOTALL)
    try:
        return re.compile("".join(map(_regular, _PARTS.finditer(path))) + "(?:/.*)?", re.DOTALL)
    except re.error:  # [z-a]: Docker refuses it, and no name is meant
        return re.compile(re.escape(path))


def _regular(part: re.Match[str]) -> str:
    match part.lastgroup:
        case "folders":
            return "(?:.*/)?"
        case "all":
            return ".*"
        case "some":
            return "[^/]*"
        case "one":
            return "[^/]"
        case "of":
            return part["of"]
    return re.escape(part["as_is"])
