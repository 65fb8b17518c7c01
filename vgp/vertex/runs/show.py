"""`vgp show RUN` as a page of text: state, steps, parameters, results, artifacts, errors."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from vgp.base.text.printable import abridged, one_line
from vgp.base.text.times import local
from vgp.settings import Settings
from vgp.vertex import resource_names
from vgp.vertex.runs import ladder_view as ladders
from vgp.vertex.runs import outputs, run_search, run_view
from vgp.vertex.runs.custom_jobs import with_started_if_told
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.run_cost import Rows, machines
from vgp.vertex.runs.run_history import LastRuns

#: Characters of a value; --json has all of them.
_MOST = 70


def look(settings: Settings, reference: str) -> tuple[Run, Rows]:
    """The run that is meant, with the jobs that its steps started, and its machines.

    Raises:
        RequestError: there is no such run.
        WorkFailed: Google refused or could not be reached.
    """
    run = with_started_if_told(settings, run_search.find(settings, reference))
    run = ladders.with_ways_if_told(settings, run)
    return run, machines(run)


def page(
    console: Console, settings: Settings, run: Run, rows: Rows, now: datetime, last: LastRuns | None = None
) -> None:
    """Prints everything that is worth reading about the run, and what the `last` ones cost."""
    run_view.write(console, run_view.headline(run, rows, now))
    if prices := run_view.prices(rows, now):
        run_view.write(console, prices)
    if last:
        run_view.write(console, Text(last.words, "dim"))
    for label, text in _facts(settings, run):
        run_view.write(console, Text.assemble((f"{label:<10} ", "dim"), one_line(text)))
    console.print()
    console.print(run_view.steps(run, rows, now, width=console.width))
    for way in run.ways:
        console.print()
        run_view.write(console, ladders.page(settings, way))
    if run.state == "failed" or run.error:
        console.print()
        run_view.write(console, run_view.failures(run, settings, rows))
    sections = {
        "parameters": _parameters(run),
        "metrics": _values(outputs.metrics(run)),
        "outputs": _values(outputs.returned(run)),
        "artifacts": _artifacts(run),
    }
    for title, lines in sections.items():
        if lines:
            console.print()
            console.print(Text(title, "bold"))
            run_view.write(console, Text("\n".join(_columns(lines))))


def _facts(settings: Settings, run: Run) -> Iterator[tuple[str, str]]:
    if run.display_name not in ("", run.id):
        yield "name", run.display_name
    yield "pipeline", run.pipeline
    if run.job.template_uri:
        yield "template", " ".join(filter(None, [run.job.template_uri, run.job.template_metadata.version]))
    if run.job.schedule_name:
        yield "schedule", resource_names.schedule_link(settings, resource_names.short(run.job.schedule_name))
    yield "created", local(run.created)
    yield "account", run.job.service_account
    if run.labels:
        yield "labels", " ".join(f"{key}={value}" for key, value in sorted(run.labels.items()))
    yield "page", resource_names.run_link(settings, run.id)


def _parameters(run: Run) -> list[list[str]]:
    """Those that differ from their default are marked, and show it."""
    return [
        ["*", name, _text(row["value"]), f"default {_text(row['default'])}"]
        if row["differs"]
        else [" ", name, _text(row["value"]), ""]
        for name, row in outputs.parameters(run).items()
    ]


def _values(values: dict[str, Any]) -> list[list[str]]:
    return [[" ", name, _text(value)] for name, value in values.items()]


def _artifacts(run: Run) -> list[list[str]]:
    return [
        [" ", f"{artifact.step}.{artifact.name}", outputs.short_type(artifact.type), artifact.uri]
        for artifact in outputs.artifacts(run)
    ]


def _columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """The cells under each other. In a table the last one would be folded, and a URI could not be copied."""
    clean = [[one_line(cell) for cell in cells] for cells in lines]
    widths = [max(map(cell_len, column)) for column in zip(*clean, strict=True)][:-1]
    return [
        "  ".join(
            [*(set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=False)), cells[-1]]
        ).rstrip()
        for cells in clean
    ]


def _text(value: Any) -> str:
    value = abridged(value)
    shown = f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) and value else ""
    return one_line(shown or json.dumps(value, ensure_ascii=False), _MOST)
