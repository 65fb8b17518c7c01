"""`vgp compare RUN RUN`: parameters, metrics, results, template, time and cost side by side."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from vgp.base.errors import RequestError
from vgp.base.text import times
from vgp.base.text.figures import table, took
from vgp.base.text.printable import abridged, one_line
from vgp.settings import Settings
from vgp.vertex import resource_names
from vgp.vertex.runs import outputs, run_cost, run_search
from vgp.vertex.runs.remote_run import Run, whole
from vgp.vertex.runs.run_view import state

#: Characters of a value in the table; --json has all of them.
_MOST = 60


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

    def as_json(self) -> dict[str, Any]:
        return {"section": self.section, "name": self.name, "values": list(self.values), "differs": self.differs}


def look(settings: Settings, references: Sequence[str]) -> list[Run]:
    """The runs that are meant.

    Raises:
        RequestError: there is no such run.
        WorkFailed: Google refused or could not be reached.
    """
    return [run_search.find(settings, reference) for reference in references]


def as_json(settings: Settings, several: Sequence[Run], rows: Sequence[Row]) -> dict[str, Any]:
    """For --json: the runs with their pages, and every row."""
    links = [{"id": run.id, "url": resource_names.run_link(settings, run.id)} for run in several]
    return {"runs": links, "rows": [row.as_json() for row in rows]}


def rows(several: Sequence[Run], now: datetime) -> list[Row]:
    """Every row, equal ones too.

    Raises:
        RequestError: the same run is given twice, or only one.
    """
    ids = [run.id for run in several]
    if len(ids) < 2 or len(set(ids)) < len(ids):
        raise RequestError(f"compare needs two or more different runs; given: {', '.join(ids)}.")
    return [
        *_about(several, now),
        *_side_by_side("parameters", [_values(run) for run in several]),
        *_side_by_side("metrics", [outputs.metrics(run) for run in several]),
        *_side_by_side("outputs", [outputs.returned(run) for run in several]),
    ]


def digest(spec: Mapping[str, Any]) -> str:
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
    costs = [run_cost.so_far(run, each, now) for run, each in zip(several, machines, strict=True)]
    days = [run_cost.price_dates(each) for each in machines]
    seconds = [run.seconds(now) for run in several]
    versions = [
        run.job.template_metadata.version.removeprefix("sha256:") or digest(run.spec.content) for run in several
    ]
    shown = tuple("" if value is None else took(value) for value in seconds)
    return [
        Row("run", "state", tuple(run.state for run in several)),
        Row("run", "pipeline", tuple(run.pipeline for run in several)),
        Row("run", "template", tuple(versions), tuple(version[:12] for version in versions)),
        Row("run", "seconds", tuple(None if value is None else round(value, 1) for value in seconds), shown),
        Row("run", "usd", tuple(round(amount.usd, 4) for amount in costs), tuple(map(str, costs))),
        Row("run", "price_dates", tuple(days), tuple(", ".join(each) for each in days)),
    ]


def _version(run: Run) -> str:
    """The digest of the template that it ran, else of its spec."""
    return run.job.template_metadata.version.removeprefix("sha256:") or digest(run.spec.content)


def _values(run: Run) -> dict[str, Any]:
    return {name: row["value"] for name, row in outputs.parameters(run).items()}


def _side_by_side(section: str, several: Sequence[Mapping[str, Any]]) -> list[Row]:
    keys = dict.fromkeys(name for values in several for name in sorted(values))
    return [Row(section, name, tuple(values.get(name) for values in several)) for name in keys]


def _cells(row: Row) -> list[Text]:
    if row.section == "run" and row.name == "state":
        return [state(value) for value in row.values]
    shown = row.shown or tuple("–" if value is None else _text(value) for value in row.values)
    return [Text(one_line(text, _MOST), "" if row.differs else "dim") for text in shown]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    value = abridged(value)
    return value if isinstance(value, str) and value else json.dumps(value)


def _key(value: Any) -> str:
    """1 and 1.0 are one value, true and 1 are two."""
    return json.dumps(whole(value), sort_keys=True)
