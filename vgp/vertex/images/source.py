"""The files that the image is built from, which are those that the Dockerfile copies, and their digest.

Equal files have the same digest on every machine and at every commit, so an existing image is not built again, and
cached results stay valid if only the pipelines changed. Patterns follow Docker's rules:
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
class IgnoreRules:
    """The lines of a .dockerignore, of which the last one that matches a name decides."""

    lines: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> "IgnoreRules":
        lines = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
        return cls(tuple(line for line in lines if line and not line.startswith("#")))

    @property
    def is_allowlist(self) -> bool:
        """Whether the lines exclude everything, and then list the files to include."""
        return any(line.strip("/") in ("*", "**") for line in self.lines) and "!" in {line[0] for line in self.lines}

    def excludes(self, name: str) -> bool:
        excluded = False
        for line in self.lines:
            if matches(line.removeprefix("!").strip(), name):
                excluded = not line.startswith("!")
        return excluded


def matches_any(patterns: Iterable[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


def matches(pattern: str, name: str) -> bool:
    """Whether the pattern matches the file or one of its folders."""
    return _compile(pattern).fullmatch(name) is not None


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    path = "/".join(part for part in pattern.split("/") if part not in ("", "."))
    if not path:  # the folder itself
        return re.compile(".*", re.DOTALL)
    try:
        return re.compile("".join(map(_to_regular, _PARTS.finditer(path))) + "(?:/.*)?", re.DOTALL)
    except re.error:  # Docker refuses a pattern like [z-a], so it matches no file
        return re.compile(re.escape(path))


def _to_regular(part: re.Match[str]) -> str:
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


def list_copied_files(text: str) -> tuple[str, ...]:
    """Returns the files, folders and patterns that the instructions of a Dockerfile copy; `.` for one in a variable."""
    sources = [source for instruction in _list_instructions(text) for source in _list_sources(*instruction)]
    return tuple(dict.fromkeys("." if "$" in source else source for source in sources))


def _list_instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yields each instruction as (name in capitals, arguments), with continued lines joined, without here-documents."""
    lines = iter(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in lines:
        while line.rstrip().endswith("\\"):
            line = line.rstrip()[:-1] + next(lines, "")
        name, _, rest = line.strip().partition(" ")
        yield name.upper(), rest.strip()
        for end in _HEREDOC.findall(rest):
            while next(lines, end).strip() != end:
                pass


def _list_sources(name: str, rest: str) -> list[str]:
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
    return [source for source in _split_words(rest)[:-1] if not _ELSEWHERE.match(source)]


def _split_words(rest: str) -> list[str]:
    try:
        return [str(word) for word in json.loads(rest)] if rest.startswith("[") else shlex.split(rest)
    except ValueError:
        return rest.split()


@dataclass(frozen=True)
class Source:
    """The files below `root`, sorted, with their digest and their state in git."""

    root: Path
    #: One of the files.
    dockerfile: str
    files: tuple[str, ...]
    #: SHA-256, in hexadecimal, over names, modes and contents.
    digest: str
    #: Files that differ from the commit.
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Selection:
    """The rule for the files of the builder: those that the Dockerfile copies and .dockerignore does not exclude.

    If .dockerignore excludes everything and then lists files to include, these are the files.
    """

    dockerfile: str
    copied: tuple[str, ...]
    ignored: IgnoreRules

    @classmethod
    def read(cls, root: Path, dockerfile: str | None) -> "Selection":
        """Reads Dockerfile and .dockerignore. Raises RequestError without a Dockerfile, or if it is not text."""
        choices = [dockerfile] if dockerfile else DOCKERFILES
        name = next((choice for choice in choices if (root / choice).is_file()), None)
        if name is None:
            raise RequestError(
                f"{root} has no {' and no '.join(choices)}, from which the image is built. Write it, or name yours in "
                'pipelines.toml: dockerfile = "docker/Dockerfile".'
            )
        return cls(name, list_copied_files(read_text(root / name)), IgnoreRules.read(read_text(root / ".dockerignore")))

    def copies(self, name: str) -> bool:
        """Whether the Dockerfile copies the file or one of its folders."""
        return name == self.dockerfile or matches_any(self.copied, name)

    def includes(self, name: str) -> bool:
        if name == self.dockerfile:
            return True
        return not self.ignored.excludes(name) and (self.ignored.is_allowlist or matches_any(self.copied, name))


def find_source(root: Path, dockerfile: str | None = None) -> Source:
    """Returns the source of the image in the repository `root`.

    Raises:
        RequestError: `root` is no git repository, it has no such Dockerfile, git ignores a copied file, or a symbolic
            link leads out of the repository.
    """
    selection = Selection.read(root, dockerfile)
    files = tuple(name for name in list_known_files(root) if selection.includes(name))
    _refuse_missing(selection, files)
    refuse_foreign(root, files)
    return Source(root, selection.dockerfile, files, _compute_digest(root, files), _list_changed(root, selection))


def list_known_files(root: Path) -> list[str]:
    """Returns the files below `root` that git has or does not ignore, sorted.

    Raises:
        RequestError: `root` is not in a git repository.
    """
    listed = _run_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".").split("\0")
    return sorted({name for name in listed if name and (root / name).is_file()})


