"""What a person sees of schedules: the plan as a coloured difference, run times in local time and UTC, the list."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vgp.base.text.printable import abridged, one_line, printable
from vgp.base.text.table import facts, table
from vgp.check.spec.spec_difference import Difference
from vgp.vertex import resource_names
from vgp.vertex.schedules import forecast
from vgp.vertex.schedules.declared_schedule import Declaration
from vgp.vertex.schedules.fields import Change
from vgp.vertex.schedules.outlook import Outlook
from vgp.vertex.schedules.schedule_list import Row
from vgp.vertex.schedules.schedule_plan import Action
from vgp.workflow.compiling.compile import unified

_SIGNS = {
    "create": ("+", "green"), "update": ("~", "yellow"), "replace": ("±", "yellow"), "nothing": ("=", "dim"),
    "prune": ("-", "red"), "undeclared": ("?", "magenta"), "other": ("·", "dim"),
}  # fmt: skip
_WORDS = {"undeclared": "not declared", "other": "other", "nothing": "no change", "prune": "delete"}
#: Follow from other changes, and would only repeat them.
_DERIVED = ("labels.request",)
_WIDE = 100
_NOTHING_DECLARED = (
    "Nothing to do: this environment declares no schedule. Write [schedules.NAME] into pipelines.toml, or choose --env."
)


Outlooks = Mapping[str, Outlook]


def plan(actions: Sequence[Action], now: datetime, *, full: bool = False, outlooks: Outlooks | None = None) -> Group:
    """The whole plan, and what it comes to. `outlooks` tell by schedule what the coming runs would do."""
    known = outlooks or {}
    parts = (part for action in actions for part in _action(action, now, full, known.get(action.name)))
    return Group(*parts, Text(summary(actions), "bold"))


def summary(actions: Sequence[Action]) -> str:
    """`1 to create, 2 to update`, or that there is nothing to do."""
    words = {"create": "to create", "update": "to update", "replace": "to replace", "prune": "to delete"}
    counts = [(sum(action.kind == kind for action in actions), word) for kind, word in words.items()]
    todo = ", ".join(f"{count} {word}" for count, word in counts if count)
    declared = any(action.declaration for action in actions)
    return todo or ("Nothing to do: all is as declared." if declared else _NOTHING_DECLARED)


def plan_json(actions: Sequence[Action], now: datetime, outlooks: Outlooks | None = None) -> dict[str, Any]:
    """The plan for --json."""
    known = outlooks or {}
    rows = [
        {
            **action.as_json(),
            **(forecast.as_json(action.declaration, now, known.get(action.name)) if action.declaration else {}),
        }
        for action in actions
    ]
    return {"pending": any(action.pending for action in actions), "schedules": rows}


def listing(rows: Sequence[Row]) -> Table:
    """The table of `vgp schedule list`."""
    titles = (
        "schedule", "state", "cron", "time zone", "next run (UTC)", "last run (UTC)", "last state", "started",
    )  # fmt: skip
    return table(titles, map(_cells, rows), right=("started",))


def _cells(row: Row) -> list[str | Text]:
    times = [f"{time:%Y-%m-%d %H:%M}" if time else "-" for time in (row.next_run, row.last_run)]
    cells = (row.state, row.cron, row.time_zone, *times, row.last_state or "-", str(row.started))
    return [_name(row), *map(one_line, cells)]


def _name(row: Row) -> Text:
    if not row.ours:
        return Text(f"{one_line(row.name)} (not ours, {one_line(row.id)})", "dim")
    environment = f" ({one_line(row.environment)})" if row.environment else ""
    undeclared = " (not declared)" if row.declared is False else ""
    return Text.assemble(one_line(row.name), (environment, "dim"), (undeclared, "magenta"))


def _action(action: Action, now: datetime, full: bool, outlook: Outlook | None) -> Iterator[RenderableType]:
    sign, colour = _SIGNS[action.kind]
    head = Text(f"{sign} {_WORDS.get(action.kind, action.kind):<10} ", style=colour)
    head.append(one_line(action.name), style="bold")
    head.append(f"  {one_line(resource_names.short(action.resource))}" if action.resource else "", style="dim")
    yield head
    yield from (_line(note, "dim") for note in action.notes)
    yield from (_line(f"a duplicate to delete: {resource_names.short(resource)}", "red") for resource in action.surplus)
    if action.changes:
        yield _differences([one for one in action.changes if one.field not in _DERIVED] or action.changes, 4)
    if action.template:
        yield _differences(action.template, 6)
    if full and action.specs:
        yield Text("\n").join(_diff_line(line) for line in unified(*action.specs))
    if action.declaration:
        yield from _forecast(action.declaration, now, outlook)
    yield Text()


def _differences(changes: Sequence[Change | Difference], indent: int) -> Table:
    return facts(((" " * indent + one_line(change.field), _both_sides(change)) for change in changes), gap=2)


def _both_sides(change: Change | Difference) -> Text:
    value = Text()
    if change.before is not None:
        value.append(_shown(change.before), style="red").append(" -> ")
    return value.append(_shown(change.after) if change.after is not None else "(none)", style="green")


def _shown(value: Any) -> str:
    return '""' if value == "" else one_line(abridged(value), _WIDE)


def _forecast(declaration: Declaration, now: datetime, outlook: Outlook | None) -> Iterator[RenderableType]:
    runs = forecast.runs(declaration, now)
    local = [f"{run:%a %Y-%m-%d %H:%M %Z}" for run in runs]
    for number, run in enumerate(runs):
        label, width = "" if number else "next runs", max(map(len, local))
        yield Text(f"{_label(label)}  {local[number]:<{width}}  {run.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
        if outlook and not outlook.unknown:
            yield Text(f"{_label('')}    {one_line(outlook.words(run, runs[number - 1] if number else None))}", "dim")
    if declaration.steps:
        first, *more = forecast.cost_words(declaration, now)
        more += [outlook.last.words] if outlook and outlook.last else []
        follows = forecast.follows(declaration)
        rows: list[tuple[str, str]] = [("follows", follows)] if follows else []
        rows += [
            ("cost", first),
            *(("", text) for text in more),
            *zip(("cache", ""), _cache(declaration), strict=False),
        ]
        if outlook and outlook.unknown:
            rows.append(("hits", outlook.unknown))
        yield facts(((_label(name), text) for name, text in rows), gap=2)
    yield from (_line(f"warning: {text}", "yellow") for text in forecast.warnings(declaration, now))


def _cache(declaration: Declaration) -> Iterator[str]:
    """Which steps take earlier results, and which never do."""
    by_use = forecast.caching(declaration)
    taken, anew = (", ".join(step for step, cached in by_use.items() if cached is use) for use in (True, False))
    if taken:
        yield f"{taken}: an earlier result, where nothing that they take is new"
    if anew:
        yield f"{anew}: every run anew"


def _label(name: str) -> str:
    return f"    {name:<9}"


def _line(text: str, style: str) -> Text:
    return Text(f"    {printable(text)}", style=style)


def _diff_line(line: str) -> Text:
    style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
    return Text(f"      {printable(line)}", style=style)
