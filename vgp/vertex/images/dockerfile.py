"""What a Dockerfile copies from the folder that it is built in.

https://docs.docker.com/reference/dockerfile/#copy, #add and #run---mount
"""

import json
import re
import shlex
from collections.abc import Iterator

_HEREDOC = re.compile(r"<<-?[\"']?(\w+)[\"']?")
_ELSEWHERE = re.compile(r"https?://|git@|git://|ssh://|<<")
_MOUNT = re.compile(r"--mount=(\S+)")
_FLAG = re.compile(r"--[a-z]+(?:=\S+)?\s*")


def sources(text: str) -> tuple[str, ...]:
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
