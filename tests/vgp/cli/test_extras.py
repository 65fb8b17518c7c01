"""What is not installed is named with the command that installs it; what the tool imports is in one of its extras."""

import ast
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from linked import REPOSITORY, locked

from vgp.base.errors import RequestError
from vgp.cli import extras

DESK = ("cli", "api", "vertex", "workflow", "check", "settings", "machines", "base/text", "base/documents")
TOOL = sorted(path for room in DESK for path in (REPOSITORY / "vgp" / room).rglob("*.py"))
DISTRIBUTIONS = metadata.packages_distributions()


def imported(path: Path) -> set[str]:
    """The packages from elsewhere that a file imports, inside functions too."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"vgp"}


def distributions(package: str) -> set[str]:
    return {re.sub(r"[-_.]+", "-", name).lower() for name in DISTRIBUTIONS.get(package, ())}


def test_every_import_of_the_tool_is_in_the_base_or_in_the_extra_that_is_named() -> None:
    base = locked()
    template = REPOSITORY / "vgp" / "workflow" / "project" / "template"
    packages = {name for path in TOOL if template not in path.parents for name in imported(path)}
    heavy = {name for name in packages if not distributions(name) & base}
    assert heavy <= set(extras.PACKAGES["vertex"])
    assert {"kfp", "google"} <= heavy


@pytest.mark.parametrize("extra", ["vertex", "training"])
def test_an_extra_installs_the_packages_that_its_message_names(extra: str) -> None:
    for package in extras.PACKAGES[extra]:
        assert distributions(package) & locked(extra), package


def test_a_lack_is_named_also_when_it_was_explained_on_the_way() -> None:
    with pytest.raises(RequestError) as refused, extras.explain_missing_package():
        try:
            raise ModuleNotFoundError("No module named 'kfp.dsl'", name="kfp.dsl")
        except ModuleNotFoundError as error:
            raise RequestError("pipelines/training.py:3: ModuleNotFoundError") from error
    assert str(refused.value) == (
        f"kfp is not installed. Install the extra vertex:\n  {REPOSITORY}/scripts/setup.sh vertex"
    )


def test_an_unknown_package_is_not_explained() -> None:
    with pytest.raises(ModuleNotFoundError), extras.explain_missing_package():
        raise ModuleNotFoundError("No module named 'pandas'", name="pandas")


@pytest.mark.parametrize(("version", "is_refused"), [("2.7.0", True), ("1.165.1", False)])
def test_pipeline_components_are_not_asked_for_beside_a_version_that_they_refuse(
    monkeypatch: pytest.MonkeyPatch, version: str, is_refused: bool
) -> None:
    monkeypatch.setattr(metadata, "version", {"google-cloud-aiplatform": version}.__getitem__)
    name = "google_cloud_pipeline_components"
    with pytest.raises(RequestError) as said, extras.explain_missing_package():
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)
    assert (f"refuses google-cloud-aiplatform {version}" in str(said.value)) is is_refused
    assert ("environment of its own" in str(said.value)) is is_refused and "vertex" in str(said.value)
