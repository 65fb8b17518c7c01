"""Starts a run on this machine, goes on with one that was stopped, or opens one that has ended."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vgp.api import run_progress as shown
from vgp.api.parameter_values import in_python, texts
from vgp.api.run import Run, RunFailed, opened
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.protocol import file_names
from vgp.settings import load as load_settings
from vgp.settings import repository_of
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
    """Runs a pipeline here, every step of it, as `vgp run` does, and returns the run once it has succeeded.

    Args:
        pipeline: The name of the workflow.
        parameters: Of the pipeline, by name; `{"training_options.strategy": "fsdp"}` sets a member of one.
        nproc: Training processes; None: one per GPU, or 1.
        nodes: Nodes of a step's own command, all on this machine; None: 1.
        out: The folder for the run's own folder.
        environment: Of the settings file; `settings` is that file, by default the nearest pipelines.toml upward.
        progress: Whether it is shown how far the run is; or what is called with each event of it.
        more: Further parameters of the pipeline: `epochs=3`. A class as `task` stands for its `module:Class`.

    Raises:
        RequestError: the workflow, a parameter or a folder is wrong; nothing was started.
        RunFailed: a step failed, or the run was interrupted; every process has ended, and `resume` goes on.
    """
    given = texts(parameters, more)
    try:
        loaded = load_settings(Path(settings) if settings else None, environment=environment)
        request = local.started(pipeline, given, loaded, Path(out), nproc=nproc, nodes=nodes)
    except RequestError as error:
        raise RequestError(in_python(error)) from None
    return _finished(request, progress)


def resume(
    folder: str | Path,
    *,
    nproc: int | None = None,
    nodes: int | None = None,
    settings: str | Path | None = None,
    progress: bool | Callable[[Event], None] = True,
) -> Run:
    """Goes on with a run that failed or was stopped, with its own parameters, from its last checkpoint.

    With as many processes and nodes as before, unless `nproc` or `nodes` says another number.

    Raises:
        RequestError: the folder holds no run.
        RunFailed: as `run`.
    """
    path = Path(folder)
    try:
        told = json.loads((path / file_names.REQUEST).read_text(encoding="utf-8"))
        request = local.resumed(
            str(told["workflow"]), path, repository_of(Path(settings) if settings else None), nproc=nproc, nodes=nodes
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, RequestError):
            raise RequestError(in_python(error)) from None
        raise RequestError(f"{folder} is not the folder of a run.") from None
    return _finished(request, progress)


def load(folder: str | Path) -> Run:
    """A run that has ended, from its folder.

    Raises:
        RequestError: the folder holds no run that has ended.
    """
    return opened(Path(folder))


def _finished(request: folders.Run, progress: bool | Callable[[Event], None]) -> Run:
    with shown.following(request, progress) as tell:
        try:
            result = local.finished(request, tell)
        except WorkFailed as stop:
            stopped = Run(request.workflow, "failed", request.folder, dict(request.arguments), ())
            raise RunFailed(_with_way_on(str(stop), stopped), stopped, stop.exit_code) from None
    ended = Run.of(result.as_json())
    if not result.succeeded:
        raise RunFailed(_with_way_on(result.failure(), ended), ended)
    return ended


def _with_way_on(message: str, run: Run) -> str:
    return f"{message}\nin Python: resume({str(run.folder)!r})"
