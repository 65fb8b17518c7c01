"""Prints the progress of a local run, as a live table on a terminal or as plain lines, and its result."""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from vgp.base.documents.json_text import JsonView
from vgp.base.text.figures import Cell, table
from vgp.base.text.printable import one_line
from vgp.protocol import placeholders
from vgp.workflow.local.local_run import Result
from vgp.workflow.local.process import Event

_MARKS = {
    "waiting": "[dim]·[/]",
    "succeeded": "[green]✓[/]",
    "reused": "[green]↺[/]",
    "skipped": "[dim]–[/]",
    "failed": "[red]✗[/]",
    "missing": "[red]?[/]",
}
_CHECKSUM = re.compile(r"\b[0-9a-f]{64}\b")


class Progress:
    """A progress display, which is a context manager; call it with each event of the run."""

    def __init__(self, console: Console, steps: Iterable[str]) -> None:
        self.console = console
        self.states = dict.fromkeys(steps, "waiting")
        self.since: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, str] = {}
        self.is_live = console.is_terminal and not console.is_dumb_terminal
        self.live = Live(get_renderable=self.render, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> "Progress":
        if self.is_live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_live:
            self.live.stop()

    def __call__(self, event: Event) -> None:
        if event.kind == "line" and not event.step:
            return
        if event.kind == "line":
            self.lines[event.step] = event.text
        else:
            self.states[event.step] = "running" if event.kind == "started" else event.kind
            now = time.monotonic()
            if event.kind == "started":
                self.since[event.step] = now
            self.seconds[event.step] = now - self.since.get(event.step, now)
        if not self.is_live:
            self._print(event)

    def _print(self, event: Event) -> None:
        if event.kind == "line":
            text = f"{event.step} | {event.text}"
        else:
            took = "" if event.kind == "started" else f" after {self.seconds[event.step]:.1f} s"
            text = f"{event.step}: {event.kind}{took}"
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def render(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        for step, state in self.states.items():
            running = state == "running"
            seconds = time.monotonic() - self.since[step] if running else self.seconds.get(step)
            grid.add_row(
                Spinner("dots") if running else _MARKS.get(state, state),
                escape(step),
                f"{seconds:.0f} s" if seconds is not None else "",
                f"[dim]{escape(self.lines.get(step, ''))}[/]" if running else "",
            )
        return grid


def show(result: Result, console: Console) -> None:
    """Prints the state, seconds and outputs of every step, warnings, the reason of skips, and links to HTML pages."""
    console.print(
        table(
            ("step", "state", "seconds", "outputs"),
            [_render_row(row, result.run.folder) for row in result.as_json()["steps"]],
            right=("seconds",),
        )
    )
    for step in result.steps:
        if placeholders.within(step.parameters):
            console.print(f"warning: an output of {step.name} {placeholders.RULE}", markup=False, soft_wrap=True)
    if result.succeeded:
        if reason := _find_skip_reason(result):
            console.print(f"skipped: {reason}", markup=False, highlight=False, soft_wrap=True)
        for page in sorted(result.run.folder.glob("*.html")):
            console.print(f"{page.stem}: {page.as_uri()}", highlight=False, soft_wrap=True)


def _find_skip_reason(result: Result) -> str:
    """Returns the output `why` of a step if any step was skipped; "" otherwise."""
    if not any(step.state == "skipped" for step in result.steps):
        return ""
    return one_line(next((str(step.parameters["why"]) for step in result.steps if "why" in step.parameters), ""))


def _render_row(row: JsonView, folder: Path) -> tuple[Cell, ...]:
    shown = {name: str(value) for name, value in row["parameters"].items() if _is_short(value)}
    outputs = [f"{name} = {value.removeprefix(f'{folder}/')}" for name, value in shown.items()]
    if row["artifacts"]:
        outputs.append(", ".join(f"{row['step']}/{name}" for name in row["artifacts"]))
    seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f}"
    state = Text.from_markup(f"{_MARKS[row['state']]} {row['state']}")
    return row["step"], state, seconds, "\n".join(outputs)


def _is_short(value: object) -> bool:
    """Whether a person reads the value here; tables and values with a checksum are in run.json only."""
    return value != "" and not isinstance(value, dict | list) and not _CHECKSUM.search(str(value))
