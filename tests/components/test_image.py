"""The image holds every module of ours that a component imports, directly or through others."""

import ast
import importlib
import pkgutil
import shlex
import subprocess
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import product
from pathlib import Path, PurePosixPath

import pytest
from kfp.dsl.base_component import BaseComponent

import components
from vgp import steps
from vgp.vertex.images.source import find_source
from vgp.workflow.project.project_files import write

REPOSITORY = Path(__file__).parents[2]
#: What is imported from the image's own files and not from installed packages.
OURS = ("components", "pipelines", "training", "vgp")


def in_image(root: Path) -> dict[str, str]:
    """Place below /app -> text, of every file that the Dockerfile copies; a wheel is installed there."""
    source = find_source(root)
    lines = (root / source.dockerfile).read_text().replace("\\\n", " ").splitlines()
    places: dict[str, Path] = {}
    for *origins, destination in (shlex.split(line)[1:] for line in lines if line.startswith("COPY ")):
        for origin, name in product(origins, source.files):
            parts = PurePosixPath(name).parts
            if fnmatch(parts[0], origin):  # a folder gives what it holds
                below = PurePosixPath(*parts[1:]) if len(parts) > 1 else PurePosixPath(name)
                places[str(PurePosixPath(destination) / below)] = root / name
    texts = {place: path.read_text() for place, path in places.items() if path.suffix == ".py"}
    for path in places.values():
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                texts |= {name: wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".py")}
    return texts


def imports(text: str) -> Iterator[tuple[str, str]]:
    """Module and name of every import in the text, those within functions too; not those for types alone."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((str(node.module), alias.name) for alias in node.names)


def missing(files: dict[str, str], sources: dict[str, str]) -> set[str]:
    """Modules of ours that the sources need, and the modules that they import, and for which there is no file."""
    modules = {place.removesuffix(".py").removesuffix("/__init__").replace("/", "."): place for place in files}
    lacking, seen, waiting = set(), set(), list(sources.items())
    while waiting:
        importer, text = waiting.pop()
        for module, name in imports(text):
            if module.split(".")[0] not in OURS:
                continue
            parents = [module[:end] for end, letter in enumerate(module) if letter == "."]
            for needed in (*parents, module, f"{module}.{name}"):
                if needed in modules and needed not in seen:
                    seen.add(needed)
                    waiting.append((needed, files[modules[needed]]))
                elif needed not in modules and needed != f"{module}.{name}":
                    lacking.add(f"{needed}, which {importer} imports")
    return lacking


def shipped() -> dict[str, str]:
    """The text that each component ships, by its name."""
    modules = [importlib.import_module(f"components.{each.name}") for each in pkgutil.iter_modules(components.__path__)]
    made = [step for module in modules for step in vars(module).values() if isinstance(step, BaseComponent)]
    texts = {
        f"{step.python_func.__module__}.{step.name}": str(step.component_spec.implementation.container.command[-1])
        for step in made
    }
    # A component calls a public function by its name, which imports its module then.
    return texts | {"vgp.steps": "\n".join(f"from {module} import {name}" for module, name in steps.PUBLIC.values())}


def test_the_image_of_this_repository_has_what_components_import() -> None:
    files = in_image(REPOSITORY)
    assert missing(files, shipped()) == set()
    without = {place: text for place, text in files.items() if not place.startswith("vgp/base/text/")}
    assert missing(without, shipped()), "notify prints through vgp/base/text"


def test_the_image_of_a_new_project_has_what_components_import(tmp_path: Path) -> None:
    folder = write("churn", tmp_path)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    files = in_image(folder)
    assert missing(files, shipped()) == set()
    assert {"vgp/steps/calls.py", "training/tasks/digits.py", "vgp/steps/notice.py"} <= set(files)


@pytest.mark.parametrize("place", ["vgp/cli/__init__.py", "vgp/vertex/__init__.py", "components/train.py"])
def test_nothing_else_of_the_tool_is_in_the_image(place: str) -> None:
    assert (REPOSITORY / place).is_file() and place not in in_image(REPOSITORY)
