"""Reads the workflows, steps, Dockerfile and task that a new project starts with, and builds the library's wheel.

These files are read from the library's repository, or from the installed wheel. setup.py imports this module, so it may
import only the standard library.

A project contains the wheel as one file, so that the laptop, CI and the image install one library, even if no package
index has its version. Format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

import vgp
from vgp.base.lock import originals as root

#: Folder or file of a project -> its source in the library's repository.
OWNED: Mapping[str, str] = {
    "pipelines": "pipelines",
    "components": "components",
    "training/__init__.py": "training/__init__.py",
    "training/Dockerfile": "training/Dockerfile",
    "training/tasks/digits.py": "docs/examples/digits.py",
}
#: More files in the wheel: the locked versions of its requirements (`vgp.base.lock`).
LOCKED = ("constraints.txt", "pyproject.toml")


def read_project_files(folder: Path | None = None) -> dict[str, bytes]:
    """Returns the library's files for a new project, by their paths in it.

    Args:
        folder: The folder with the sources, by default the repository or the installed wheel.
    """
    folder = folder or root()
    contents: dict[str, bytes] = {}
    for place, original in OWNED.items():
        for path in _list_files(folder / original):
            name = path.relative_to(folder / original).as_posix()
            contents[place if name == "." else f"{place}/{name}"] = _replace_task(path.read_bytes())
    return dict(sorted(contents.items()))


def _replace_task(content: bytes) -> bytes:
    """Returns a file's content with the task `digits` in place of `flights`."""
    content = content.replace(b'task: str = "flights"', b'task: str = "digits"')
    return content.replace(b"docs.examples.digits:Digits", b"digits")


def read_originals() -> dict[str, bytes]:
    """Returns the files that the wheel contains for new projects, by their paths in the library's repository."""
    paths = [path for original in (*OWNED.values(), *LOCKED) for path in _list_files(root() / original)]
    return {path.relative_to(root()).as_posix(): path.read_bytes() for path in sorted(paths)}


def copy(destination: Path) -> None:
    """Copies the files for new projects below `destination`, with their paths in the library's repository."""
    for name, content in read_originals().items():
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        (destination / name).write_bytes(content)


def _list_files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for inner in sorted(path.rglob("*")):
        parts = inner.relative_to(path).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if inner.is_file() and not hidden:
            yield inner


WHEEL_NAME = f"vgp-{vgp.__version__}-py3-none-any.whl"
_INFO = f"vgp-{vgp.__version__}.dist-info"
_WHEEL = "Wheel-Version: 1.0\nGenerator: vgp\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
#: The earliest time that a zip file can hold; a fixed time makes the wheel reproducible.
_EARLIEST = (1980, 1, 1, 0, 0, 0)


def format_requirement(wheel: bytes) -> str:
    """Returns the line of a requirements file that installs the wheel beside the file, pinned by its hash."""
    return f"./{WHEEL_NAME} --hash=sha256:{hashlib.sha256(wheel).hexdigest()}\n"


def build_wheel() -> bytes:
    """Returns the bytes of the library's wheel.

    Raises:
        PackageNotFoundError: this library is not installed.
    """
    files = {**_read_package(), **_read_metadata()}
    files[f"{_INFO}/RECORD"] = _format_record(files)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, files[name])
    return packed.getvalue()


def _read_package() -> dict[str, bytes]:
    """Returns the library's files, and the files for new projects, by their paths in the wheel."""
    folder = Path(vgp.__file__).parent
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in paths if not any(part.startswith((".", "__pycache__")) for part in path.parts)]
    package = {f"vgp/{path.as_posix()}": (folder / path).read_bytes() for path in kept}
    return {**{f"vgp/originals/{name}": text for name, text in read_originals().items()}, **package}


def _read_metadata() -> dict[str, bytes]:
    """Returns the metadata files of the installed distribution, by their paths in the wheel."""
    installed = metadata.distribution("vgp")
    kept = {name: installed.read_text(name) for name in ("METADATA", "entry_points.txt")}
    return {
        f"{_INFO}/WHEEL": _WHEEL.encode(),
        **{f"{_INFO}/{name}": text.encode() for name, text in kept.items() if text},
    }


def _format_record(files: dict[str, bytes]) -> bytes:
    lines = [f"{name},sha256={_encode_digest(files[name])},{len(files[name])}" for name in sorted(files)]
    return "\n".join([*lines, f"{_INFO}/RECORD,,", ""]).encode()


def _encode_digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
