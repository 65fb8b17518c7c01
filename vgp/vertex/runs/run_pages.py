"""`vgp show RUN`: the page of a run. `vgp compare RUN RUN`: several runs side by side."""

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
from vgp.vertex.runs import outputs, run_cost, run_overhead, run_search, run_view, step_jobs
from vgp.vertex.runs.pipeline_job import drop_schedule_time
from vgp.vertex.runs.remote_run import Run, restore_integers
from vgp.vertex.runs.run_cost import LastRuns, Rows, list_machines
from vgp.vertex.runs.run_view import render_state

#: The most characters of a value on the page of a run, and in a comparison; --json has whole values.
_MAX_LENGTH, _MAX_LENGTH_COMPARED = 70, 60


def find_run(settings: Settings, reference: str) -> tuple[Run, Rows]:
    """Returns the run with the jobs that its steps started and its ladders, and its machines.

    Raises:
        RequestError: there is no such run.
    """
    run = step_jobs.with_started_jobs_if_allowed(settings, run_search.find(settings, reference))
    run = step_jobs.with_ladders_if_allowed(settings, run)
    return run, list_machines(run)


def print_page(
    console: Console, settings: Settings, run: Run, rows: Rows, now: datetime, last: LastRuns | None = None
) -> None:
    """Prints the page of `vgp show`: state, cost, steps, errors, parameters and outputs of a run.

    Args:
        last: The costs of the last runs of the pipeline.
    """
    run_view.write(console, run_view.render_headline(run, rows, now))
    if prices := run_view.render_price_dates(rows, now):
        run_view.write(console, prices)
    if last:
        run_view.write(console, Text(last.words, "dim"))
    for label, text in _list_facts(settings, run):
        run_view.write(console, Text.assemble((f"{label:<10} ", "dim"), one_line(text)))
    console.print()
    console.print(run_view.render_steps(run, rows, now, width=console.width))
    for way in run.ways:
        console.print()
        run_view.write(console, step_jobs.render_ladder(settings, way))
    if run.state == "failed" or run.error:
        console.print()
        run_view.write(console, run_view.render_failures(run, settings, rows))
    sections = {
        "parameters": _parameter_lines(run),
        "metrics": _list_value_lines(outputs.metrics(run)),
        "outputs": _list_value_lines(outputs.return_values(run)),
        "artifacts": _list_artifact_lines(run),
    }
    for title, lines in sections.items():
        if lines:
            console.print()
            console.print(Text(title, "bold"))
            run_view.write(console, Text("\n".join(_align(lines))))


def _list_facts(settings: Settings, run: Run) -> Iterator[tuple[str, str]]:
    if run.display_name not in ("", run.id):
        yield "name", run.display_name
    yield "pipeline", run.pipeline
    if run.job.template_uri:
        yield "template", " ".join(filter(None, [run.job.template_uri, run.job.template_metadata.version]))
    if run.job.schedule_name:
        yield "schedule", resource_names.schedule_link(settings, resource_names.short(run.job.schedule_name))
    yield "created", format_local(run.created)
    if (overhead := run_overhead.measure(run)) is not None:
        yield "overhead", f"{format_duration(overhead)} with no step running"
    yield "account", run.job.service_account
    if run.labels:
        yield "labels", " ".join(f"{key}={value}" for key, value in sorted(run.labels.items()))
    yield "page", resource_names.run_link(settings, run.id)


def _parameter_lines(run: Run) -> list[list[str]]:
    """Returns the cells of each parameter, with `*` and the default if the value is not the default."""
    return [
        ["*", name, _format(row["value"]), f"default {_format(row['default'])}"]
        if row["differs"]
        else [" ", name, _format(row["value"]), ""]
        for name, row in outputs.parameters(run).items()
    ]


def _list_value_lines(values: JsonObject) -> list[list[str]]:
    return [[" ", name, _format(value)] for name, value in values.items()]


def _list_artifact_lines(run: Run) -> list[list[str]]:
    return [
        [" ", f"{artifact.step}.{artifact.name}", outputs.short_type(artifact.type), artifact.uri]
        for artifact in outputs.artifacts(run)
    ]


