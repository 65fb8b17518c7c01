"""`vgp wait`: follows a run until it ends, with a live table, or a line for each change. `vgp cancel`: cancels a run.

The command only reads the run: it can be killed and started again, and neither Ctrl-C nor a lost connection affects
the run.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from vgp.base.clock import Clock
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.figures import format_duration
from vgp.base.text.printable import one_line
from vgp.protocol.capacity.ladder_view import LadderView
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.patient_reads import Patience
from vgp.vertex.runs import outputs, run_cost, run_search, run_view
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.run_cost import Rows
from vgp.vertex.runs.step_jobs import with_ladders_if_allowed, with_started_jobs_if_allowed

EXIT_CODES = {"succeeded": 0, "failed": 1, "cancelled": 3}
#: The exit codes of timeout(1), and of a shell after Ctrl-C.
TIMED_OUT, DETACHED = 124, 130
#: Seconds between two polls after a change, and at most; and without a line in the log, until it gets one anyway.
FIRST_S, LONGEST_S, SILENCE_S = 3.0, 30.0, 600.0
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@dataclass(frozen=True)
class Outcome:
    """The exit code of `vgp wait`, and its output for --json."""

    exit_code: int
    result: JsonObject


class _Late(Exception):
    """The timeout of `vgp wait` has passed."""


def follow(
    settings: Settings,
    reference: str,
    console: Console,
    *,
    timeout_s: float | None = None,
    clock: Clock | None = None,
) -> Outcome:
    """Shows the run until it ends.

    The exit code is 0 if the run succeeded, 1 if it failed, 3 if it was cancelled, 124 if it is still active after
    `timeout_s`, and 130 after Ctrl-C.

    Args:
        reference: The run, as for `run_search.find`.

    Raises:
        RequestError: there is no such run.
        WorkFailed: Google refuses the request (not found, not allowed); lost connections are retried.
    """
    clock = clock or Clock()
    deadline = clock.now() + timeout_s if timeout_s is not None else None

    def stop_if_late() -> None:
        if deadline is not None and clock.now() >= deadline:
            raise _Late

    display = Display(console, clock, stop_if_late)
    try:
        with explain_errors(f"follow {resource_names.short(reference)}", settings), display:
            _watch(settings, reference, display, stop_if_late)
        code = EXIT_CODES[display.run.state] if display.run else 1
    except (KeyboardInterrupt, _Late) as reason:
        code = TIMED_OUT if isinstance(reason, _Late) else DETACHED
        run_view.write(console, _describe_exit(display.run.id if display.run else reference, code, timeout_s))
    else:
        _print_end(settings, display, console)
    result = (
        outputs.report_json(settings, display.run, display.rows, clock.moment()) if display.run else {"name": reference}
    )
    return Outcome(code, {**result, "exit_code": code})


def _watch(settings: Settings, reference: str, display: "Display", stop_if_late: Callable[[], None]) -> None:
    client = clients.pipeline_service(settings)
    job = display.patience(lambda: run_search.find_job(settings, reference, calls=clients.once))
    name, pause = job.name, FIRST_S
    while True:
        has_changed = display.update(with_ladders_if_allowed(settings, read(job)))
        if display.run and display.run.over:
            return
        pause = FIRST_S if has_changed else min(1.4 * pause, LONGEST_S)
        stop_if_late()
        display.clock.sleep(pause)
        stop_if_late()
        job = display.patience(lambda: client.get_pipeline_job(name=name, **clients.once()))


class Display:
    """The live table of a run on a terminal, or the log of its changes. A context manager, to restore the terminal.

    Args:
        stop: Called before each retry after a lost connection; ends the wait by raising an exception.
    """

    def __init__(self, console: Console, clock: Clock, stop: Callable[[], None] = lambda: None) -> None:
        self.console, self.clock = console, clock
        self.patience = Patience(self.log, clock, stop)
        self.run: Run | None = None
        self.rows: Rows = {}
        #: The last state of each step and ladder, and of the run under an empty name.
        self.states: dict[str, str] = {}
        self.logged_at = clock.moment()
        self.is_live = console.is_terminal and not console.is_dumb_terminal
        self.live = Live(get_renderable=self.render, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> "Display":
        if self.is_live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_live:
            self.live.stop()

    def update(self, run: Run) -> bool:
        """Shows a new state of the run; returns whether it differs from the last one."""
        self.rows = self.rows or run_cost.list_machines(run)
        states = {step.name: f"{step.state} {step.tries} {step.retrying}" for step in run.steps} | {"": run.state}
        states |= {f"{way.step} ": _describe_attempt(way) for way in run.ways}
        changed = [name for name, state in states.items() if self.states.get(name, "waiting 0 ") != state]
        self.run, self.states = run, states
        if not self.is_live:
            self._log_changes(run, changed)
        return bool(changed)

    def log(self, text: str) -> None:
        """Prints a line with the time; on a terminal, above the live table."""
        self.logged_at = self.clock.moment()
        run_view.write(self.console, f"{self.logged_at.astimezone():%H:%M:%S}  {text}")

    def render(self) -> RenderableType:
        if self.run is None:
            return Text.assemble("looking for the run", (f"  {self.patience.note}", "yellow"))
        now = self.clock.moment()
        head = run_view.render_headline(self.run, self.rows, now)
        size = self.console.size
        steps = run_view.render_steps(self.run, self.rows, now, width=size.width - 1, max_lines=max(3, size.height - 6))
        foot = (
            Text(self.patience.note, "yellow") if self.patience.note else Text("Ctrl-C leaves; the run goes on", "dim")
        )
        head = Text(_FRAMES[int(8 * time.monotonic()) % len(_FRAMES)] + " ").append_text(head)
        for text in (head, foot):
            text.truncate(size.width - 1, overflow="ellipsis")
        return Group(head, steps, foot)

    def _log_changes(self, run: Run, changed: list[str]) -> None:
        now = self.clock.moment()
        for step in run.steps:
            if step.name in changed and step.state != "waiting":
                self.log(run_view.describe_step(step, self.rows, now))
        for way in run.ways:
            if f"{way.step} " in changed:
                self.log(one_line(f"{way.step}, {_describe_attempt(way)}", 500))
        if "" in changed or (now - self.logged_at).total_seconds() > SILENCE_S:
            self.log(run_view.render_headline(run, self.rows, now).plain)


def _describe_attempt(ladder: LadderView) -> str:
    """Returns the last attempt of a ladder: `attempt 3 on 8xA100 in europe-west4: running`."""
    if not ladder.attempts:
        return "no attempt yet"
    last = ladder.attempts[-1]
    why = f", {last.words}" if last.outcome and last.words else ""
    return f"attempt {last.number} on {last.rung} in {last.region}: {last.state}{why}"


def _print_end(settings: Settings, display: Display, console: Console) -> None:
    run, now = display.run, display.clock.moment()
    assert run
    console.print(run_view.render_steps(run, display.rows, now, width=console.width))
    run_view.write(console, run_view.render_headline(run, display.rows, now))
    if prices := run_view.render_price_dates(display.rows, now):
        run_view.write(console, prices)
    if run.state != "succeeded":
        with_jobs = with_started_jobs_if_allowed(settings, run)
        run_view.write(console, run_view.render_failures(with_jobs, settings, display.rows))
    run_view.write(console, resource_names.run_link(settings, run.id))


def _describe_exit(run_id: str, code: int, timeout_s: float | None) -> str:
    why = f"not over after {format_duration(timeout_s or 0)}" if code == TIMED_OUT else "left"
    return f"{why}; the run continues.\n  Follow it again: vgp wait {run_id}\n  End it:          vgp cancel {run_id}"


def cancel(settings: Settings, reference: str) -> tuple[Run, bool]:
    """Cancels a run that has not ended; returns the run, and whether this call has requested the cancellation.

    Raises:
        RequestError: there is no such run, or `reference` is `latest`, which may be the run of another user by now.
    """
    from google.api_core.exceptions import BadRequest

    if run_search.is_latest(reference):
        raise RequestError(
            f"cancel {reference}: give the id of the run, so that no other run is cancelled. List ids: vgp runs."
        )
    run = run_search.find(settings, reference)
    if run.over or run.state == "cancelling":
        return run, False
    client = clients.pipeline_service(settings)
    with explain_errors(f"cancel {run.id}", settings):
        try:
            client.cancel_pipeline_job(name=run.name, **clients.reading())
        except BadRequest:  # FAILED_PRECONDITION over HTTP: it ended between the two calls
            latest = read(client.get_pipeline_job(name=run.name, **clients.reading()))
            if not latest.over and latest.state != "cancelling":
                raise
            return latest, False
        return read(client.get_pipeline_job(name=run.name, **clients.reading())), True


def cancellation_json(settings: Settings, run: Run, requested: bool) -> JsonObject:
    """Returns the result of `cancel` for --json."""
    link = resource_names.run_link(settings, run.id)
    return {"id": run.id, "name": run.name, "state": run.state, "asked": requested, "url": link}
