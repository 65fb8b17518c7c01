"""What a person sees of schedules: the plan as a coloured diff, run times in local time and UTC, costs, the list."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from vgp.check import cost
from vgp.spec import difference as template
from vgp.text.figures import usd
from vgp.text.printable import one_line, printable
from vgp.vertex import names
from vgp.vertex.schedules.cron import ClockChange, Cron
from vgp.vertex.schedules.fields import Change
from vgp.vertex.schedules.listing import Row
from vgp.vertex.schedules.plan import Action
from vgp.vertex.schedules.plan import as_json as action_as_json
from vgp.vertex.schedules.wanted import Wanted

RUNS_SHOWN = 5
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


def plan(actions: Sequence[Action], now: datetime, *, full: bool = False) -> Group:
    """The whole plan, and what it comes to."""
    return Group(*(part for action in actions for part in _action(action, now, full)), Text(summary(actions), "bold"))


def summary(actions: Sequence[Action]) -> str:
    """`1 to create, 2 to update`, or that there is nothing to do."""
    words = {"create": "to create", "update": "to update", "replace": "to replace", "prune": "to delete"}
    counts = [(sum(each.kind == kind for each in actions), word) for kind, word in words.items()]
    todo = ", ".join(f"{count} {word}" for count, word in counts if count)
    return todo or ("Nothing to do: all is as declared." if any(each.wanted for each in actions) else _NOTHING_DECLARED)


def plan_json(actions: Sequence[Action], now: datetime) -> dict[str, Any]:
    rows = [{**action_as_json(each), **(_expected(each.wanted, now) if each.wanted else {})} for each in actions]
    return {"pending": any(each.pending for each in actions), "schedules": rows}


def listing(rows: Sequence[Row], zone: str | None = None) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for column in (
        "schedule",
        "state",
        "cron",
        "time zone",
        "next run (UTC)",
        "last run (UTC)",
        "last state",
        "started",
    ):
        table.add_column(column, overflow="fold", justify="right" if column == "started" else "left")
    for row in rows:
        times = [f"{each:%Y-%m-%d %H:%M}" if each else "-" for each in (row.next_run, row.last_run)]
        cells = (row.state, row.cron, row.time_zone, *times, row.last_state or "-", str(row.started))
        table.add_row(_name(row), *(escape(one_line(cell)) for cell in cells))
    return table


def _name(row: Row) -> str:
    name, environment = (escape(one_line(text)) for text in (row.name, row.environment or ""))
    if not row.ours:
        return f"[dim]{name} (not ours, {escape(one_line(row.id))})[/]"
    name += f" [dim]({environment})[/]" if environment else ""
    return f"{name} [magenta](not declared)[/]" if row.declared is False else name


def warnings(wanted: Wanted, now: datetime) -> list[str]:
    """What is in doubt about its times, and which settings do not count."""
    cron = wanted.cron
    found = [_change(each, cron) for each in _first_of_each_day(cron.clock_changes(now))]
    if found:
        found.append("What Vertex AI does then is not documented. A time outside of the change is safe, or UTC.")
    if cron.days_differ:
        found.append(
            f"{cron.expression} narrows day and weekday, one of them from *: crons differ in whether both must fit. "
            "List the days instead."
        )
    return [*found, *wanted.notes]


def _action(action: Action, now: datetime, full: bool) -> Iterator[Any]:
    sign, colour = _SIGNS[action.kind]
    head = Text(f"{sign} {_WORDS.get(action.kind, action.kind):<10} ", style=colour)
    head.append(one_line(action.name), style="bold")
    head.append(f"  {one_line(names.short(action.resource))}" if action.resource else "", style="dim")
    yield head
    yield from (_line(note, "dim") for note in action.notes)
    yield from (_line(f"a duplicate to delete: {names.short(each)}", "red") for each in action.surplus)
    if action.changes:
        yield _differences([each for each in action.changes if each.field not in _DERIVED] or action.changes, 4)
    if action.template:
        yield _differences(action.template, 6)
    if full and action.specs:
        yield Text("\n").join(_diff_line(line) for line in template.unified(*action.specs))
    if action.wanted:
        yield from _times(action.wanted, now)
    yield Text()


def _differences(changes: Sequence[Change], indent: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for each in changes:
        value = Text()
        if each.before is not None:
            value.append(_shown(each.before), style="red")
            value.append(" -> ")
        value.append(_shown(each.after) if each.after is not None else "(none)", style="green")
        table.add_row(Text(" " * indent + one_line(each.field)), value)
    return table


def _shown(value: Any) -> str:
    return '""' if value == "" else one_line(value, _WIDE)


def _times(wanted: Wanted, now: datetime) -> Iterator[Any]:
    runs = _runs(wanted, now)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for number, run in enumerate(runs):
        table.add_row(Text("    next runs" if number == 0 else ""), f"{run:%a %Y-%m-%d %H:%M %Z}", f"{_utc(run)} UTC")
    if runs:
        yield table
    if wanted.steps:
        yield _line(_cost(wanted, now), "")
        yield _line(_cached(wanted), "")
    yield from (_line(f"warning: {each}", "yellow") for each in warnings(wanted, now))


def _runs(wanted: Wanted, now: datetime) -> list[datetime]:
    """The next runs as far as start, end and number allow."""
    declared = wanted.declared
    if declared.paused:
        return []
    after = max(now, declared.start) if declared.start else now
    found = wanted.cron.next(min(RUNS_SHOWN, declared.max_runs or RUNS_SHOWN), after)
    return [each for each in found if not declared.end or each <= declared.end]


def _expected(wanted: Wanted, now: datetime) -> dict[str, Any]:
    run, month = cost.most_usd(wanted.steps), _per_month(wanted, now)
    unpriced = cost.unpriced(wanted.steps)
    times = [
        {"local": each.isoformat(), "utc": f"{each.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"} for each in _runs(wanted, now)
    ]
    return {
        "cron": str(wanted.cron),
        "runs": times,
        "warnings": warnings(wanted, now),
        "runs_per_month": round(month, 1),
        "max_usd_per_run": None if unpriced else round(run, 2),
        "max_usd_per_month": None if unpriced else round(run * month, 2),
        "max_usd_of_priced_steps": round(run, 2),
        "unpriced": unpriced,
        "cached": _caching(wanted),
    }  # fmt: skip


def _per_month(wanted: Wanted, now: datetime) -> float:
    month = wanted.cron.per_month(now)
    return min(month, wanted.declared.max_runs) if wanted.declared.max_runs else month


def _cost(wanted: Wanted, now: datetime) -> str:
    run, month = cost.most_usd(wanted.steps), _per_month(wanted, now)
    left_out = cost.not_in_it(wanted.steps)
    if left_out and not run:
        return f"cost       not known: {left_out}"
    bound = "at least" if left_out else "at most"
    return (
        f"cost       {bound} {usd(run)} a run, if every step takes all the time that it may\n"
        f"               {bound} {usd(run * month)} a month, in {month:.1f} runs"
        + (f"\n               not in it: {left_out}" if left_out else "")
    )


def _caching(wanted: Wanted) -> dict[str, bool]:
    """Step -> whether it may take the result of an earlier run."""
    return {row.step: row.step.rsplit("/", 1)[-1] in wanted.cached for row in wanted.steps}


def _cached(wanted: Wanted) -> str:
    anew = ", ".join(step for step, cached in _caching(wanted).items() if not cached)
    return f"cache      {anew}: every run anew, since the data behind the same names may have changed"


def _change(change: ClockChange, cron: Cron) -> str:
    day, at = f"{change.local:%a %Y-%m-%d}", f"{change.local:%H:%M}"
    clocks = f"the clocks of {cron.time_zone} go from {change.before:%H:%M} to {change.after:%H:%M}"
    shown = " and ".join(f"{run:%H:%M %Z}" for run in change.runs)
    counted = f"counted as {'a run' if len(change.runs) == 1 else 'runs'} at {shown}" if shown else "counted as no run"
    return f"{day}: {clocks}; {at} {'does not exist' if change.missing else 'comes twice'}, {counted}."


def _first_of_each_day(changes: Sequence[ClockChange]) -> list[ClockChange]:
    days: dict[Any, ClockChange] = {}
    for each in changes:
        days.setdefault(each.local.date(), each)
    return list(days.values())


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _line(text: str, style: str) -> Text:
    return Text(f"    {printable(text)}", style=style)


def _diff_line(line: str) -> Text:
    style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
    return Text(f"      {printable(line)}", style=style)
