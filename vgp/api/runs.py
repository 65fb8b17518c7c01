"""Starts, resumes and loads runs on this machine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vgp.api import run_progress
from vgp.api.parameter_values import format_parameters, translate_options
from vgp.api.run import Run, RunFailed, load_run
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.protocol import file_names
from vgp.settings import find_repository
from vgp.settings import load as load_settings
from vgp.workflow.local import local_folder as folders
from vgp.workflow.local import local_run as local
from vgp.workflow.local.process import Event


def run(
    pipeline: str = "training",
    parameters: JsonObject | None = None,
    *,
    nproc: int | None = None,
    nodes: int | None = None,
    out: str | Path = "runs",
    environment: str | None = None,
    settings: str | Path | None = None,
    progress: bool | Callable[[Event], None] = True,
    **more: Any,
) -> Run:
    """Runs all steps of a pipeline on this machine, as `vgp run` does; returns the run when it has succeeded.

    Args:
        pipeline: Name of the workflow.
        parameters: Pipeline parameters by name; `{"training_options.strategy": "fsdp"}` sets a member.
        nproc: Training processes; None = one per GPU, or 1.
        nodes: Simulated nodes of a step's own command; None = 1.
        out: Folder in which the run's folder is created.
        environment: Environment in the settings file `settings`, by default the nearest pipelines.toml upward.
        progress: Whether to show progress, or a function to call with each event.
        more: More pipeline parameters, such as `epochs=3`. `task` may be a class.

    Raises:
        RequestError: the workflow, a parameter or a folder is invalid; nothing was started.
        RunFailed: a step failed or the run was interrupted; all processes have ended, and `resume` continues it.
    """
    values = format_parameters(parameters, more)
    try:
        loaded = load_settings(Path(settings) if settings else None, environment=environment)
        request = local.create_run(pipeline, values, loaded, Path(out), nproc=nproc, nodes=nodes)
    except RequestError as error:
        raise RequestError(translate_options(error)) from None
    return _execute(request, progress)


def resume(
    folder: str | Path,
    *,
    nproc: int | None = None,
    nodes: int | None = None,
    settings: str | Path | None = None,
    progress: bool | Callable[[Event], None] = True,
) -> Run:
    """Resumes a failed or stopped run with its own parameters from its last checkpoint.

    Uses as many processes and nodes as before unless `nproc` or `nodes` is given.

    Raises:
        RequestError: the folder holds no run.
        RunFailed: as for `run`.
    """
    path = Path(folder)
    try:
        document = json.loads((path / file_names.REQUEST).read_text(encoding="utf-8"))
        repository = find_repository(Path(settings) if settings else None)
        request = local.resume_run(str(document["workflow"]), path, repository, nproc=nproc, nodes=nodes)
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, RequestError):
            raise RequestError(translate_options(error)) from None
        raise RequestError(f"{folder} is not the folder of a run.") from None
    return _execute(request, progress)


def load(folder: str | Path) -> Run:
    """Loads a finished run from its folder.

    Raises:
        RequestError: the folder holds no finished run.
    """
    return load_run(Path(folder))


def _execute(request: folders.Run, progress: bool | Callable[[Event], None]) -> Run:
    with run_progress.show_progress(request, progress) as report:
        try:
            result = local.execute_run(request, report)
        except WorkFailed as stop:
            stopped = Run(request.workflow, "failed", request.folder, dict(request.arguments), ())
            raise RunFailed(_add_resume_hint(str(stop), stopped), stopped, stop.exit_code) from None
    ended = Run.of(result.as_json())
    if not result.succeeded:
        raise RunFailed(_add_resume_hint(result.describe_failure(), ended), ended)
    return ended


def _add_resume_hint(message: str, run: Run) -> str:
    return f"{message}\nin Python: resume({str(run.folder)!r})"
