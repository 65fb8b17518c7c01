"""The specs of workflows for who only looks at them: kfp is imported when a source has changed, in its own process.

An entry holds the spec of a workflow, and the digest of every file of the repository that was read to compile it.
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
from typing import Any

import vgp
from vgp.base import whole_files
from vgp.base.errors import RequestError, WorkFailed
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol.imports import variables_of_ours
from vgp.settings.repository import Repository, find

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
            "vgp.workflow.compiling.compile_process",
            str(repository.file),
            str(written),
        ]
        environment = {**os.environ, **variables_of_ours()}
        # What a workflow prints must not stand in somebody's JSON.
        code = subprocess.run([*command, *names], stdout=sys.__stderr__, env=environment).returncode
        if not written.exists():
            raise WorkFailed(f"compiling {', '.join(names)} ended with code {code}.")
        result: dict[str, Any] = json.loads(written.read_text(encoding="utf-8"))
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


def _write(name: str, repository: Repository, spec: dict[str, Any], paths: Sequence[str], begin: float) -> None:
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
