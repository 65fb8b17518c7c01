"""The public functions of `vgp.steps`: what projects call, of this version and of the one before."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vgp import steps, workflow

ROOT = Path(__file__).parents[3]


def test_every_public_name_is_a_documented_function() -> None:
    for name in steps.PUBLIC:
        function = getattr(steps, name)
        assert callable(function) and inspect.getdoc(function), name


def test_components_call_public_functions_and_import_nothing_else_of_the_library() -> None:
    texts = {path.name: path.read_text() for path in (ROOT / "components").glob("*.py") if path.name != "__init__.py"}
    assert len(texts) > 5
    for name, text in texts.items():
        assert set(re.findall(r"(?m)^\s*from (vgp\S*) import (.*)$", text)) == {("vgp", "steps")}, name
        called = set(re.findall(r"\bsteps\.(\w+)\(", text))
        assert called and called <= set(steps.PUBLIC), name


def test_an_unknown_name_is_reported_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"has no 'prepair'\. It has resolve, prepare, .*`vgp update`"):
        _ = steps.prepair


#: What files of a project may import of the library beside its task: the rest may move from version to version.
PUBLIC_MODULES = {"vgp", "vgp.steps", "vgp.steps.form", "vgp.workflow", "vgp.testing"}


@pytest.mark.parametrize("path", [*ROOT.glob("components/*.py"), *ROOT.glob("pipelines/*.py")], ids=lambda p: p.name)
def test_components_and_workflows_import_public_modules_alone(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name.partition(".")[0] == "vgp"} <= PUBLIC_MODULES


def test_what_a_workflow_imports_is_there() -> None:
    for name in workflow.PUBLIC:
        assert getattr(workflow, name)
    with pytest.raises(AttributeError, match="has no 'plac'"):
        workflow.plac  # noqa: B018


def test_the_form_of_a_workflow_needs_no_package_of_the_training():
    heavy = "{'torch', 'numpy', 'pyarrow', 'ibis'}"
    code = f"import sys, vgp.steps.form; print(*({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
