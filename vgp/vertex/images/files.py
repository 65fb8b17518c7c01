"""What the image is built from: the files that training/Dockerfile copies, named by their content.

The same files have the same name on every machine and at every commit, so that an image that is there need not be
built again, and a step's cached results stay good when only the pipelines changed.
"""

import gzip
import hashlib
import io
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from vgp.errors import RequestError

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = "training/Dockerfile"


@dataclass(frozen=True)
class Source:
    """The files below `root`, in order, and whether git has them as they are."""

    root: Path
    files: tuple[str, ...]
    #: SHA-256, in hexadecimal, over names, rights and contents.
    digest: str
    #: Files that differ from the commit.
    changed: tuple[str, ...]


def find(root: Path = ROOT) -> Source:
    """The source as it lies here.

    Raises:
        RequestError: `root` is no git repository, its .dockerignore lets nothing in, or a link leads out of it.
    """
    ignore = root / ".dockerignore"
    lines = ignore.read_text(encoding="utf-8").splitlines() if ignore.is_file() else []
    wanted = [line.removeprefix("!").strip() for line in lines if line.startswith("!")]
    if not wanted:
        raise RequestError(f"{ignore} names nothing that goes into the image. It needs lines such as !training.")
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *wanted).split("\0")
    files = tuple(sorted({name for name in listed if name and (root / name).is_file()}))
    if DOCKERFILE not in files:
        raise RequestError(f"{root} has no {DOCKERFILE}, from which the image is built.")
    _refuse_foreign(root, files)
    status = _git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *wanted)
    changed = tuple(line[3:] for line in status.split("\0") if line)
    return Source(root, files, _digest(root, files), changed)


def _refuse_foreign(root: Path, files: tuple[str, ...]) -> None:
    """Raises RequestError: a file is a link to what is not of this repository, which would be copied."""
    for name in files:
        if not (root / name).resolve().is_relative_to(root.resolve()):
            raise RequestError(f"{name} is a link out of the repository. Copy the file, or take the link away.")


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
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RequestError(f"git does not run: {error}") from None
    if done.returncode:
        said = (done.stderr.splitlines() or ["nothing"])[0]
        raise RequestError(f"{root}: git says: {said}. The image is built from a git repository.")
    return done.stdout
