"""A repository that compiles, checks, trains on this machine and passes its own test."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import vgp
from vgp.base.errors import RequestError
from vgp.workflow.project import originals

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
