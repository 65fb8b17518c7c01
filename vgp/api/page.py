"""What a notebook shows of a run: its figures, and its report in a frame of its own."""

from collections.abc import Mapping
from html import escape
from pathlib import Path

#: A larger page is named, not put into the notebook's file.
MOST_BYTES = 4 << 20
FRAME = "width:100%;height:720px;border:1px solid #8884;border-radius:6px"


def html(title: str, told: Mapping[str, object], metrics: Mapping[str, float], report: Path | None) -> str:
    """A run as HTML: what is told of it, its figures, its report. Nothing in it runs: the frame is sandboxed."""
    rows = [(name, str(value)) for name, value in told.items() if value]
    figures = [(name, f"{value:.6g}") for name, value in metrics.items()]
    return f"<div><b>{escape(title)}</b>{_table(rows)}{_metrics(figures)}{_report(report)}</div>"


def _metrics(figures: list[tuple[str, str]]) -> str:
    listed = f"<details><summary>{len(figures)} metrics</summary>{_table(figures)}</details>"
    return listed if figures else ""


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td><td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table>{cells}</table>"


def _report(path: Path | None) -> str:
    if path is None or path.stat().st_size > MOST_BYTES:
        return ""
    page = escape(path.read_text(encoding="utf-8"))
    return f'<details open><summary>report</summary><iframe sandbox srcdoc="{page}" style="{FRAME}"></iframe></details>'
