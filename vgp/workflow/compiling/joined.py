"""A package as one program, for where a text can travel and no package."""

import ast
from pathlib import Path
from types import ModuleType


def joined(package: ModuleType) -> str:
    """Its `__main__` behind the modules that it imports, each behind those that it imports itself.

    All share one namespace: a name means the same in each module, and is imported by that name.
    """
    texts: dict[str, str] = {}
    _add(f"{package.__name__}.__main__", Path(package.__path__[0]), texts)
    return "from __future__ import annotations\n" + "".join(texts.values())


def _add(module: str, folder: Path, texts: dict[str, str]) -> None:
    """Adds the text of a module, without its docstring and the imports that its place in the program makes needless."""
    package, _, name = module.rpartition(".")
    text = (folder / f"{name}.py").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        source = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if source.rpartition(".")[0] == package and source not in texts:
            _add(source, folder, texts)
        if source == "__future__" or source.startswith(f"{package}.") or _is_text(node):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - node.lineno + 1)
    texts[module] = "".join(lines)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
