"""The specs of workflows for who only looks at them: kfp is imported when a source has changed, in its own process.

    python -m vgp.workflow.compiling.spec_cache SETTINGS OUT NAME...

An entry holds the spec of a workflow, and the digest of every file of the repository that was read to compile it. The
process writes OUT as a JSON object: `specs` by name and `files`, or `error` and the module that it is `missing_module`.
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
from vgp.settings import Repository, repository_of
from vgp.settings.repository import find

#: The folder of the entries, if it shall be another one.
FOLDER = "PIPELINES_CACHE_DIR"


def specs(repository: Repository) -> dict[str, PipelineSpec]:
    """The spec of every workflow for this machine, by name.

    Raises:
        RequestError: the code of a workflow fails: which file and line, and why.
    """
    names = list(find(repository))
    known = {name: spec for name in names if (spec := _read(name, repository))}
    stale = [name for name in names if name not in known]
    return {**known, **(_compiled(stale, repository) if stale else {})}


def _compiled(names: Sequence[str], repository: Repository) -> dict[str, PipelineSpec]:
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
        # What a workflow prints must not stand in somebody's JSON.
        code = subprocess.run([*command, *names], stdout=sys.__stderr__, env=environment).returncode
        if not written.exists():
            raise WorkFailed(f"compiling {', '.join(names)} ended with code {code}.")
        result: JsonObject = json.loads(written.read_text(encoding="utf-8"))
    if "error" in result:
        cause = ModuleNotFoundError(name=result["lacking"]) if result["lacking"] else None
        raise RequestError(result["error"]) from cause
    for name in names:
        _write(name, repository, result["specs"][name], result["files"], begin)
    return {name: PipelineSpec(result["specs"][name]) for name in names}


def _read(name: str, repository: Repository) -> PipelineSpec | None:
    """The spec of an entry whose files are what they were."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        entry = json.loads(_entry(name, repository).read_text(encoding="utf-8"))
        same = all(_digest(repository.root / path) == digest for path, digest in entry["files"].items())
        if same and entry["files"] and entry["versions"] == _versions():
            return PipelineSpec(dict(entry["spec"]))
    return None


def _write(name: str, repository: Repository, spec: JsonObject, paths: Sequence[str], begin: float) -> None:
    """Remembers a spec, unless a file has changed since `begin`: it may be of the text from before."""
    with suppress(OSError, RequestError, RuntimeError):  # where nothing can be written, nothing is remembered
        digests = {path: _digest(repository.root / path) for path in paths}
        if any((repository.root / path).stat().st_mtime >= begin for path in paths):
            return
        entry = {"versions": _versions(), "files": digests, "spec": spec}
        whole_files.write(_entry(name, repository), json.dumps(entry))


def _entry(name: str, repository: Repository) -> Path:
    """Raises RuntimeError: the user has no home."""
    folder = os.environ.get(FOLDER) or os.environ.get("XDG_CACHE_HOME")
    home = Path(folder) if folder else Path.home() / ".cache"
    key = hashlib.sha256(json.dumps([str(repository.file), str(repository.folder), name]).encode()).hexdigest()
    return home / "vertex-gpu-pipelines" / f"{key[:32]}.json"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _versions() -> list[str]:
    return [sys.version, vgp.__version__, metadata.version("kfp")]


# ---- the process that compiles


def main(settings: str, out: str, *names: str) -> None:
    """Compiles the workflows `names`, and notes which files of the repository were read."""
    from vgp.workflow.compiling import workflow_files
    from vgp.workflow.compiling.compile_target import Local

    repository = repository_of(Path(settings))
    opened: set[str] = set()
    sys.addaudithook(lambda event, arguments: opened.add(str(arguments[0])) if event == "open" else None)
    try:
        specs = {name: workflow_files.compiled(name, Local(), repository).content for name in names}
        result: JsonObject = {"specs": specs, "files": _own(opened, repository)}
    except (RequestError, ModuleNotFoundError) as error:
        result = {"error": str(error), "lacking": missing_module(error)}
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
