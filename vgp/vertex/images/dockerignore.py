"""Docker's patterns for names of files: those of .dockerignore, and of what a Dockerfile copies.

https://docs.docker.com/build/concepts/context/#dockerignore-files
https://docs.docker.com/reference/dockerfile/#copy, #add and #run---mount
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator
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


_HEREDOC = re.compile(r"<<-?[\"']?(\w+)[\"']?")
_ELSEWHERE = re.compile(r"https?://|git@|git://|ssh://|<<")
_MOUNT = re.compile(r"--mount=(\S+)")
_FLAG = re.compile(r"--[a-z]+(?:=\S+)?\s*")


def copied_files(text: str) -> tuple[str, ...]:
    """The files, folders and patterns that its steps take from here; `.` where a variable says what."""
    named = [source for instruction in _instructions(text) for source in _of(*instruction)]
    return tuple(dict.fromkeys("." if "$" in source else source for source in named))


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Name in capitals and the rest; continued lines in one, without comments and the texts within."""
    lines = iter(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in lines:
        while line.rstrip().endswith("\\"):
            line = line.rstrip()[:-1] + next(lines, "")
        name, _, rest = line.strip().partition(" ")
        yield name.upper(), rest.strip()
        for end in _HEREDOC.findall(rest):
            while next(lines, end).strip() != end:
                pass


def _of(name: str, rest: str) -> list[str]:
    if name == "RUN":
        mounts = [dict(pair.partition("=")[::2] for pair in mount.split(",")) for mount in _MOUNT.findall(rest)]
        here = [mount for mount in mounts if mount.get("type", "bind") == "bind" and "from" not in mount]
        return [mount.get("source") or mount.get("src") or "." for mount in here]
    if name not in ("COPY", "ADD"):
        return []
    flags = []
    while flag := _FLAG.match(rest):
        flags.append(flag[0])
        rest = rest[flag.end() :]
    if any(flag.startswith("--from") for flag in flags):
        return []
    return [source for source in _words(rest)[:-1] if not _ELSEWHERE.match(source)]


def _words(rest: str) -> list[str]:
    try:
        return [str(word) for word in json.loads(rest)] if rest.startswith("[") else shlex.split(rest)
    except ValueError:
        return rest.split()
