"""The files that the image is built from: those that the repository's Dockerfile copies, named by their content.

The same files have the same name on every machine and at every commit, so that an image that is there need not be
built again, and a step's cached results stay good when only the pipelines changed. Patterns are Docker's:
https://docs.docker.com/build/concepts/context/#dockerignore-files
https://docs.docker.com/reference/dockerfile/#copy, #add and #run---mount
"""

import gzip
import hashlib
import io
import json
import re
import shlex
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vgp.base.errors import RequestError
from vgp.settings.repository import DOCKERFILES
from vgp.workflow.compiling.source_commit import GitError, run_git

_PARTS = re.compile(
    r"(?P<folders>\*\*/)|(?P<all>\*\*)|(?P<some>\*)|(?P<one>\?)|(?P<of>\[\^?[^]]+\])|\\?(?P<as_is>.)", re.DOTALL
)

_HEREDOC = re.compile(r"<<-?[\"']?(\w+)[\"']?")
_ELSEWHERE = re.compile(r"https?://|git@|git://|ssh://|<<")
_MOUNT = re.compile(r"--mount=(\S+)")
_FLAG = re.compile(r"--[a-z]+(?:=\S+)?\s*")


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


@dataclass(frozen=True)
class Source:
    """The files below `root`, in order, and whether git has them as they are."""

    root: Path
    #: Among the files.
    dockerfile: str
    files: tuple[str, ...]
    #: SHA-256, in hexadecimal, over names, rights and contents.
    digest: str
    #: Files that differ from the commit.
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Selection:
    """Which files go to the builder: what the Dockerfile copies and .dockerignore does not leave out.

    A .dockerignore that leaves out everything and then names what goes is taken at its word.
    """

    dockerfile: str
    copied: tuple[str, ...]
    ignored: Ignored

    @classmethod
    def read(cls, root: Path, dockerfile: str | None) -> "Selection":
        """Raises RequestError: there is no such Dockerfile, or it is no text."""
        choices = [dockerfile] if dockerfile else DOCKERFILES
        name = next((choice for choice in choices if (root / choice).is_file()), None)
        if name is None:
            raise RequestError(
                f"{root} has no {' and no '.join(choices)}, from which the image is built. Write it, or name yours in "
                'pipelines.toml: dockerfile = "docker/Dockerfile".'
            )
        return cls(name, copied_files(read_text(root / name)), Ignored.read(read_text(root / ".dockerignore")))

    def copies(self, name: str) -> bool:
        """Whether the Dockerfile names the file, or a folder that it lies in."""
        return name == self.dockerfile or matches_any(self.copied, name)

    def takes(self, name: str) -> bool:
        if name == self.dockerfile:
            return True
        return not self.ignored.leaves_out(name) and (self.ignored.lists_what_goes or matches_any(self.copied, name))


def find(root: Path, dockerfile: str | None = None) -> Source:
    """The source of the image as it lies in the repository `root`.

    Raises:
        RequestError: `root` is no git repository, it has no such Dockerfile, git lacks what that copies, or a link
            leads out of it.
    """
    selection = Selection.read(root, dockerfile)
    files = tuple(name for name in known_files(root) if selection.takes(name))
    _refuse_missing(selection, files)
    refuse_foreign(root, files)
    return Source(root, selection.dockerfile, files, _digest(root, files), _changed(root, selection))


def known_files(root: Path) -> list[str]:
    """Returns the files below `root` that git has or does not ignore, sorted.

    Raises:
        RequestError: `root` is not in a git repository.
    """
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".").split("\0")
    return sorted({name for name in listed if name and (root / name).is_file()})


def is_known_to_git(root: Path, name: str) -> bool:
    """Whether git has the file, or does not ignore it; also where there is no git to ask."""
    try:
        return bool(_git(root, "ls-files", "--cached", "--others", "--exclude-standard", "--", name))
    except RequestError:
        return True


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path} cannot be read: {error}.") from None


def _changed(root: Path, selection: Selection) -> tuple[str, ...]:
    status = _git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", ".").split("\0")
    above = _git(root, "rev-parse", "--show-prefix").strip()  # git names files from its own root
    names = (line[3:].removeprefix(above) for line in status if line)
    return tuple(name for name in names if selection.takes(name))


def _refuse_missing(selection: Selection, files: tuple[str, ...]) -> None:
    """Raises RequestError: the builder would not find what the Dockerfile copies."""
    if selection.dockerfile not in files:
        raise RequestError(f"git ignores {selection.dockerfile}, from which the image is built: see .gitignore.")
    for pattern in selection.copied:  # one with a wildcard may match nothing
        if not any(matches(pattern, name) for name in files) and not set(pattern) & set("*?["):
            raise RequestError(
                f"{selection.dockerfile} copies {pattern}, and there is no such file that goes into the image. "
                "Write it, or look at what .gitignore and .dockerignore leave out."
            )


def refuse_foreign(root: Path, files: tuple[str, ...]) -> None:
    """Raises RequestError: a file is a link to what is not of this repository, which would be copied."""
    for name in files:
        if not (root / name).resolve().is_relative_to(root.resolve()):
            raise RequestError(
                f"{name} is a symbolic link to a file outside the repository. Copy the file, or remove the link."
            )


def archive(source: Source) -> bytes:
    """The files as tar.gz: the same bytes for the same files, without times and owners."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in source.files:
            content = (source.root / name).read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), _mode(source.root / name)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _digest(root: Path, files: tuple[str, ...]) -> str:
    total = hashlib.sha256()
    for name in files:
        content = hashlib.sha256((root / name).read_bytes()).hexdigest()
        total.update(f"{_mode(root / name):o} {content} {name}\0".encode())
    return total.hexdigest()


def _mode(path: Path) -> int:
    return 0o755 if path.stat().st_mode & 0o100 else 0o644


def _git(root: Path, *arguments: str) -> str:
    try:
        return run_git(root, *arguments)
    except GitError as error:
        raise RequestError(f"{root}: {error}. The image is built from a git repository.") from None
