"""What a person sees of a local run: a live table on a terminal, plain lines elsewhere, and the result."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from vgp.local.execution import Event, Run
from vgp.local.proof import Step
from vgp.text.table import table

_MARKS = {
    "waiting": "[dim]·[/]",
    "succeeded": "[green]✓[/]",
    "reused": "[green]↺[/]",
    "skipped": "[dim]–[/]",
    "failed": "[red]✗[/]",
    "missing": "[red]?[/]",
}


class Progress:
    """Follows the events of a run. A context manager; call it with each event."""

    def __init__(self, console: Console, steps: Iterable[str]) -> None:
        self.console = console
        self.states = dict.fromkeys(steps, "waiting")
        self.since: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, str] = {}
        self.is_live = console.is_terminal and not console.is_dumb_terminal
        self.live = Live(get_renderable=self.table, console=console, refresh_per_second=8, transient=True)

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

    def table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for step, state in self.states.items():
            running = state == "running"
            seconds = time.monotonic() - self.since[step] if running else self.seconds.get(step)
            table.add_row(
                Spinner("dots") if running else _MARKS.get(state, state),
                escape(step),
                f"{seconds:.0f} s" if seconds is not None else "",
                f"[dim]{escape(self.lines.get(step, ''))}[/]" if running else "",
            )
        return table


def result_table(run: Run, steps: Iterable[Step]) -> Table:
    """Every step with its state, seconds and outputs."""
    lines: list[tuple[str | Text, ...]] = []
    for step in steps:
        row = as_json(run, step)
        outputs = [f"{name} = {value}" for name, value in row["parameters"].items()]
        outputs += [f"{step.name}/{name}" for name in row["artifacts"]]
        seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f}"
        state = Text.from_markup(f"{_MARKS[row['state']]} {row['state']}")
        lines.append((step.name, state, seconds, "\n".join(outputs)))
    return table(("step", "state", "seconds", "outputs"), lines, right=("seconds",))


def as_json(run: Run, step: Step) -> dict[str, Any]:
    """A step's row of `run.json`."""
    failed = step.state == "missing" and step.name.rsplit("/", 1)[-1] == run.failed
    waiting = step.state == "missing" and bool(run.failed) and not failed
    seconds = run.seconds.get(step.name.rsplit("/", 1)[-1]) if step.state == "succeeded" or failed else None
    return {
        "step": step.name,
        "state": "failed" if failed else "waiting" if waiting else step.state,
        "seconds": None if seconds is None else round(seconds, 3),
        "parameters": dict(step.parameters),
        "artifacts": {name: _shorter(uri, run.folder) for name, uri in step.artifacts.items()},
    }


def _shorter(uri: str, folder: Path) -> str:
    return os.path.relpath(uri, folder) if uri.startswith(str(folder)) else uri
