"""Refuses a run that names code of this machine which the image does not hold.

A task `module:Class` or the file of a command exists here, but not in the image unless the Dockerfile copies it.
Without this check the run would fail with a missing module after its machine has started.
"""

import ast
import re
import sys
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.check.spec.container_settings import scripts
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import placeholders
from vgp.settings import Settings
from vgp.vertex.images.source import Selection, is_known_to_git

_CLASS = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):[A-Za-z_]\w*")
#: Folders of installed packages, which are not checked: the packages of the image are not known here.
_INSTALLED = ("site-packages", "dist-packages")


def refuse_missing(settings: Settings, spec: PipelineSpec, values: JsonObject, sent: Collection[str] = ()) -> None:
    """Raises RequestError with a fix if a run names code of this machine that the images of the settings do not hold.

    Other images, and repositories without a Dockerfile, are not checked.

    Args:
        sent: Files that `--code` sends with the run.
    """
    root = settings.repository.root.resolve()
    try:
        selection = Selection.read(root, settings.dockerfile)
    except RequestError:
        return
    for name, value in {**spec.defaults, **values}.items():
        for text in placeholders.texts(value):
            if match := _CLASS.fullmatch(text):
                _refuse(f"{name} = {text}", _find_module(match[1], (root, Path.cwd())), root, selection, sent)
    for step, script in scripts(spec).items():
        if script.image in (settings.image, settings.light_image):
            for file in _list_files(script.command, root):
                _refuse(f"[steps.{step}] command: {' '.join(script.command)}", file, root, selection, sent)


def _list_files(command: Sequence[str], root: Path) -> Iterator[Path]:
    """Yields the files of this machine that a command names, as a word or as the module of `python -m`."""
    for before, word in zip(("", *command), command, strict=False):
        if before == "-m" and (module := _find_module(word, (root,))):
            yield module
        elif not word.startswith("-") and (root / word).is_file():
            yield root / word


def _refuse(name_and_value: str, file: Path | None, root: Path, selection: Selection, sent: Collection[str]) -> None:
    for needed, importer in _list_imports(file, root) if file else ():
        name = needed.relative_to(root).as_posix() if needed.is_relative_to(root) else str(needed)
        why = "" if name in sent else _explain_absence(name, root, selection)
        if why:
            imported_by = f", which {importer.relative_to(root).as_posix()} imports" if importer else ""
            raise RequestError(f"{name_and_value}: the image does not hold {name}{imported_by}. {why}")


def _explain_absence(name: str, root: Path, selection: Selection) -> str:
    """Returns why the image does not hold a file, and the fix; empty if it holds the file."""
    rebuild = "Then build the image again: vgp image build."
    if Path(name).is_absolute():
        return f"It lies outside of {root}, from which the image is built: move it there. {rebuild}"
    if not selection.copies(name):
        folder = name.rpartition("/")[0]
        line = f"COPY {folder} ./{folder}" if folder else f"COPY {name} ./"
        out = f" and '!{folder or name}' to .dockerignore" if selection.ignored.excludes(name) else ""
        copied = ", ".join(name for name in selection.copied if (root / name).is_dir()) or "files alone"
        move_hint = f"or move the file to what is copied: {copied}"
        return f"Add the line '{line}' to {selection.dockerfile}{out}, {move_hint}. {rebuild}"
    if selection.ignored.excludes(name):
        return f".dockerignore leaves it out: add the line '!{name}' to it. {rebuild}"
    if is_known_to_git(root, name):
        return ""
    return f"git ignores it, and only what git has goes into the image. {rebuild}"


def _list_imports(file: Path, root: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yields the file and all files of the repository that its import loads, each with its importer."""
    waiting: list[tuple[Path, Path | None]] = [(file, None)]
    seen: set[Path] = set()
    while waiting:
        file, importer = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        yield file, importer
        if file.suffix == ".py" and file.is_relative_to(root):
            waiting += [(path, file) for path in _list_direct_imports(file, root) if path.is_relative_to(root)]


def _list_direct_imports(file: Path, root: Path) -> Iterator[Path]:
    """Yields the files of the modules that a file imports unconditionally, at its top level."""
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return
    for statement in body:
        for name in _list_module_names(statement, file, root):
            module = _find_module(name, (file.parent, root))
            if module:
                yield module


def _list_module_names(statement: ast.stmt, file: Path, root: Path) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        folder = file.parents[statement.level - 1] if 0 < statement.level <= len(file.parents) else root
        package = ".".join(folder.relative_to(root).parts) if statement.level and folder.is_relative_to(root) else ""
        base = ".".join(filter(None, (package, statement.module)))
        yield base
        yield from (f"{base}.{alias.name}" for alias in statement.names)


def _find_module(name: str, folders: Sequence[Path]) -> Path | None:
    """Finds the file of a module without an import; None if it is installed, built in or not on this machine."""
    if name.partition(".")[0] in sys.stdlib_module_names:
        return None
    standard = Path(sysconfig.get_path("stdlib"))
    for folder in (*folders, *map(Path, sys.path)):
        for path in (folder / f"{name.replace('.', '/')}.py", folder / name.replace(".", "/") / "__init__.py"):
            if path.is_file():
                outside = set(_INSTALLED) & set(path.parts) or path.is_relative_to(standard)
                return None if outside else path.resolve()
    return None
