"""The tree is the architecture: who imports whom, deferred imports counted."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Rooms from the bottom up: each imports what stands before it, and nothing that stands after.
TOOL = (
    "errors", "text", "documents", "sources", "catalog", "placement", "inside", "spec", "settings", "check", "convert",
    "compiling", "local", "vertex", "models", "project", "api", "cli", "__main__",
)  # fmt: skip
#: Heavy libraries, and the only places that may import them.
HOMES = {
    "torch": ("training",),
    "kfp": ("components", "pipelines", "vgp.workflow.compiling", "vgp.workflow.local", "vgp.check.spec"),
    "google_cloud_pipeline_components": ("vgp.workflow.compiling",),
    "google": ("vgp.base.storage", "vgp.vertex", "vgp.protocol"),
}


@cache
def modules() -> dict[str, Path]:
    """The product's modules by their dotted names."""
    listed = subprocess.run(
        ["git", "ls-files", "vgp/*.py", "training/*.py", "components/*.py", "pipelines/*.py", ":!vgp/workflow/project/template"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    return {name[:-3].replace("/", ".").removesuffix(".__init__"): ROOT / name for name in listed}


@cache
def imported(module: str) -> tuple[str, ...]:
    """The dotted names that a module imports, at its top or within its functions."""
    return tuple(_imported(module))


def _imported(module: str) -> Iterator[str]:
    path = modules()[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            levels = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*levels, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def arrows() -> dict[str, frozenset[str]]:
    """Module -> the modules of ours that it imports."""
    return {name: frozenset(own(target) for target in imported(name)) - {name, ""} for name in modules()}


def own(name: str) -> str:
    """The longest beginning of a dotted name that is a module of ours; empty if none is."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name


def circles() -> list[set[str]]:
    """Groups of modules that import each other, directly or through others."""
    reach: dict[str, set[str]] = {name: set(targets) for name, targets in arrows().items()}
    for middle in reach:
        for targets in reach.values():
            if middle in targets:
                targets |= reach[middle]
    return [
        {other for other in reach if name in reach[other] and other in reach[name]}
        for name in reach
        if name in reach[name]
    ]


def test_no_module_imports_itself_through_others() -> None:
    assert circles() == []


def test_rooms_of_the_tool_import_downwards_only() -> None:
    upward = [
        f"{name} -> {target}"
        for name, targets in arrows().items()
        for target in targets
        if name.startswith("vgp.") and target.startswith("vgp.") and floor(target) > floor(name)
    ]
    assert upward == []


def floor(module: str) -> int:
    return TOOL.index(module.split(".")[1])


@pytest.mark.parametrize(
    ("room", "never"),
    [
        ("training", ("vgp", "components", "pipelines", "kfp")),
        ("components", ("pipelines", "vgp.")),
        ("vgp", ("training", "components", "pipelines", "torch")),
    ],
)
def test_a_room_knows_nothing_of_those_above_it(room: str, never: tuple[str, ...]) -> None:
    known = [
        f"{name} -> {target}"
        for name in modules()
        if name.split(".")[0] == room
        for target in imported(name)
        if target.startswith(tuple(f"{each}." for each in never)) and not target.startswith("vgp.protocol.")
    ]
    assert known == []


@pytest.mark.parametrize("library", HOMES)
def test_a_heavy_library_is_imported_where_it_belongs_and_nowhere_else(library: str) -> None:
    strays = [
        f"{name} -> {target}"
        for name in modules()
        if not name.startswith(HOMES[library])
        for target in imported(name)
        if target.split(".")[0] == library and not target.startswith("google.protobuf.")
    ]
    assert strays == []


@pytest.mark.parametrize("room", sorted({path.parent for path in modules().values()}), ids=lambda p: p.name)
def test_the_docstring_of_a_room_names_every_file(room: Path) -> None:
    if room.parent == ROOT and room.name == "pipelines":
        return  # a workflow is added by adding its file, and nothing else
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    files = {path.name for path in room.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert {name for name in files if name not in text} == set()


def test_the_map_in_the_readme_names_every_room() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rooms = {path.parent.relative_to(ROOT) for path in modules().values()}
    missing = {str(room) for room in rooms if len(room.parts) < 3 and f"{room.name}/" not in text}
    assert missing == set()


def test_every_file_that_the_architecture_page_names_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = {path.relative_to(ROOT).as_posix() for path in modules().values()}
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    assert {name for name in named if not any(file == name or file.endswith(f"/{name}") for file in files)} == set()
