"""Files as they are found: what is known of each, and names, folders and globs on this machine."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vgp.base.exits import UserError
from vgp.base.storage.files import Version

#: Globs of what lies one folder further down, and two.
DEEPER = ("*/*", "*/*/*")


@dataclass(frozen=True)
class File:
    """A file or an object. Of a pinned object the path ends in #generation."""

    path: str
    bytes: int
    #: Of an object in Cloud Storage.
    generation: int = field(default=0, compare=False)
    #: Of a file on this machine.
    version: Version | None = field(default=None, compare=False)
    #: What a task calls it; "" = by its path.
    title: str = field(default="", compare=False)


def find_local(pattern: str, suffixes: Sequence[str]) -> list[File]:
    pattern = os.path.expanduser(pattern)
    if os.path.isdir(pattern):
        paths = [str(p) for p in Path(pattern).iterdir() if p.name.endswith(tuple(suffixes))]
    elif os.path.exists(pattern):  # also a name that happens to hold a wildcard
        if not os.path.isfile(pattern):
            raise UserError(f"{pattern} is no regular file, but a pipe, a socket or a device.")
        paths = [pattern]
    elif "**" in pattern:
        paths = list(_walked(pattern))
    else:
        paths = glob.glob(pattern)
    return [described(path) for path in paths if os.path.isfile(path)]


def deeper(folder: str, suffixes: Sequence[str]) -> str:
    """A glob of files that end so one or two folders further down; "" where there are none."""
    for levels in DEEPER:
        for path in glob.iglob(os.path.join(glob.escape(os.path.expanduser(folder)), levels)):
            if (found := ending(path, suffixes)) and os.path.isfile(path):
                return os.path.join(folder, levels) + found
    return ""


def ending(path: str, suffixes: Sequence[str]) -> str:
    return next((suffix for suffix in suffixes if suffix and path.endswith(suffix)), "")


def _walked(pattern: str) -> Iterator[str]:
    """The paths that a glob with `**` matches; hidden files and folders only where the pattern begins in one."""
    root = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
    start = root or ("/" if pattern.startswith("/") else ".")
    matches = re.compile(glob_regex(pattern)).fullmatch
    for folder, folders, names in _walk(start, links=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = folder if root or start == "/" else folder.removeprefix(".").removeprefix("/")
        paths = (os.path.join(below, name) for name in names if not name.startswith("."))
        yield from (path for path in paths if matches(path))


def below(folder: str, *, links: bool) -> list[File]:
    """Every file in a folder and the folders below it, hidden ones too, sorted by path.

    Args:
        links: Whether symbolic links are followed, or passed over.
    """
    paths = (os.path.join(place, name) for place, _, names in _walk(folder, links=links) for name in names)
    return [described(path) for path in sorted(paths) if os.path.isfile(path) and (links or not os.path.islink(path))]


def _walk(start: str, *, links: bool) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`, but no folder is entered twice: a link to a folder above it would be followed for forty rounds."""
    entered = set[tuple[int, int]]()
    for folder, folders, names in os.walk(start, followlinks=links):
        place = os.stat(folder)
        if (place.st_dev, place.st_ino) in entered:
            folders.clear()
            continue
        entered.add((place.st_dev, place.st_ino))
        yield folder, folders, names


def described(path: str) -> File:
    """A file on this machine, as it is now."""
    status = os.stat(path)
    return File(path, status.st_size, version=Version(status.st_size, status.st_mtime_ns))


def glob_regex(pattern: str) -> str:
    """A glob as a regular expression: `*` and `?` stay within a folder, `**/` crosses any number of them."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        meaning.get(part) or (part.replace("[!", "[^") if part.startswith("[") and i % 2 else re.escape(part))
        for i, part in enumerate(parts)
    )