def is_known_to_git(root: Path, name: str) -> bool:
    """Whether git tracks the file or does not ignore it; True also without git."""
    try:
        return bool(_run_git(root, "ls-files", "--cached", "--others", "--exclude-standard", "--", name))
    except RequestError:
        return True


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path} cannot be read: {error}.") from None


def _list_changed(root: Path, selection: Selection) -> tuple[str, ...]:
    status = _run_git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", ".").split(
        "\0"
    )
    above = _run_git(root, "rev-parse", "--show-prefix").strip()  # git names files from its own root
    names = (line[3:].removeprefix(above) for line in status if line)
    return tuple(name for name in names if selection.includes(name))


def _refuse_missing(selection: Selection, files: tuple[str, ...]) -> None:
    """Raises RequestError if the builder would not find a file that the Dockerfile copies."""
    if selection.dockerfile not in files:
        raise RequestError(f"git ignores {selection.dockerfile}, from which the image is built: see .gitignore.")
    for pattern in selection.copied:  # one with a wildcard may match nothing
        if not any(matches(pattern, name) for name in files) and not set(pattern) & set("*?["):
            raise RequestError(
                f"{selection.dockerfile} copies {pattern}, and there is no such file that goes into the image. "
                "Write it, or look at what .gitignore and .dockerignore leave out."
            )


def refuse_foreign(root: Path, files: tuple[str, ...]) -> None:
    """Raises RequestError if a file is a symbolic link out of the repository, whose target would be copied."""
    for name in files:
        if not (root / name).resolve().is_relative_to(root.resolve()):
            raise RequestError(
                f"{name} is a symbolic link to a file outside the repository. Copy the file, or remove the link."
            )


def archive(source: Source) -> bytes:
    """Packs the files as tar.gz, without times and owners, so that equal files give equal bytes."""
    output = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=output, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in source.files:
            content = (source.root / name).read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), _read_mode(source.root / name)
            tar.addfile(entry, io.BytesIO(content))
    return output.getvalue()


def _compute_digest(root: Path, files: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in files:
        content = hashlib.sha256((root / name).read_bytes()).hexdigest()
        digest.update(f"{_read_mode(root / name):o} {content} {name}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _read_mode(path: Path) -> int:
    return 0o755 if path.stat().st_mode & 0o100 else 0o644


def _run_git(root: Path, *arguments: str) -> str:
    try:
        return run_git(root, *arguments)
    except GitError as error:
        raise RequestError(f"{root}: {error}. The image is built from a git repository.") from None
