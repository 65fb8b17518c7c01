"""Writes the files of a project for `vgp new project`, and updates its library for `vgp update`.

An update replaces only the library. Changes in the library's workflows, steps and Dockerfile are shown as a diff
between the old and the new wheel, which contain these files.
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
#: A project's name is also part of an image's name.
_NAME = re.compile(r"[a-z](?:-?[a-z0-9]+)*")
_MAX_LENGTH = 40


def write(name: str, parent: Path = Path()) -> Path:
    """Writes the project `name` into a new folder of that name, completely or not at all.

    Raises:
        RequestError: the name is invalid, the folder is not empty, or cannot be written.
    """
    if not _NAME.fullmatch(name) or len(name) > _MAX_LENGTH:
        raise RequestError(
            f"'{name}' is not a valid project name. Use at most {_MAX_LENGTH} lower-case letters, digits and single "
            "hyphens, beginning with a letter."
        )
    folder = parent / name
    _refuse_occupied(folder)
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=f".{name}.") as scratch:
            new = Path(scratch) / name
            for path, content in build_files(name).items():
                (new / path).parent.mkdir(parents=True, exist_ok=True)
                (new / path).write_bytes(content)
                (new / path).chmod(0o755 if path.endswith(".sh") else 0o644)
            new.replace(folder)
    except OSError as error:
        raise RequestError(f"{folder} cannot be written: {error.strerror or error}.") from None
    return folder


def build_files(name: str) -> dict[str, bytes]:
    """Returns every file of a new project, by its path."""
    return {**originals.read_project_files(), **dict(_render_template(name)), **build_library()}


def build_library() -> dict[str, bytes]:
    """Returns the library's files in a project: the wheel, and the requirements file that pins it by its hash."""
    packed = originals.build_wheel()
    return {originals.WHEEL_NAME: packed, PIN: originals.format_requirement(packed).encode()}


def _render_template(name: str) -> Iterator[tuple[str, bytes]]:
    values = {"__NAME__": name, "__VERSION__": vgp.__version__}
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            text = path.read_text(encoding="utf-8")
            for placeholder, value in values.items():
                text = text.replace(placeholder, value)
            yield path.relative_to(TEMPLATE).as_posix().replace("dot-", "."), text.encode()


def _refuse_occupied(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise RequestError(f"{folder} already exists and is not a folder. Choose another name.")
    if folder.is_dir() and any(folder.iterdir()):
        raise RequestError(f"{folder} already exists and is not empty. Choose another name, or empty the folder.")


# ---- `vgp update`: a project gets this version of the library; its other files stay unchanged


_PINNED = re.compile(r"\./(vgp-([0-9][\w.!+]*)-py3-none-any\.whl)(?:\s|$)")


@dataclass(frozen=True)
class Update:
    """The changes of an update of the project at `root`."""

    root: Path
    #: Version of the library in the project, and after the update.
    before: str
    after: str
    #: Files to write, by their paths in the project; empty if the project is up to date.
    writes: dict[str, bytes]
    #: The wheel to remove; "" for none.
    removes: str
    #: Unified diff of the library's workflows, steps and Dockerfile between the versions; "" for no change.
    diff: str


def plan(root: Path) -> Update:
    """Returns the update of the project at `root` to this version.

    Raises:
        RequestError: `root` holds no project, its wheel is damaged, or its library is newer than this command.
    """
    name, before = _find_pinned(root)
    if _parse_version(before) > _parse_version(vgp.__version__):
        raise RequestError(
            f"the project has version {before} of the library, which is newer than this command, {vgp.__version__}. "
            f"Install the project's version first: pip install --no-deps ./{name}"
        )
    files = build_library()
    writes = {path: content for path, content in files.items() if _read_bytes(root / path) != content}
    removes = name if name not in files and (root / name).is_file() else ""
    return Update(root, before, vgp.__version__, writes, removes, _compare_originals(root / name) if writes else "")


def apply(update: Update) -> None:
    """Writes the wheel, then the file that pins it, then removes the old wheel; an interrupted update can be repeated.

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


def _find_pinned(root: Path) -> tuple[str, str]:
    """Returns file name and version of the wheel that the project pins."""
    if (root / "training/lock/vendored.json").is_file():
        raise RequestError(
            f"{root} is a project of an earlier version, with a copy of the library in training/. Write a new project "
            "beside it, vgp new project NAME, and copy your tasks, settings and workflows: docs/how-to/upgrade.md."
        )
    try:
        match = _PINNED.search((root / PIN).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        match = None
    if not match:
        raise RequestError(
            f"{root} has no {PIN} that pins the library. Run the command in a project of `vgp new project`."
        )
    return match[1], match[2]


def _compare_originals(earlier: Path) -> str:
    """Returns the diff of the files for new projects between the earlier wheel and this version."""
    if not earlier.is_file():
        return ""
    prefix = "vgp/originals/"
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(io.BytesIO(earlier.read_bytes())) as archive:
                names = [name for name in archive.namelist() if name.startswith(prefix) and ".." not in name]
                archive.extractall(folder, names)
        except (OSError, zipfile.BadZipFile) as error:
            raise RequestError(f"{earlier} is damaged: {error}. Restore it: git checkout -- {earlier.name}") from None
        before = originals.read_project_files(Path(folder, prefix))
    after = originals.read_project_files()
    return "".join(
        line
        for path in sorted({*before, *after})
        for line in difflib.unified_diff(
            _split_lines(before.get(path)), _split_lines(after.get(path)), f"{path} (then)", f"{path} (now)"
        )
    )


def _split_lines(content: bytes | None) -> list[str]:
    return (content or b"").decode(errors="replace").splitlines(keepends=True)


def _read_bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _parse_version(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]
