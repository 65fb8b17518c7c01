"""What a new project is given: workflows, steps, Dockerfile and a task, one source of each, and the library's wheel.

They lie in the repository that the wheel is built from, and in the wheel itself. Used by setup.py, too, so the standard
library is all that may be imported here.

A project carries the wheel as one file, so that the laptop, CI and the image install the same library, whether or not a
package index has this version. Format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
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

#: Folder or file of a project <- of our repository.
OWNED: Mapping[str, str] = {
    "pipelines": "pipelines",
    "components": "components",
    "training/__init__.py": "training/__init__.py",
    "training/Dockerfile": "training/Dockerfile",
    "training/tasks/digits.py": "docs/examples/digits.py",
}
#: What the wheel holds beside them: the locked versions of all that it needs (`vgp.base.lock`).
LOCKED = ("constraints.txt", "pyproject.toml")


def project_files(folder: Path | None = None) -> dict[str, bytes]:
    """The files of a new project that are ours, by their paths in it; `folder` has the paths of our repository."""
    folder = folder or root()
    contents: dict[str, bytes] = {}
    for place, original in OWNED.items():
        for path in _below(folder / original):
            name = path.relative_to(folder / original).as_posix()
            contents[place if name == "." else f"{place}/{name}"] = _adapted(path.read_bytes())
    return dict(sorted(contents.items()))


def _adapted(content: bytes) -> bytes:
    """With the task of a new project in place of ours."""
    for ours, theirs in (
        (b'task: str = "flights"', b'task: str = "digits"'),
        (b"docs.examples.digits:Digits", b"digits"),
    ):
        content = content.replace(ours, theirs)
    return content


def original_files() -> dict[str, bytes]:
    """All that a wheel holds of it, by the paths of our repository."""
    paths = [path for original in (*OWNED.values(), *LOCKED) for path in _below(root() / original)]
    return {path.relative_to(root()).as_posix(): path.read_bytes() for path in sorted(paths)}


def copy(destination: Path) -> None:
    """Puts all of it below `destination`, with the paths of our repository."""
    for name, content in original_files().items():
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        (destination / name).write_bytes(content)


def _below(path: Path) -> Iterator[Path]:
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
#: The first moment that a zip file can tell.
_THEN = (1980, 1, 1, 0, 0, 0)


def requirement(wheel: bytes) -> str:
    """The line of a requirements file that installs these bytes, from beside it, and no others."""
    return f"./{WHEEL_NAME} --hash=sha256:{hashlib.sha256(wheel).hexdigest()}\n"


def library_wheel() -> bytes:
    """The bytes of the wheel.

    Raises:
        PackageNotFoundError: this library is not installed, not even in editable form.
    """
    files = {**_package(), **_about()}
    files[f"{_INFO}/RECORD"] = _record(files)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _THEN)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, files[name])
    return packed.getvalue()


def _package() -> dict[str, bytes]:
    """The library's files, and the originals of a project where the library does not bring them already."""
    folder = Path(vgp.__file__).parent
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in paths if not any(part.startswith((".", "__pycache__")) for part in path.parts)]
    own = {f"vgp/{path.as_posix()}": (folder / path).read_bytes() for path in kept}
    return {**{f"vgp/originals/{name}": text for name, text in original_files().items()}, **own}


def _about() -> dict[str, bytes]:
    """What describes the distribution, as it is installed here."""
    installed = metadata.distribution("vgp")
    kept = {name: installed.read_text(name) for name in ("METADATA", "entry_points.txt")}
    return {
        f"{_INFO}/WHEEL": _WHEEL.encode(),
        **{f"{_INFO}/{name}": text.encode() for name, text in kept.items() if text},
    }


def _record(files: dict[str, bytes]) -> bytes:
    lines = [f"{name},sha256={_digest(files[name])},{len(files[name])}" for name in sorted(files)]
    return "\n".join([*lines, f"{_INFO}/RECORD,,", ""]).encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
