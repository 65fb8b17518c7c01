"""Shows the progress of a run: a live table in a notebook or terminal, lines in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from vgp.workflow.local import display
from vgp.workflow.local.local_folder import Run
from vgp.workflow.local.process import Event

#: Seconds between two updates in a notebook, each of which is sent to the browser.
REDRAW_S = 0.5
MARKS = {"waiting": "·", "running": "▸", "succeeded": "✓", "failed": "✗"}


@contextmanager
def show_progress(run: Run, progress: bool | Callable[[Event], None]) -> Iterator[Callable[[Event], None]]:
    """Yields the function to call with each event of the run."""
    steps = [step.name for step in run.spec.steps]
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda event: None
    elif draw := find_notebook():
        table = Notebook(steps, draw)
        yield table
        table.draw()
    else:
        from rich.console import Console

        with display.Progress(Console(), steps) as lines:
            yield lines


def find_notebook() -> Callable[..., Any] | None:
    """Returns the notebook's `display`, or None outside of a notebook; imports nothing new."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not getattr(shell, "kernel", None):
        return None
    drawing: Callable[..., Any] = sys.modules["IPython.display"].display
    return drawing


class Page:
    """HTML that a notebook shows."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return self.html


class Notebook:
    """A live table of the steps in a notebook; call it with each event."""

    def __init__(self, steps: list[str], draw: Callable[..., Any]) -> None:
        self.states = dict.fromkeys(steps, "waiting")
        self.line, self.since, self.drawn_at = "", dict[str, float](), 0.0
        self.seconds = dict[str, float]()
        self.handle = draw(Page(self.html()), display_id=True)

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if event.kind == "line":
            self.line = event.text if event.step else self.line
        else:
            self.states[event.step] = "running" if event.kind == "started" else event.kind
            self.line = ""
            self.since.setdefault(event.step, now)
            self.seconds[event.step] = now - self.since[event.step]
        if event.kind != "line" or now - self.drawn_at >= REDRAW_S:
            self.draw()

    def draw(self) -> None:
        self.drawn_at = time.monotonic()
        self.handle.update(Page(self.html()))

    def html(self) -> str:
        rows = "".join(
            f"<tr><td>{MARKS.get(state, '?')}</td><td style='text-align:left'>{escape(step)}</td>"
            f"<td>{self._seconds(step, state)}</td>"
            f"<td style='text-align:left'>{escape(self.line) if state == 'running' else ''}</td></tr>"
            for step, state in self.states.items()
        )
        return f"<table>{rows}</table>"

    def _seconds(self, step: str, state: str) -> str:
        if state == "running":
            return f"{time.monotonic() - self.since[step]:.0f} s"
        return f"{self.seconds[step]:.1f} s" if step in self.seconds else ""
