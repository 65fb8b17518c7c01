"""Caches the specs of workflows for commands that only read them; a process of its own compiles those that changed.

    python -m vgp.workflow.compiling.spec_cache SETTINGS OUT NAME...

A cache entry holds the spec of a workflow, and the digest of every file of the repository that compiling it has read.
The process writes OUT as a JSON object: `specs` by name and `files`, or `error` and the name of a `lacking` module.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import vgp
from vgp.base import whole_files
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed, missing_module
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol.imports import python_variables
from vgp.settings import Repository, find_repository
from vgp.settings.repository import find_workflows

#: The variable that names another folder for the entries.
FOLDER = "PIPELINES_CACHE_DIR"


def load_specs(repository: Repository) -> dict[str, PipelineSpec]:
    """Returns the spec of every workflow for this machine, by name.

    Raises:
        RequestError: the code of a workflow fails; the message has file and line.
    """
    names = list(find_workflows(repository))
    fresh = {name: spec for name in names if (spec := _read_entry(name, repository))}
    stale = [name for name in names if name not in fresh]
    return {**fresh, **(_compile_stale(stale, repository) if stale else {})}


def _compile_stale(names: Sequence[str], repository: Repository) -> dict[str, PipelineSpec]:
    begin = time.time()
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "specs.json")
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "vgp.workflow.compiling.spec_cache",
            str(repository.file),
            str(written),
        ]
        environment = {**os.environ, **python_variables()}
        # The output of a workflow must not mix with the JSON output of the command.
        code = subprocess.run([*command, *names], stdout=sys.__stderr__, env=environment).returncode
        if not written.exists():
            raise WorkFailed(f"compiling {', '.join(names)} ended with code {code}.")
        result: JsonObject = json.loads(written.read_text(encoding="utf-8"))
    if "error" in result:
        cause = ModuleNotFoundError(name=result["lacking"]) if result["lacking"] else None
        raise RequestError(result["error"]) from cause
    for name in names:
        _write_entry(name, repository, result["specs"][name], result["files"], begin)
    return {name: PipelineSpec(result["specs"][name]) for name in names}


def _read_entry(name: str, repository: Repository) -> PipelineSpec | None:
    """Returns the spec of an entry; None if there is no entry, or a file of it has changed."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        entry = json.loads(_find_entry(name, repository).read_text(encoding="utf-8"))
        is_fresh = all(_hash_file(repository.root / path) == digest for path, digest in entry["files"].items())
        if is_fresh and entry["files"] and entry["versions"] == _list_versions():
            return PipelineSpec(dict(entry["spec"]))
    return None


def _write_entry(name: str, repository: Repository, spec: JsonObject, paths: Sequence[str], begin: float) -> None:
    """Writes an entry, unless a file has changed after `begin`, because the spec may be of the file's older text."""
    with suppress(OSError, RequestError, RuntimeError):  # a folder that cannot be written only costs the cache
        digests = {path: _hash_file(repository.root / path) for path in paths}
        if any((repository.root / path).stat().st_mtime >= begin for path in paths):
            return
        entry = {"versions": _list_versions(), "files": digests, "spec": spec}
        whole_files.write(_find_entry(name, repository), json.dumps(entry))


def _find_entry(name: str, repository: Repository) -> Path:
    """Returns the path of a workflow's entry. Raises RuntimeError if the user has no home."""
    folder = os.environ.get(FOLDER) or os.environ.get("XDG_CACHE_HOME")
    home = Path(folder) if folder else Path.home() / ".cache"
    key = hashlib.sha256(json.dumps([str(repository.file), str(repository.folder), name]).encode()).hexdigest()
    return home / "vertex-gpu-pipelines" / f"{key[:32]}.json"


def _hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _list_versions() -> list[str]:
    return [sys.version, vgp.__version__, metadata.version("kfp")]


# ---- the process that compiles


def main(settings: str, out: str, *names: str) -> None:
    """Compiles the workflows `names`, and writes their specs and the files that were read to `out`."""
    from vgp.workflow.compiling import workflow_files
    from vgp.workflow.compiling.compile_target import Local

    repository = find_repository(Path(settings))
    opened: set[str] = set()
    sys.addaudithook(lambda event, arguments: opened.add(str(arguments[0])) if event == "open" else None)
    try:
        specs = {name: workflow_files.compile_workflow(name, Local(), repository).content for name in names}
        result: JsonObject = {"specs": specs, "files": _list_sources(opened, repository)}
    except (RequestError, ModuleNotFoundError) as error:
        result = {"error": str(error), "lacking": missing_module(error)}
    Path(out).write_text(json.dumps(result), encoding="utf-8")


def _list_sources(opened: set[str], repository: Repository) -> list[str]:
    """Returns the repository's files that were opened or imported.

    Imported modules are added, because Python opens their compiled form instead.
    """
    modules = {str(module.__file__) for module in list(sys.modules.values()) if getattr(module, "__file__", None)}
    paths = {Path(name).absolute() for name in opened | modules}
    own = {path.relative_to(repository.root) for path in paths if path.is_relative_to(repository.root)}
    excluded = {"__pycache__", "site-packages", "dist-packages"}
    return sorted(str(path) for path in own if not excluded & set(path.parts) and (repository.root / path).is_file())


if __name__ == "__main__":
    main(*sys.argv[1:])
