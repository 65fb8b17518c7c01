"""The process that compiles workflows for spec_cache.py, and tells which files of the repository it read.

    python -m vgp.workflow.compiling.compile_process SETTINGS OUT NAME...

OUT is written as a JSON object: `specs` by name and `files`, or `error` and the module that it is `lacking`.
"""

import json
import sys
from pathlib import Path
from typing import Any

from vgp.base.errors import RequestError, lacking
from vgp.settings import Repository, repository_of
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.compile_target import Local


def main(settings: str, out: str, *names: str) -> None:
    repository = repository_of(Path(settings))
    opened: set[str] = set()
    sys.addaudithook(lambda event, arguments: opened.add(str(arguments[0])) if event == "open" else None)
    try:
        specs = {name: workflow_files.compiled(name, Local(), repository).content for name in names}
        result: dict[str, Any] = {"specs": specs, "files": _own(opened, repository)}
    except (RequestError, ModuleNotFoundError) as error:
        result = {"error": str(error), "lacking": lacking(error)}
    Path(out).write_text(json.dumps(result), encoding="utf-8")


def _own(opened: set[str], repository: Repository) -> list[str]:
    """The repository's files that were opened or imported: of a module, Python opens its compiled form."""
    modules = {str(module.__file__) for module in list(sys.modules.values()) if getattr(module, "__file__", None)}
    paths = {Path(name).absolute() for name in opened | modules}
    own = {path.relative_to(repository.root) for path in paths if path.is_relative_to(repository.root)}
    strange = {"__pycache__", "site-packages", "dist-packages"}
    return sorted(str(path) for path in own if not strange & set(path.parts) and (repository.root / path).is_file())


if __name__ == "__main__":
    main(*sys.argv[1:])
