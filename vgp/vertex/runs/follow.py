"""Following a run until it ends, by a live table or a line for each change, and cancelling it.

Nothing is remembered but the run's name: killed and started again, it goes on where the run is. Losing the network
or pressing Ctrl-C changes nothing about the run.
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
from vgp.protocol.capacity.ladder_view import Way
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.patient_reads import Patience
from vgp.vertex.runs import outputs, run_cost, run_search, run_view
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.run_cost import Rows
from vgp.vertex.runs.step_jobs import with_started_if_told, with_ways_if_told

EXIT_CODES = {"succeeded": 0, "failed": 1, "cancelled": 3}
#: As timeout(1) and a shell have them.
TIMED_OUT, DETACHED = 124, 130
#: Seconds between two looks: after a change, and the longest; and after how long a log gets a line anyway.
FIRST_S, LONGEST_S, SILENCE_S = 3.0, 30.0, 600.0
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@dataclass(frozen=True)
class Outcome:
    """How the waiting ended. `result` is what --json prints."""

    exit_code: int
    result: JsonObject


class _Late(Exception):
    """The time to wait is over."""


def follow(
    settings: Settings,
    reference: str,
    console: Console,
    *,
    timeout_s: float | None = None,
    clock: Clock | None = None,
) -> Outcome:
    """Shows the run until it ends, and returns its exit status: 0 succeeded, 1 failed, 3 cancelled, 124 still running
    after `timeout_s`, 130 Ctrl-C. The run itself is never touched. `reference` is whatever search.find takes.

    Raises:
        RequestError: there is no such run.
        WorkFailed: Google refuses the request (not found, not allowed); lost connections are retried.
    """
    clock = clock or Clock()
    deadline = clock.now() + timeout_s if timeout_s is not None else None

    def until() -> None:
        if deadline is not None and clock.now() >= deadline:
            raise _Late

    display = Display(console, clock, until)
    try:
        with explained(f"follow {resource_names.short(reference)}", settings), display:
            _watch(settings, reference, display, until)
        code = EXIT_CODES[display.run.state] if display.run else 1
    except (KeyboardInterrupt, _Late) as reason:
        code = TIMED_OUT if isinstance(reason, _Late) else DETACHED
        run_view.write(console, _left(display.run.id if display.run else reference, code, timeout_s))
    else:
        _conclude(settings, display, console)
    result = (
        outputs.report_json(settings, display.run, display.rows, clock.moment()) if display.run else {"name": reference}
    )
    return Outcome(code, {**result, "exit_code": code})


def _watch(settings: Settings, reference: str, display: "Display", until: Callable[[], None]) -> None:
    client = clients.pipeline_service(settings)
    job = display.patience(lambda: run_search.look_for(settings, reference, calls=clients.once))
    name, wait = job.name, FIRST_S
    while True:
        changed = display.update(with_ways_if_told(settings, read(job)))
        if display.run and display.run.over:
            return
        wait = FIRST_S if changed else min(1.4 * wait, LONGEST_S)
        until()
        display.clock.sleep(wait)
        until()
        job = display.patience(lambda: client.get_pipeline_job(name=name, **clients.once()))


class Display:
    """What a person sees meanwhile. A context manager, so that the terminal is put right again."""

    def __init__(self, console: Console, clock: Clock, until: Callable[[], None] = lambda: None) -> None:
        self.console, self.clock = console, clock
        self.patience = Patience(self.line, clock, until)
        self.run: Run | None = None
        self.rows: Rows = {}
        self.seen: dict[str, str] = {}
        self.spoke = clock.moment()
        self.is_live = console.is_terminal and not console.is_dumb_terminal
        self.live = Live(get_renderable=self.drawn, console=console, refresh_per_second=4, transient=True)

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
        """Takes a new look at the run; whether anything changed."""
        self.rows = self.rows or run_cost.machines(run)
        now = {step.name: f"{step.state} {step.tries} {step.retrying}" for step in run.steps} | {"": run.state}
        now |= {f"{way.step} ": _way(way) for way in run.ways}
        changed = [name for name, state in now.items() if self.seen.get(name, "waiting 0 ") != state]
        self.run, self.seen = run, now
        if not self.is_live:
            self._tell(run, changed)
        return bool(changed)

    def line(self, text: str) -> None:
        """A line that stays; on a terminal above the table."""
        self.spoke = self.clock.moment()
        run_view.write(self.console, f"{self.spoke.astimezone():%H:%M:%S}  {text}")

    def drawn(self) -> RenderableType:
        if self.run is None:
            return Text.assemble("looking for the run", (f"  {self.patience.note}", "yellow"))
        now = self.clock.moment()
        head = run_view.headline(self.run, self.rows, now)
        size = self.console.size
        steps = run_view.steps(self.run, self.rows, now, width=size.width - 1, room=max(3, size.height - 6))
        foot = (
            Text(self.patience.note, "yellow") if self.patience.note else Text("Ctrl-C leaves; the run goes on", "dim")
        )
        head = Text(_FRAMES[int(8 * time.monotonic()) % len(_FRAMES)] + " ").append_text(head)
        for text in (head, foot):
            text.truncate(size.width - 1, overflow="ellipsis")
        return Group(head, steps, foot)

    def _tell(self, run: Run, changed: list[str]) -> None:
        now = self.clock.moment()
        for step in run.steps:
            if step.name in changed and step.state != "waiting":
                self.line(run_view.change(step, self.rows, now))
        for way in run.ways:
            if f"{way.step} " in changed:
                self.line(one_line(f"{way.step}, {_way(way)}", 500))
        if "" in changed or (now - self.spoke).total_seconds() > SILENCE_S:
            self.line(run_view.headline(run, self.rows, now).plain)


def _way(way: Way) -> str:
    """The last attempt at a ladder: `attempt 3 on 8xA100 in europe-west4: running`."""
    if not way.attempts:
        return "no attempt yet"
    last = way.attempts[-1]
    why = f", {last.words}" if last.outcome and last.words else ""
    return f"attempt {last.number} on {last.rung} in {last.region}: {last.state}{why}"


def _conclude(settings: Settings, display: Display, console: Console) -> None:
    run, now = display.run, display.clock.moment()
    assert run
    console.print(run_view.steps(run, display.rows, now, width=console.width))
    run_view.write(console, run_view.headline(run, display.rows, now))
    if prices := run_view.prices(display.rows, now):
        run_view.write(console, prices)
    if run.state != "succeeded":
        run_view.write(console, run_view.failures(with_started_if_told(settings, run), settings, display.rows))
    run_view.write(console, resource_names.run_link(settings, run.id))


def _left(run_id: str, code: int, timeout_s: float | None) -> str:
    why = f"not over after {format_duration(timeout_s or 0)}" if code == TIMED_OUT else "left"
    return f"{why}; the run continues.\n  Follow it again: vgp wait {run_id}\n  End it:          vgp cancel {run_id}"


def cancel(settings: Settings, reference: str) -> tuple[Run, bool]:
    """The run, and whether this call asked for its end. `latest` is refused: it may be another user's run by now.

    Raises:
        RequestError: there is no such run.
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
    with explained(f"cancel {run.id}", settings):
        try:
            client.cancel_pipeline_job(name=run.name, **clients.reading())
        except BadRequest:  # FAILED_PRECONDITION over HTTP: it ended between the two calls
            now = read(client.get_pipeline_job(name=run.name, **clients.reading()))
            if not now.over and now.state != "cancelling":
                raise
            return now, False
        return read(client.get_pipeline_job(name=run.name, **clients.reading())), True


def cancelled_json(settings: Settings, run: Run, asked: bool) -> JsonObject:
    """For --json: the run, and whether this call asked for its end."""
    link = resource_names.run_link(settings, run.id)
    return {"id": run.id, "name": run.name, "state": run.state, "asked": asked, "url": link}
