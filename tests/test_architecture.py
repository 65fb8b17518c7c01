"""The tree is the architecture: who imports whom (the contracts in pyproject.toml), and rooms that name their files."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]


@cache
def modules() -> dict[str, Path]:
    """The product's modules by their dotted names."""
    listed = subprocess.run(
        ["git", "ls-files", "vgp/*.py", "training/*.py", "components/*.py", "pipelines/*.py", ":!*/template/*"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    return {name[:-3].replace("/", ".").removesuffix(".__init__"): ROOT / name for name in listed}


def test_every_contract_on_imports_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == 0, "see the output for the imports that break a contract"


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


def test_every_file_that_the_house_names_exists() -> None:
    text = (ROOT / "docs/explanation/the-house.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([\w/]+\.(?:py|json|toml))`", text)) - {
        "components/NAME.py",
        "machines.json",
    }
    assert len(names) > 20
    assert {name for name in names if not any((ROOT / place / name).exists() for place in ("", "vgp"))} == set()