def _align(lines: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines with aligned cells. A rich table would fold the last cell, and its URI could not be copied."""
    clean = [[one_line(cell) for cell in cells] for cells in lines]
    widths = [max(map(cell_len, column)) for column in zip(*clean, strict=True)][:-1]
    return [
        "  ".join(
            [*(set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=False)), cells[-1]]
        ).rstrip()
        for cells in clean
    ]


def _format(value: object) -> str:
    value = summarise_texts(value)
    text = f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) and value else ""
    return one_line(text or json.dumps(value, ensure_ascii=False), _MAX_LENGTH)


@dataclass(frozen=True)
class Row:
    """A row of a comparison: a parameter, metric or fact, with its value in each run."""

    section: str
    name: str
    #: None for a run without the parameter or metric.
    values: tuple[Any, ...]
    #: The values as text, if `_format` does not fit.
    texts: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        return len({_key(value) for value in self.values}) > 1

    def as_json(self) -> JsonObject:
        return {"section": self.section, "name": self.name, "values": list(self.values), "differs": self.differs}


def find_runs(settings: Settings, references: Sequence[str]) -> list[Run]:
    """Returns the run of each reference.

    Raises:
        RequestError: there is no run for one of them.
    """
    return [run_search.find(settings, reference) for reference in references]


def comparison_json(settings: Settings, runs: Sequence[Run], rows: Sequence[Row]) -> JsonObject:
    """Returns the comparison for --json: links to the runs, and all rows."""
    links = [{"id": run.id, "url": resource_names.run_link(settings, run.id)} for run in runs]
    return {"runs": links, "rows": [row.as_json() for row in rows]}


def comparison_rows(runs: Sequence[Run], now: datetime) -> list[Row]:
    """Returns all rows of a comparison, also those with equal values.

    Raises:
        RequestError: there is only one run, or one of them twice.
    """
    ids = [run.id for run in runs]
    if len(ids) < 2 or len(set(ids)) < len(ids):
        raise RequestError(f"compare needs two or more different runs; given: {', '.join(ids)}.")
    return [
        *_list_fact_rows(runs, now),
        *_list_value_rows("parameters", [_read_parameter_values(run) for run in runs]),
        *_list_value_rows("metrics", [outputs.metrics(run) for run in runs]),
        *_list_value_rows("outputs", [outputs.return_values(run) for run in runs]),
    ]


def _digest(spec: Mapping[str, object]) -> str:
    """Returns the SHA-256 of the compiled pipeline as canonical JSON, equal for a run with and without a schedule."""
    text = json.dumps(drop_schedule_time({"pipelineSpec": spec}), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def render_comparison(runs: Sequence[Run], rows: Sequence[Row], *, all_rows: bool) -> RenderableType:
    """Renders the rows with different values, or all rows."""
    lines: list[list[Text]] = []
    section = ""
    for row in rows:
        if not (row.differs or all_rows):
            continue
        if row.section != section:
            section = row.section
            lines.append([Text(), Text(section, "bold"), *(Text() for _ in runs)])
        mark = Text("≠", "yellow") if row.differs else Text("=", "dim")
        lines.append([mark, Text(one_line(row.name)), *_format_cells(row)])
    notes = [
        times.price_dates(
            day
            for row in rows
            if (row.section, row.name) == ("run", "price_dates")
            for days in row.values
            for day in days
        )
    ]
    equal = sum(not row.differs for row in rows)
    notes += [] if all_rows or not equal else [f"{equal} rows are equal; to show them: --all"]
    cells = table(("", "", *(run.id for run in runs)), lines, gap=2)
    return Group(cells, *(Text(text, "dim") for text in notes if text))


def _list_fact_rows(runs: Sequence[Run], now: datetime) -> list[Row]:
    machines = [list_machines(run) for run in runs]
    costs = [run_cost.sum_costs(run, rows, now) for run, rows in zip(runs, machines, strict=True)]
    dates = [run_cost.price_dates(rows) for rows in machines]
    seconds = [run.seconds(now) for run in runs]
    versions = [run.job.template_metadata.version.removeprefix("sha256:") or _digest(run.spec.content) for run in runs]
    durations = tuple("" if value is None else format_duration(value) for value in seconds)
    return [
        Row("run", "state", tuple(run.state for run in runs)),
        Row("run", "pipeline", tuple(run.pipeline for run in runs)),
        Row("run", "template", tuple(versions), tuple(version[:12] for version in versions)),
        Row("run", "seconds", tuple(None if value is None else round(value, 1) for value in seconds), durations),
        Row("run", "usd", tuple(round(amount.usd, 4) for amount in costs), tuple(map(str, costs))),
        Row("run", "price_dates", tuple(dates), tuple(", ".join(run_dates) for run_dates in dates)),
    ]


def _read_parameter_values(run: Run) -> JsonObject:
    return {name: row["value"] for name, row in outputs.parameters(run).items()}


def _list_value_rows(section: str, values_of_runs: Sequence[JsonObject]) -> list[Row]:
    keys = dict.fromkeys(name for values in values_of_runs for name in sorted(values))
    return [Row(section, name, tuple(values.get(name) for values in values_of_runs)) for name in keys]


def _format_cells(row: Row) -> list[Text]:
    if row.section == "run" and row.name == "state":
        return [render_state(value) for value in row.values]
    texts = row.texts or tuple("–" if value is None else _format(value) for value in row.values)
    return [Text(one_line(text, _MAX_LENGTH_COMPARED), "" if row.differs else "dim") for text in texts]


def _key(value: object) -> str:
    """Returns a text that is equal for equal values; 1 and 1.0 are equal, true and 1 are not."""
    return json.dumps(restore_integers(value), sort_keys=True)
