"""What a notebook shows of a run: its figures, and its report in a frame of its own."""

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgp.api.run import Run

#: A larger page is named, not put into the notebook's file.
MOST_BYTES = 4 << 20
FRAME = "width:100%;height:720px;border:1px solid #8884;border-radius:6px"


def html(run: "Run") -> str:
    """The run as HTML. Nothing in it runs: the report's frame is sandboxed."""
    told = [("state", run.state), ("decision", run.decision), ("folder", str(run.folder))]
    told += [("model", str(run.model or "")), ("report", str(run.report or ""))]
    rows = [(name, text) for name, text in told if text]
    figures = [(name, f"{value:.6g}") for name, value in run.metrics.items()]
    return f"<div><b>{escape(run.pipeline)}</b>{_table(rows)}{_metrics(figures)}{_report(run)}</div>"


def _metrics(figures: list[tuple[str, str]]) -> str:
    listed = f"<details><summary>{len(figures)} metrics</summary>{_table(figures)}</details>"
    return listed if figures else ""


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td><td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table>{cells}</table>"


def _report(run: "Run") -> str:
    if run.report is None or run.report.stat().st_size > MOST_BYTES:
        return ""
    page = escape(run.report.read_text(encoding="utf-8"))
    return f'<details open><summary>report</summary><iframe sandbox srcdoc="{page}" style="{FRAME}"></iframe></details>'
