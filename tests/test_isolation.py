"""Each test file starts from the same state of its process, whatever the file before it changed."""

import ast
import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest
from isolation import SIGN_INS, as_found, sign_out

from vgp.protocol.imports import search_repository_first
from vgp.vertex import clients

ROOT = Path(__file__).parents[1]


def test_a_file_leaves_its_process_as_it_found_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOLATED", "before")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    search_repository_first(str(ROOT), ROOT / "pipelines")  # as a file before may have left it
    before = os.getcwd(), list(sys.path), list(sys.meta_path), dict(os.environ), sys.getrecursionlimit()
    (tmp_path / "left_behind.py").touch()
    with as_found(tmp_path):
        os.chdir(tmp_path)
        sys.setrecursionlimit(before[-1] + 1)
        os.environ |= {"ISOLATED": "after", "ISOLATED_TOO": "1"}
        search_repository_first(str(tmp_path), tmp_path / "pipelines")
        sys.path.insert(0, str(tmp_path))
        importlib.import_module("left_behind")
    after = os.getcwd(), list(sys.path), list(sys.meta_path), dict(os.environ), sys.getrecursionlimit()
    assert after == before
    assert "left_behind" not in sys.modules and importlib.util.find_spec("left_behind") is None


def test_an_import_path_added_by_a_library_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    with as_found(tmp_path / "own"):
        sys.path.append(str(tmp_path))
    assert str(tmp_path) in sys.path


def test_cached_credentials_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
    first = clients.credentials()
    assert clients.credentials() is first
    sign_out()
    assert clients.credentials() is not first


def test_every_cached_client_is_listed() -> None:
    kept = {
        (".".join(path.relative_to(ROOT).with_suffix("").parts), function.name)
        for room in ("vgp", "training", "components", "pipelines")
        for path in (ROOT / room).rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and function.decorator_list
        if "cache" in {word for each in function.decorator_list for word in ast.unparse(each).split(".")}
        if {"google", "environ", "getcwd"} & set(re.findall(r"\w+", ast.unparse(function)))
    }
    assert kept == {(module, name) for module, names in SIGN_INS.items() for name in names}
