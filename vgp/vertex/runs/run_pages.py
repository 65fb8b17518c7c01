"""The pages about runs: `vgp show RUN`, and `vgp compare RUN RUN` with the runs side by side."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text import times
from vgp.base.text.figures import format_duration, table
from vgp.base.text.printable import one_line, summarise_texts
from vgp.base.text.times import format_local
from vgp.settings import Settings
from vgp.vertex import resource_names
from vgp.vertex.runs import outputs, run_cost, run_search, run_view, step_jobs
from vgp.vertex.runs.remote_run import Run, whole
from vgp.vertex.runs.run_cost import LastRuns, Rows, machines
from vgp.vertex.runs.run_view import state
from vgp.vertex.runs.step_jobs import with_started_if_told

#: Characters of a value on the page of a run, and in a comparison; --json has all of them.
_MOST, _MOST_COMPARED = 70, 60


def look(settings: Settings, reference: str) -> tuple[Run, Rows]:
    """The run that is meant, with the jobs that its steps started, and its machines.

    Raises:
        RequestError: there is no such run.
    """
    run = with_started_if_told(settings, run_search.find(settings, reference))
    run = step_jobs.with_ways_if_told(settings, run)
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
        run_view.write(console, step_jobs.ladder_page(settings, way))
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
    yield "created", format_local(run.created)
    yield "account", run.job.service_account
    if run.labels:
        yield "labels", " ".join(f"{key}={value}" for key, value in sorted(run.labels.items()))
    yield "page", resource_names.run_link(settings, run.id)


def _parameters(run: Run) -> list[list[str]]:
    """Those that differ from their default are marked, and show it."""
    return [
        ["*", name, _shown(row["value"]), f"default {_shown(row['default'])}"]
        if row["differs"]
        else [" ", name, _shown(row["value"]), ""]
        for name, row in outputs.parameters(run).items()
    ]


def _values(values: JsonObject) -> list[list[str]]:
    return [[" ", name, _shown(value)] for name, value in values.items()]


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


def _shown(value: object) -> str:
    value = summarise_texts(value)
    shown = f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) and value else ""
    return one_line(shown or json.dumps(value, ensure_ascii=False), _MOST)


@dataclass(frozen=True)
class Row:
    """One thing, and what it is in each run; None where a run does not have it."""

    section: str
    name: str
    values: tuple[Any, ...]
    #: The values as they are shown, if not as they are.
    shown: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        return len({_key(value) for value in self.values}) > 1

    def as_json(self) -> JsonObject:
        return {"section": self.section, "name": self.name, "values": list(self.values), "differs": self.differs}


def find_runs(settings: Settings, references: Sequence[str]) -> list[Run]:
    """The runs that are meant.

    Raises:
        RequestError: there is no such run.
    """
    return [run_search.find(settings, reference) for reference in references]


def comparison_json(settings: Settings, several: Sequence[Run], rows: Sequence[Row]) -> JsonObject:
    """For --json: the runs with their pages, and every row."""
    links = [{"id": run.id, "url": resource_names.run_link(settings, run.id)} for run in several]
    return {"runs": links, "rows": [row.as_json() for row in rows]}


def comparison_rows(several: Sequence[Run], now: datetime) -> list[Row]:
    """Every row, equal ones too.

    Raises:
        RequestError: the same run is given twice, or only one.
    """
    ids = [run.id for run in several]
    if len(ids) < 2 or len(set(ids)) < len(ids):
        raise RequestError(f"compare needs two or more different runs; given: {', '.join(ids)}.")
    return [
        *_about(several, now),
        *_side_by_side("parameters", [_parameter_values(run) for run in several]),
        *_side_by_side("metrics", [outputs.metrics(run) for run in several]),
        *_side_by_side("outputs", [outputs.returned(run) for run in several]),
    ]


def _digest(spec: Mapping[str, object]) -> str:
    """SHA-256 of the compiled pipeline in one textual form, so that equal pipelines have equal digests."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def comparison(several: Sequence[Run], rows: Sequence[Row], *, all_rows: bool) -> RenderableType:
    """The rows that differ, marked; with `all_rows` the equal ones too."""
    lines: list[list[Text]] = []
    section = ""
    for row in rows:
        if not (row.differs or all_rows):
            continue
        if row.section != section:
            section = row.section
            lines.append([Text(), Text(section, "bold"), *(Text() for _ in several)])
        mark = Text("≠", "yellow") if row.differs else Text("=", "dim")
        lines.append([mark, Text(one_line(row.name)), *_cells(row)])
    below = [
        times.price_dates(
            day
            for row in rows
            if (row.section, row.name) == ("run", "price_dates")
            for days in row.values
            for day in days
        )
    ]
    equal = sum(not row.differs for row in rows)
    below += [] if all_rows or not equal else [f"{equal} rows are equal: --all"]
    shown = table(("", "", *(run.id for run in several)), lines, gap=2)
    return Group(shown, *(Text(text, "dim") for text in below if text))


def _about(several: Sequence[Run], now: datetime) -> list[Row]:
    machines = [run_cost.machines(run) for run in several]
    costs = [run_cost.sum_costs(run, each, now) for run, each in zip(several, machines, strict=True)]
    days = [run_cost.price_dates(each) for each in machines]
    seconds = [run.seconds(now) for run in several]
    versions = [
        run.job.template_metadata.version.removeprefix("sha256:") or _digest(run.spec.content) for run in several
    ]
    shown = tuple("" if value is None else format_duration(value) for value in seconds)
    return [
        Row("run", "state", tuple(run.state for run in several)),
        Row("run", "pipeline", tuple(run.pipeline for run in several)),
        Row("run", "template", tuple(versions), tuple(version[:12] for version in versions)),
        Row("run", "seconds", tuple(None if value is None else round(value, 1) for value in seconds), shown),
        Row("run", "usd", tuple(round(amount.usd, 4) for amount in costs), tuple(map(str, costs))),
        Row("run", "price_dates", tuple(days), tuple(", ".join(each) for each in days)),
    ]


def _parameter_values(run: Run) -> JsonObject:
    return {name: row["value"] for name, row in outputs.parameters(run).items()}


def _side_by_side(section: str, several: Sequence[JsonObject]) -> list[Row]:
    keys = dict.fromkeys(name for values in several for name in sorted(values))
    return [Row(section, name, tuple(values.get(name) for values in several)) for name in keys]


def _cells(row: Row) -> list[Text]:
    if row.section == "run" and row.name == "state":
        return [state(value) for value in row.values]
    shown = row.shown or tuple("–" if value is None else _shown(value) for value in row.values)
    return [Text(one_line(text, _MOST_COMPARED), "" if row.differs else "dim") for text in shown]


def _key(value: object) -> str:
    """1 and 1.0 are one value, true and 1 are two."""
    return json.dumps(whole(value), sort_keys=True)
