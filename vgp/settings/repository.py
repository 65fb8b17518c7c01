"""Finds the repository of a command, which is the folder of pipelines.toml, and the workflows in it.

The search goes from the current folder upward, like git's; `--settings FILE` names the file instead.
"""

import ast
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

from vgp.base.documents.toml_text import FILE_NAME, settings_file
from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean

#: Default Dockerfiles of the image of the steps; the first existing one counts.
DOCKERFILES = ("training/Dockerfile", "Dockerfile")
MISSING = (
    f"there is no {FILE_NAME} in this folder or above it. Start a repository with vgp new project NAME, change into "
    "one that has the file, or name the file with --settings FILE. vgp init writes the file alone."
)

NO_WORKFLOW = (
    "{}/ holds no workflow. Write a file with a @dsl.pipeline function there, or start from one that works: "
    "vgp new project NAME."
)

_WORKFLOW = re.compile(r"^(?:async\s+)?def\s+build\b|^build\s*[:=]|^@(?:\w+\.)*pipeline\b", re.MULTILINE)
#: Removed workflow -> its replacement, and the message that names it.
_REMOVED = {
    "retraining": (
        "training",
        'the pipeline retraining is now part of training. Use training with the parameter when = "drift".',
    )
}
#: Larger files are not parsed as workflows, because Python's parser would take seconds and gigabytes.
_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Repository:
    """A pipelines.toml and its folder of workflows, with absolute paths."""

    file: Path
    folder: Path

    @property
    def root(self) -> Path:
        return self.file.parent

    def is_nearest(self) -> bool:
        """Whether a command finds this repository from the current folder without --settings."""
        nearest = settings_file()
        return nearest is not None and Path(os.path.abspath(nearest)) == self.file


def find_workflows(repository: Repository) -> dict[str, Path]:
    """Returns the workflows by name, without importing them: each file with a top-level `@dsl.pipeline` or `build`
    function.

    Raises:
        RequestError: a file cannot be read.
    """
    try:
        files = sorted(path for path in repository.folder.glob("[!_.]*.py") if path.is_file())
        return {path.stem: path for path in files if _is_workflow(path)}
    except OSError as error:
        raise RequestError(f"{error.filename or repository.folder} cannot be read: {error.strerror}.") from None


def find_workflow(name: str, repository: Repository) -> Path:
    """Returns the file of the workflow `name`.

    Raises:
        RequestError: no workflow has this name.
    """
    workflows = find_workflows(repository)
    if name in workflows:
        return workflows[name]
    folder = repository.folder.relative_to(repository.root)
    if not workflows:
        raise RequestError(f"there is no pipeline {name!r}: {NO_WORKFLOW.format(folder)}")
    if name in _REMOVED and _REMOVED[name][0] in workflows:
        raise RequestError(_REMOVED[name][1])
    raise RequestError(f"there is no pipeline {name!r}. {did_you_mean(name, workflows)}")


def _is_workflow(path: Path) -> bool:
    """Whether the text has a top-level pipeline or `build`; for invalid Python, whether it looks like that."""
    with path.open("rb") as file:
        text = file.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return bool(_WORKFLOW.search(text.decode("utf-8", "replace")))
    return any("build" in _list_names(statement) or _is_pipeline(statement) for statement in tree.body)


def _list_names(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def _is_pipeline(statement: ast.stmt) -> bool:
    """Whether the statement is a function with the decorator `dsl.pipeline`, also if imported as `pipeline`."""
    if not isinstance(statement, ast.FunctionDef):
        return False
    names = (decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in statement.decorator_list)
    return any(ast.unparse(name).rpartition(".")[2] == "pipeline" for name in names)
