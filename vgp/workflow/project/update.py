"""`pipelines update`: the copies in a project become those of this version; what their owner edited is not touched.

A file is edited when its content is neither what the manifest says was copied, nor what this version has.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import vgp
from vgp.base.errors import RequestError
from vgp.base.text import files
from vgp.workflow.project import originals
from vgp.workflow.project.manifest import PATH, Manifest, digest


@dataclass(frozen=True)
class Change:
    """What this version would do to a file of the project."""

    path: str
    action: Literal["add", "change", "remove"]
    #: Its owner's work would be lost.
    edited: bool
    #: None: the file goes.
    content: bytes | None


@dataclass(frozen=True)
class Update:
    """All changes of a project, and the versions between which they lie."""

    root: Path
    before: Manifest
    after: Manifest
    changes: tuple[Change, ...]

    @property
    def edited(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.edited)


def plan(root: Path, requirement: str, *, overwrite: bool = False) -> Update:
    """What `apply` would do to the project at `root`; `requirement` installs this very command.

    `overwrite`: also to files that their owner edited and this version leaves alone, such as those of `--keep`.

    Raises:
        RequestError: it is none, it is of a newer version, or a path of it leads elsewhere.
    """
    before, contents = Manifest.read(root), originals.vendored(requirement)
    if _order(before.version) > _order(vgp.__version__):
        raise RequestError(
            f"the project's copy is of version {before.version}, this command of {vgp.__version__}. "
            "Install the newer version of the command first."
        )
    paths = sorted({*before.files, *contents})
    for path in paths:
        if not (root / path).resolve().is_relative_to(root.resolve()):
            raise RequestError(f"{path} is a link out of the project. Take the link away, then update.")
    changes = (_change(root / path, path, before.files.get(path), contents.get(path), overwrite) for path in paths)
    return Update(root, before, Manifest.of(vgp.__version__, contents), tuple(filter(None, changes)))


def other_base(root: Path) -> str:
    """What there is to say of the Dockerfile, which is its owner's: that its base has another PyTorch; empty if not."""
    path, base = root / "Dockerfile", originals.base_image()
    if not path.is_file() or base in path.read_text(encoding="utf-8", errors="replace"):
        return ""
    return f"note: this version was tested on another base than that of your Dockerfile: ARG BASE={base}"


def _change(file: Path, path: str, copied: str | None, content: bytes | None, overwrite: bool) -> Change | None:
    present = file.read_bytes() if file.is_file() else None
    if present == content:
        return None
    if present is None:
        return Change(path, "add", False, content)
    edited = digest(present) != copied
    if edited and not overwrite and content is not None and copied == digest(content):
        return None  # its owner's, and this version has nothing new for it
    return Change(path, "remove" if content is None else "change", edited, content)


def apply(update: Update, edited: Literal["refuse", "keep", "overwrite"] = "refuse") -> tuple[Change, ...]:
    """Makes the changes, the manifest last; a second call after a crash goes on. Returns those that were made.

    Raises:
        RequestError: files were edited and nothing is said about them, or a file cannot be written.
    """
    if update.edited and edited == "refuse":
        raise RequestError(
            f"you edited what this version changes: {_listed(update.edited)}. Nothing was changed. Commit, then: "
            "--keep leaves these files as they are, --overwrite takes this version's of every copied file that you "
            "edited (--dry-run --overwrite lists them)."
        )
    made = tuple(change for change in update.changes if edited == "overwrite" or not change.edited)
    for change in made:
        if change.content is None:
            _remove(update.root, change.path)
        else:
            files.write(update.root / change.path, change.content)
    if update.after != update.before:
        files.write(update.root / PATH, update.after.text)
    return made


def _remove(root: Path, path: str) -> None:
    try:
        (root / path).unlink(missing_ok=True)
        for folder in _emptied(root, path):
            folder.rmdir()
    except OSError as error:
        raise RequestError(f"{path} cannot be removed: {error.strerror}.") from None


def _emptied(root: Path, path: str) -> Iterator[Path]:
    """The folders of a removed file that hold nothing more, innermost first."""
    for folder in (root / path).parents:
        if folder == root or not folder.is_dir() or any(folder.iterdir()):
            return
        yield folder


def _order(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _listed(changes: Sequence[Change]) -> str:
    shown = ", ".join(change.path for change in changes[:5])
    return f"{shown} and {len(changes) - 5} more" if len(changes) > 5 else shown
