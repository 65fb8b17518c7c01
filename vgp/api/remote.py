"""Runs on Vertex AI from Python: started once, and waited for, as `vgp submit` and `vgp wait` do."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgp.api.parameter_values import in_python, texts
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.settings import load as load_settings

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class RemoteRun:
    """A run on Vertex AI, as it was when it was last looked at."""

    #: What the command tells of it with --json: id, url, state, and after `wait` also metrics, decision, usd, steps.
    told: JsonObject
    settings: Settings = field(repr=False, compare=False)

    @property
    def id(self) -> str:
        return str(self.told["id"])

    @property
    def url(self) -> str:
        """Of its page in the console."""
        return str(self.told["url"])

    @property
    def state(self) -> str:
        """pending, running, succeeded, failed, cancelled, ..."""
        return str(self.told["state"]).removeprefix("PIPELINE_STATE_").lower()

    @property
    def started(self) -> bool:
        """Whether this call started it; else it is the run that stands for the same request."""
        return bool(self.told.get("started", False))

    def wait(self, timeout_s: float | None = None, *, progress: bool = True) -> "RemoteRun":
        """The run once it has succeeded. Interrupting or losing the connection changes nothing about the run.

        Raises:
            WorkFailed: it failed or was cancelled, with what Google tells.
            TimeoutError: it is not over after `timeout_s`; it goes on.
            KeyboardInterrupt: the waiting was interrupted; it goes on.
        """
        from vgp.vertex.runs import follow

        shown = _console(progress)
        outcome = follow.follow(self.settings, str(self.told["name"]), shown, timeout_s=timeout_s)
        if outcome.exit_code == follow.TIMED_OUT:
            raise TimeoutError(f"{self.id} is not over after {timeout_s:g} s, and goes on: {self.url}")
        if outcome.exit_code == follow.DETACHED:
            raise KeyboardInterrupt
        ended = RemoteRun({**self.told, **outcome.result, "started": self.started}, self.settings)
        if outcome.exit_code:
            raise WorkFailed(f"{self.id} {ended.state}: {ended._why()}\n{self.url}")
        return ended

    def _why(self) -> str:
        """What its steps failed with, or what Google says of the whole."""
        steps = [f"{step['step']}: {step['error']}" for step in self.told["steps"] if step["error"]]
        return "\n".join(steps) or str(self.told.get("error") or "no reason was given")


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
    """Starts a run on Vertex AI, or finds the one that stands for the same request, as `vgp submit` does.

    Args:
        pipeline: The name of the workflow; `parameters` and `more` are its parameters, as of `run`.
        template: An uploaded version instead of the local pipeline.
        key: A name that tells the request apart, of which there is one run then.
        max_usd: Nothing is started if the run can cost more.
        environment: Of the settings file; `settings` is that file, by default the nearest pipelines.toml upward.
        progress: Whether it is shown what is done.

    Raises:
        RequestError: the pipeline, a parameter or a setting is wrong; nothing was started.
        WorkFailed: Google refused, or could not be reached.
    """
    from vgp.vertex.runs import run_submission

    given = texts(parameters, more)
    options = run_submission.Options(template=template, key=key, max_usd=max_usd)
    try:
        loaded = load_settings(Path(settings) if settings else None, environment=environment)
        told = run_submission.submit(pipeline, given, settings=loaded, options=options, console=_console(progress))
    except RequestError as error:
        raise RequestError(in_python(error)) from None
    return RemoteRun(told, loaded)


def _console(shown: bool) -> "Console":
    from rich.console import Console

    terminal = Console() if shown else Console(file=io.StringIO())
    return terminal if terminal.is_terminal else Console(file=terminal.file, width=200)
