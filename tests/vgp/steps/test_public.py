"""The public functions of `vgp.steps`: what projects call, of this version and of the one before."""

import inspect
import re
from pathlib import Path

import pytest

from vgp import steps

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


def test_a_name_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r"has no 'prepair'\. It has resolve, prepare, .*`vgp update`"):
        _ = steps.prepair
