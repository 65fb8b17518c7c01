"""The modules of the launching text are one program, for images that hold nothing of ours."""

import ast
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from vgp.protocol import launching
from vgp.workflow.compiling.script_step import compact_source, join_package

MODULES = [path for path in Path(launching.__path__[0]).glob("*.py") if path.name != "__init__.py"]
TEXT = join_package(launching)


def meanings(text: str, module: str) -> Iterator[tuple[str, str]]:
    """The names at the top of a module, and what each stands for."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            source = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield from ((alias.asname or alias.name, source + alias.name) for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, f"{module}.{node.name}"
        else:
            names = [
                name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            ]
            yield from ((name, f"{module}.{name}") for name in names)


def test_a_name_means_the_same_in_every_module() -> None:
    texts = {f"{launching.__name__}.{path.stem}": path.read_text() for path in MODULES}
    pairs = {pair for module, text in texts.items() for pair in meanings(text, module)}
    every = defaultdict(set)
    for name, meaning in pairs:
        every[name].add(meaning)
    assert {name: those for name, those in every.items() if len(those) > 1} == {}
    assert [pair for pair in pairs if not f".{pair[1]}".endswith(f".{pair[0]}")] == [], "imported by another name"
    own = {name for name, meaning in pairs if meaning.startswith(launching.__name__)}
    assert own <= {name for name, _ in meanings(TEXT, "joined")}, "a module that no other imports"


def test_the_launching_text_is_python_3_8_and_of_the_standard_library_alone() -> None:
    tree = ast.parse(TEXT, feature_version=(3, 8))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {str(module).partition(".")[0] for module in modules} <= set(sys.stdlib_module_names)
    assert TEXT.count("from __future__") == TEXT[:40].count("from __future__") == 1
    quoted = json.dumps(json.dumps(compact_source(TEXT)))
    assert 3 * len(quoted) < 116_000, "one argument has 128 KiB, and holds the text of three pools, quoted twice"
    assert "{{$" not in TEXT and "/kfp-workspace" not in TEXT, "Vertex AI and kfp would replace it"
