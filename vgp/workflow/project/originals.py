"""What a new project is given of our own: workflows, steps, Dockerfile and a task; one source of each.

They lie in the repository that the wheel is built from, and in the wheel itself. Used by setup.py, too, so the standard
library is all that may be imported here.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

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


def files() -> dict[str, bytes]:
    """All that a wheel holds of it, by the paths of our repository."""
    paths = [path for original in (*OWNED.values(), *LOCKED) for path in _below(root() / original)]
    return {path.relative_to(root()).as_posix(): path.read_bytes() for path in sorted(paths)}


def copy(destination: Path) -> None:
    """Puts all of it below `destination`, with the paths of our repository."""
    for name, content in files().items():
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
