"""Starts runs on Vertex AI from Python and waits for them, as `vgp submit` and `vgp wait` do."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgp.api.parameter_values import format_parameters, translate_options
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.settings import load as load_settings

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class RemoteRun:
    """A run on Vertex AI, with its last known state."""

    #: The command's --json output: id, url, state, and after `wait` also metrics, decision, usd, steps.
    result: JsonObject
    settings: Settings = field(repr=False, compare=False)

    @property
    def id(self) -> str:
        return str(self.result["id"])

    @property
    def url(self) -> str:
        """Returns the URL of the run's page in the console."""
        return str(self.result["url"])

    @property
    def state(self) -> str:
        """Returns the last known state: pending, running, succeeded, failed, cancelled, ..."""
        return str(self.result["state"]).removeprefix("PIPELINE_STATE_").lower()

    @property
    def started(self) -> bool:
        """Whether `submit` started the run; False if the request had an open run already."""
        return bool(self.result.get("started", False))

    def wait(self, timeout_s: float | None = None, *, progress: bool = True) -> "RemoteRun":
        """Waits until the run has succeeded and returns it. Interrupting the wait does not affect the run.

        Raises:
            WorkFailed: the run failed or was cancelled; the message holds Google's error.
            TimeoutError: the run is still active after `timeout_s` seconds and continues.
            KeyboardInterrupt: the wait was interrupted; the run continues.
        """
        from vgp.vertex.runs import follow

        console = _open_console(progress)
        outcome = follow.follow(self.settings, str(self.result["name"]), console, timeout_s=timeout_s)
        if outcome.exit_code == follow.TIMED_OUT:
            raise TimeoutError(f"{self.id} is still active after {timeout_s:g} s and continues: {self.url}")
        if outcome.exit_code == follow.DETACHED:
            raise KeyboardInterrupt
        ended = RemoteRun({**self.result, **outcome.result, "started": self.started}, self.settings)
        if outcome.exit_code:
            raise WorkFailed(f"{self.id} {ended.state}: {ended._describe_failure()}\n{self.url}")
        return ended

    def _describe_failure(self) -> str:
        """Returns the errors of the failed steps, or Google's error of the run."""
        steps = [f"{step['step']}: {step['error']}" for step in self.result["steps"] if step["error"]]
        return "\n".join(steps) or str(self.result.get("error") or "no reason was given")


def submit(
    pipeline: str = "training",
    parameters: JsonObject | None = None,
    *,
    template: str | None = None,
    key: str | None = None,
    max_usd: float | None = None,
    environment: str | None = None,
    settings: str | Path | None = None,
    progress: bool = True,
    **more: Any,
) -> RemoteRun:
    """Starts a run on Vertex AI, or returns the open run of the same request, as `vgp submit` does.

    Args:
        pipeline: Name of the workflow; `parameters` and `more` are its parameters, as for `run`.
        template: An uploaded version to start instead of the local pipeline.
        key: A name for the request; a repeated key returns its run.
        max_usd: Refuses a run that can cost more.
        environment: Environment in the settings file `settings`, by default the nearest pipelines.toml upward.
        progress: Whether to print progress.

    Raises:
        RequestError: the pipeline, a parameter or a setting is invalid; nothing was started.
        WorkFailed: Google refused the request or could not be reached.
    """
    from vgp.vertex.runs import run_submission

    values = format_parameters(parameters, more)
    options = run_submission.Options(template=template, key=key, max_usd=max_usd)
    try:
        loaded = load_settings(Path(settings) if settings else None, environment=environment)
        console = _open_console(progress)
        result = run_submission.submit(pipeline, values, settings=loaded, options=options, console=console)
    except RequestError as error:
        raise RequestError(translate_options(error)) from None
    return RemoteRun(result, loaded)


def _open_console(is_visible: bool) -> "Console":
    from rich.console import Console

    terminal = Console() if is_visible else Console(file=io.StringIO())
    return terminal if terminal.is_terminal else Console(file=terminal.file, width=200)
