"""The files of a project: written by `vgp new project`, and given a newer library by `vgp update`.

An update changes the library alone. The changes of our workflows, steps and Dockerfile since the project's version are
shown as a diff: both versions lie in the two wheels.
"""

import difflib
import io
import re
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import vgp
from vgp.base import whole_files
from vgp.base.errors import RequestError
from vgp.workflow.project import originals

# ---- a new project: a repository that compiles, checks, trains on this machine and passes its own test


TEMPLATE = Path(__file__).with_name("template")
#: The file of a project that pins the library.
PIN = "vgp.txt"
#: Also part of an image's name.
_NAME = re.compile(r"[a-z](?:-?[a-z0-9]+)*")
_MOST = 40


def write(name: str, parent: Path = Path()) -> Path:
    """Writes the project `name` into a folder of that name: all of it, or nothing.

    Raises:
        RequestError: the name is none, the folder holds something, or cannot be written.
    """
    if not _NAME.fullmatch(name) or len(name) > _MOST:
        raise RequestError(
            f"'{name}' is no name for a project: at most {_MOST} lower-case letters, digits and single -, "
            "a letter first."
        )
    folder = parent / name
    _refuse_occupied(folder)
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=f".{name}.") as scratch:
            new = Path(scratch) / name
            for path, content in contents(name).items():
                (new / path).parent.mkdir(parents=True, exist_ok=True)
                (new / path).write_bytes(content)
                (new / path).chmod(0o755 if path.endswith(".sh") else 0o644)
            new.replace(folder)
    except OSError as error:
        raise RequestError(f"{folder} cannot be written: {error.strerror or error}.") from None
    return folder


def contents(name: str) -> dict[str, bytes]:
    """Every file of a new project, by its path."""
    return {**originals.project_files(), **dict(_template(name)), **library()}


def library() -> dict[str, bytes]:
    """The library as a project has it: the wheel, and the line that pins it by its hash."""
    packed = originals.library_wheel()
    return {originals.WHEEL_NAME: packed, PIN: originals.requirement(packed).encode()}


def _template(name: str) -> Iterator[tuple[str, bytes]]:
    values = {"__NAME__": name, "__VERSION__": vgp.__version__}
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            text = path.read_text(encoding="utf-8")
            for placeholder, value in values.items():
                text = text.replace(placeholder, value)
            yield path.relative_to(TEMPLATE).as_posix().replace("dot-", "."), text.encode()


def _refuse_occupied(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise RequestError(f"{folder} is there already, and is no folder. Take another name.")
    if folder.is_dir() and any(folder.iterdir()):
        raise RequestError(f"{folder} is there already, and is not empty. Take another name, or empty it.")


# ---- `vgp update`: a project takes this version of the library; its own files stay as they are


_PINNED = re.compile(r"\./(vgp-([0-9][\w.!+]*)-py3-none-any\.whl)(?:\s|$)")


@dataclass(frozen=True)
class Update:
    """What this version would change in the project at `root`."""

    root: Path
    before: str
    after: str
    #: The library's files to write, by their paths in the project; empty: it has them.
    writes: dict[str, bytes]
    #: The wheel that goes; empty: none.
    removes: str
    #: What changed in ours since, as a unified diff; empty: nothing.
    diff: str


def plan(root: Path) -> Update:
    """What `apply` would do to the project at `root`.

    Raises:
        RequestError: it is no such project, its wheel is damaged, or it is of a newer version than this command.
    """
    name, before = _pinned(root)
    if _order(before) > _order(vgp.__version__):
        raise RequestError(
            f"the project has version {before} of the library, and this command is {vgp.__version__}. "
            f"Install the newer one first: pip install --no-deps ./{name}"
        )
    wanted = library()
    writes = {path: content for path, content in wanted.items() if _content(root / path) != content}
    removes = name if name not in wanted and (root / name).is_file() else ""
    return Update(root, before, vgp.__version__, writes, removes, _changes(root / name) if writes else "")


def apply(update: Update) -> None:
    """Writes the wheel, then the line that pins it, then removes the earlier wheel; a second call goes on.

    Raises:
        RequestError: a file cannot be written.
    """
    for path in sorted(update.writes, key=lambda path: path == PIN):
        whole_files.write(update.root / path, update.writes[path])
    if update.removes:
        try:
            (update.root / update.removes).unlink(missing_ok=True)
        except OSError as error:
            raise RequestError(f"{update.removes} cannot be removed: {error.strerror}.") from None


def _pinned(root: Path) -> tuple[str, str]:
    """The file name and the version of the wheel that the project pins."""
    if (root / "training/lock/vendored.json").is_file():
        raise RequestError(
            f"{root} is a project of an earlier form, with a copy of the library in training/. Write a new one beside "
            "it, vgp new project NAME, and take your tasks, settings and workflows over: docs/how-to/upgrade.md."
        )
    try:
        found = _PINNED.search((root / PIN).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        found = None
    if not found:
        raise RequestError(f"{root} has no {PIN} that pins the library: it was not written by `vgp new project`.")
    return found[1], found[2]


def _changes(earlier: Path) -> str:
    """How our files differ between the earlier wheel and this version."""
    if not earlier.is_file():
        return ""
    prefix = "vgp/originals/"
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(io.BytesIO(earlier.read_bytes())) as archive:
                names = [name for name in archive.namelist() if name.startswith(prefix) and ".." not in name]
                archive.extractall(folder, names)
        except (OSError, zipfile.BadZipFile) as error:
            raise RequestError(f"{earlier} is damaged: {error}. Take it back: git checkout -- {earlier.name}") from None
        before = originals.project_files(Path(folder, prefix))
    after = originals.project_files()
    return "".join(
        line
        for path in sorted({*before, *after})
        for line in difflib.unified_diff(
            _lines(before.get(path)), _lines(after.get(path)), f"{path} (then)", f"{path} (now)"
        )
    )


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode(errors="replace").splitlines(keepends=True)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _order(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]
