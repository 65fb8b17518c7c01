"""Imports of a workflow's modules from its repository, before installed packages and the current folder."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

import vgp


class _Finder:
    """Finds modules in the repository's root before all other places.

    Names of the standard library are excluded: kfp imports many of them late, and a folder may be called `queue`. A
    folder without `__init__.py` is found by Python itself, after every package of the same name.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or name in sys.stdlib_module_names:
            return None
        spec = PathFinder.find_spec(name, [self.root], target)
        return spec if spec and spec.loader else None


def python_variables() -> dict[str, str]:
    """Returns the variables with which a child Python finds this package, and no modules of its current folder."""
    home = Path(vgp.__file__).parents[1]
    folders = [os.environ.get("PYTHONPATH", ""), "" if home.name.endswith("-packages") else str(home)]
    return {"PYTHONPATH": os.pathsep.join(filter(None, folders)), "PYTHONSAFEPATH": "1"}


def search_path() -> tuple[str, ...]:
    """Returns this process's module search path for a child process, with PYTHONPATH (the repository) first, even if
    another version is installed."""
    return tuple(dict.fromkeys([*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *sys.path]))


def search_repository_first(root: str, workflows: Path) -> None:
    """Makes imports search the repository at `root` first, and no longer its folder of workflows.

    Python searches the current folder first, where `training` would be pipelines/training.py.
    """
    finders = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
    if [finder.root for finder in finders] == [root]:
        return
    for finder in finders:
        sys.meta_path.remove(finder)
    sys.meta_path.insert(0, _Finder(root))
    if workflows != Path(root):
        sys.path[:] = [entry for entry in sys.path if not _is_same_folder(entry, workflows)]
    if root not in sys.path:
        sys.path.append(root)


def _is_same_folder(entry: str, folder: Path) -> bool:
    return Path(entry).absolute() == folder or (Path(entry).is_dir() and folder.is_dir() and folder.samefile(entry))
