"""What a project copies from this version: the same files, in a wheel or in the repository that it is built from.

Used by setup.py, too, so the standard library is all that may be imported here.
"""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

#: Folder beside this file that a wheel has, with the paths of our repository.
BUNDLED = "originals_of_wheel"
#: Where a file or folder lies in a project <- and in our repository. `pipelines update` renews these ...
VENDORED: Mapping[str, str] = {
    "training": "training",
    "training/LICENSE": "LICENSE",
    "training/lock/constraints.txt": "constraints.txt",
    "training/lock/locked.py": "scripts/locked.py",
    "training/lock/pyproject.toml": "pyproject.toml",
    # For the image: here the command itself is installed.
    "training/lock/vgp/__init__.py": "vgp/__init__.py",
    "training/lock/vgp/inside": "vgp/protocol",
    "training/lock/vgp/text": "vgp/base/text",
    "components": "components",
}
#: ... and these belong to their owner from the start.
OWNED: Mapping[str, str] = {
    "pipelines": "pipelines",
    "tasks/digits.py": "docs/examples/digits.py",
}
#: What installs the command itself, for pip: renewed with the rest.
TOOL = "training/lock/tool.txt"
#: The image of a project is built from a Dockerfile of its own, on the same base.
DOCKERFILE = "training/Dockerfile"
_LEFT_OUT = ("Dockerfile", "ruff.toml")


def root() -> Path:
    """Folder with the paths of our repository."""
    bundled = Path(__file__).with_name(BUNDLED)
    return bundled if bundled.is_dir() else Path(__file__).resolve().parents[2]


def vendored(requirement: str) -> dict[str, bytes]:
    """The files that are renewed, by their paths in a project; `requirement` installs this very command."""
    return {**files(VENDORED), TOOL: f"{requirement}\n".encode()}


def files(places: Mapping[str, str]) -> dict[str, bytes]:
    """The files by their paths in a project, in order."""
    contents: dict[str, bytes] = {}
    for place, original in places.items():
        for path in _below(root() / original):
            name = path.relative_to(root() / original).as_posix()
            contents[place if name == "." else f"{place}/{name}"] = path.read_bytes()
    return dict(sorted(contents.items()))


def base_image() -> str:
    """The base of the one image, by digest."""
    lines = (root() / DOCKERFILE).read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("ARG BASE=")).removeprefix("ARG BASE=")


def copy(destination: Path) -> None:
    """Puts all of it below `destination`, with the paths of our repository."""
    for original in (*VENDORED.values(), *OWNED.values(), DOCKERFILE):
        for path in _below(root() / original):
            place = destination / path.relative_to(root())
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)


def _below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for inner in sorted(path.rglob("*")):
        parts = inner.relative_to(path).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if inner.is_file() and not hidden and inner.name not in _LEFT_OUT:
            yield inner
