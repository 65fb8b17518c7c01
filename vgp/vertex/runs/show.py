"""`pipelines show RUN` as a page of text: state, steps, parameters, results, artifacts, errors."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vgp.settings import Settings
from vgp.text.figures import took
from vgp.text.printable import one_line
from vgp.text.times import local
from vgp.vertex import names
from vgp.vertex.runs import outputs as run_outputs
from vgp.vertex.runs import report as run_report
from vgp.vertex.runs import view as run_view
from vgp.vertex.runs.cost import Rows
from vgp.vertex.runs.state import Run

#: Characters of a value; --json has all of them.
_MOST = 70


def page(console: Console, settings: Settings, run: Run, rows: Rows, now: datetime) -> None:
    """Prints everything that is worth reading about the run."""
    run_view.write(console, run_view.headline(run, rows, now))
    for label, text in _facts(settings, run):
        run_view.write(console, Text.assemble((f"{label:<10} ", "dim"), one_line(text)))
    console.print()
    console.print(run_view.table(run, rows, now, width=console.width))
    if run.state == "failed" or run.error:
        console.print()
        run_view.write(console, run_view.failures(run, settings, rows))
    for title, found in (
        ("parameters", _parameters(run)),
        ("metrics", _values(run_outputs.metrics(run))),
        ("outputs", _values(run_outputs.returned(run))),
        ("artifacts", _artifacts(run)),
    ):
        if found:
            console.print()
            console.print(Text(title, "bold"))
            run_view.write(console, Text("\n".join(_columns(found))))


def listing(several: Sequence[Run], now: datetime) -> Table:
    """The table of `pipelines runs`."""
    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    drawn.add_column("run", overflow="fold")
    for title in ("pipeline", "state", "created", "took"):
        drawn.add_column(title, justify="right" if title == "took" else "left", no_wrap=True, overflow="ellipsis")
    for run in several:
        seconds = run.seconds(now) if run.started else None
        pipeline = run.pipeline or run.labels.get("pipeline", "")
        took_ = took(seconds) if seconds is not None else ""
        drawn.add_row(Text(run.id), Text(one_line(pipeline)), run_view.state(run.state), local(run.created), took_)
    return drawn


def _facts(settings: Settings, run: Run) -> Iterator[tuple[str, str]]:
    if run.display_name not in ("", run.id):
        yield "name", run.display_name
    yield "pipeline", run.pipeline
    if run.job.template_uri:
        yield "template", " ".join(filter(None, [run.job.template_uri, run.job.template_metadata.version]))
    if run.job.schedule_name:
        yield "schedule", names.schedule_link(settings, names.short(run.job.schedule_name))
    yield "created", local(run.created)
    yield "account", run.job.service_account
    if run.labels:
        yield "labels", " ".join(f"{key}={value}" for key, value in sorted(run.labels.items()))
    yield "page", names.run_link(settings, run.id)


def _parameters(run: Run) -> list[list[str]]:
    """Those that differ from their default are marked, and show it."""
    found = run_report.parameters(run).items()
    return [
        [
            "*" if each["differs"] else " ",
            name,
            _text(each["value"]),
            f"default {_text(each['default'])}" if each["differs"] else "",
        ]
        for name, each in found
    ]


def _values(values: dict[str, Any]) -> list[list[str]]:
    return [[" ", name, _text(value)] for name, value in values.items()]


def _artifacts(run: Run) -> list[list[str]]:
    return [
        [" ", f"{each.step}.{each.name}", run_outputs.short_type(each.type), each.uri]
        for each in run_outputs.artifacts(run)
    ]


def _columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """The cells under each other; the last one is as long as it is, so that a URI can be copied."""
    clean = [[one_line(cell) for cell in cells] for cells in lines]
    widths = [max(map(cell_len, column)) for column in zip(*clean, strict=True)][:-1]
    return [
        "  ".join(
            [*(set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=False)), cells[-1]]
        ).rstrip()
        for cells in clean
    ]


def _text(value: Any) -> str:
    shown = f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) and value else ""
    return one_line(shown or json.dumps(value, ensure_ascii=False), _MOST)
