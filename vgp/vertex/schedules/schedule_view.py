"""The output of `vgp schedule plan` and `list`: run times, costs and coloured differences."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.text import times
from vgp.base.text.figures import facts_table, format_usd, join_words, table
from vgp.base.text.printable import one_line, printable, summarise_texts
from vgp.check import cost_bound
from vgp.check.spec.spec_difference import Difference
from vgp.vertex import resource_names
from vgp.vertex.runs.run_cost import LastRuns
from vgp.vertex.schedules.cron import ClockChange, Cron
from vgp.vertex.schedules.declared_schedule import CHAMPION, NIGHTS, Declaration
from vgp.vertex.schedules.schedule_fields import Change
from vgp.vertex.schedules.schedule_list import Row
from vgp.vertex.schedules.schedule_plan import Action
from vgp.workflow.compiling.compile import diff_texts

#: The number of coming runs in the output.
RUNS_SHOWN = 5
_SIGNS = {
    "create": ("+", "green"), "update": ("~", "yellow"), "replace": ("±", "yellow"), "nothing": ("=", "dim"),
    "prune": ("-", "red"), "undeclared": ("?", "magenta"), "other": ("·", "dim"),
}  # fmt: skip
_WORDS = {"undeclared": "not declared", "other": "other", "nothing": "no change", "prune": "delete"}
#: Fields that follow from other changes, and are not shown beside them.
_DERIVED = ("labels.request",)
_WIDE = 100
_NOTHING_DECLARED = (
    "Nothing to do: this environment declares no schedule. Write [schedules.NAME] into pipelines.toml, or choose --env."
)

#: Name of a schedule -> what the last runs of its pipeline cost.
Costs = Mapping[str, LastRuns]


def render_plan(actions: Sequence[Action], now: datetime, last: Costs, *, full: bool = False) -> Group:
    """Returns the whole plan, and a summary of it; `full` adds the differences of changed pipelines line by line."""
    parts = (part for action in actions for part in _render_action(action, now, full, last.get(action.name)))
    return Group(*parts, Text(summarize(actions), "bold"))


def summarize(actions: Sequence[Action]) -> str:
    """Returns a summary such as `1 to create, 2 to update`."""
    words = {"create": "to create", "update": "to update", "replace": "to replace", "prune": "to delete"}
    counts = [(sum(action.kind == kind for action in actions), word) for kind, word in words.items()]
    todo = ", ".join(f"{count} {word}" for count, word in counts if count)
    declared = any(action.declaration for action in actions)
    return todo or ("Nothing to do: all is as declared." if declared else _NOTHING_DECLARED)


def plan_json(actions: Sequence[Action], now: datetime, last: Costs) -> JsonObject:
    """Returns the plan for --json."""
    rows = [
        {
            **action.as_json(),
            **(forecast_json(action.declaration, now, last.get(action.name)) if action.declaration else {}),
        }
        for action in actions
    ]
    return {"pending": any(action.pending for action in actions), "schedules": rows}


def render_list(rows: Sequence[Row]) -> Table:
    """Renders the table of `vgp schedule list`."""
    titles = (
        "schedule", "state", "cron", "time zone", "next run (UTC)", "last run (UTC)", "last state", "started",
    )  # fmt: skip
    return table(titles, map(_list_cells, rows), right=("started",))


def _list_cells(row: Row) -> list[str | Text]:
    times = [f"{time:%Y-%m-%d %H:%M}" if time else "-" for time in (row.next_run, row.last_run)]
    cells = (row.state, row.cron, row.time_zone, *times, row.last_state or "-", str(row.started))
    return [_name(row), *map(one_line, cells)]


def _name(row: Row) -> Text:
    if not row.ours:
        return Text(f"{one_line(row.name)} (not ours, {one_line(row.id)})", "dim")
    environment = f" ({one_line(row.environment)})" if row.environment else ""
    undeclared = " (not declared)" if row.declared is False else ""
    return Text.assemble(one_line(row.name), (environment, "dim"), (undeclared, "magenta"))


def _render_action(action: Action, now: datetime, full: bool, last: LastRuns | None) -> Iterator[RenderableType]:
    sign, colour = _SIGNS[action.kind]
    head = Text(f"{sign} {_WORDS.get(action.kind, action.kind):<10} ", style=colour)
    head.append(one_line(action.name), style="bold")
    head.append(f"  {one_line(resource_names.short(action.resource))}" if action.resource else "", style="dim")
    yield head
    yield from (_format_line(note, "dim") for note in action.notes)
    yield from (
        _format_line(f"a duplicate to delete: {resource_names.short(resource)}", "red") for resource in action.surplus
    )
    if action.changes:
        yield _render_differences([one for one in action.changes if one.field not in _DERIVED] or action.changes, 4)
    if action.template:
        yield _render_differences(action.template, 6)
    if full and action.specs:
        yield Text("\n").join(_format_diff_line(line) for line in diff_texts(*action.specs))
    if action.declaration:
        yield from _render_forecast(action.declaration, now, last)
    yield Text()


def _render_differences(changes: Sequence[Change | Difference], indent: int) -> Table:
    return facts_table(
        ((" " * indent + one_line(change.field), _format_both_sides(change)) for change in changes), gap=2
    )


def _format_both_sides(change: Change | Difference) -> Text:
    value = Text()
    if change.before is not None:
        value.append(_format_value(change.before), style="red").append(" -> ")
    return value.append(_format_value(change.after) if change.after is not None else "(none)", style="green")


def _format_value(value: object) -> str:
    return '""' if value == "" else one_line(summarise_texts(value), _WIDE)


def _render_forecast(declaration: Declaration, now: datetime, last: LastRuns | None) -> Iterator[RenderableType]:
    coming = next_runs(declaration, now)
    local = [f"{run:%a %Y-%m-%d %H:%M %Z}" for run in coming]
    for number, run in enumerate(coming):
        label, width = "" if number else "next runs", max(map(len, local))
        yield Text(f"{_label(label)}  {local[number]:<{width}}  {run.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
    if declaration.steps:
        first, *more = list_costs(declaration, now)
        derived = describe_derived_parameters(declaration)
        rows = [
            *([("follows", derived)] if derived else []),
            ("cost", first),
            *(("", text) for text in (*more, *([last.words] if last else []))),
            *([("overhead", str(declaration.overhead))] if declaration.overhead else []),
            ("cache", _describe_cache(declaration)),
        ]
        yield facts_table(((_label(name), text) for name, text in rows), gap=2)
    yield from (_format_line(f"warning: {text}", "yellow") for text in list_warnings(declaration, now))


def _describe_cache(declaration: Declaration) -> str:
    """Returns a sentence on which steps can be cached."""
    steps = [step for step, cached in list_caching(declaration).items() if cached]
    if not steps:
        return "every step runs every time"
    takes = "takes" if len(steps) == 1 else "take"
    return (
        f"{join_words(steps, 'and')} {takes} an earlier result if the inputs are unchanged; the other steps run "
        "every time"
    )


def _label(name: str) -> str:
    return f"    {name:<9}"


def _format_line(text: str, style: str) -> Text:
    return Text(f"    {printable(text)}", style=style)


def _format_diff_line(line: str) -> Text:
    style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
    return Text(f"      {printable(line)}", style=style)


def next_runs(declaration: Declaration, now: datetime) -> list[datetime]:
    """Returns the next runs, within the schedule's start, end and number of runs."""
    declared = declaration.declared
    if declared.paused:
        return []
    after = max(now, declared.start) if declared.start else now
    moments = declaration.cron.next(min(RUNS_SHOWN, declared.max_runs or RUNS_SHOWN), after)
    return [time for time in moments if not declared.end or time <= declared.end]


def per_month(declaration: Declaration, now: datetime) -> float:
    """Returns the average number of runs in a month, at most the schedule's number of runs."""
    month = declaration.cron.per_month(now)
    return min(month, declaration.declared.max_runs) if declaration.declared.max_runs else month


def list_costs(declaration: Declaration, now: datetime) -> list[str]:
    """Returns lines with the highest cost of a run and of a month, and the parts without a price."""
    run, month = cost_bound.most_usd(declaration.steps), per_month(declaration, now)
    left_out = cost_bound.format_unpriced_steps(declaration.steps)
    if left_out and not run:
        return [f"not known: {left_out}"]
    bound = "at least" if left_out else "at most"
    return [
        f"{bound} {format_usd(run)} a run, if every step takes all the time that it may",
        f"{bound} {format_usd(run * month)} a month, in {month:.1f} runs",
        *([f"not in it: {left_out}"] if left_out else []),
        *filter(None, [times.price_dates(cost_bound.price_dates(declaration.steps), now.date())]),
    ]


def describe_derived_parameters(declaration: Declaration) -> str:
    """Returns the parameters that follow from the schedule and not from pipelines.toml; empty if there are none."""
    values = declaration.job.get("runtimeConfig", {}).get("parameterValues", {})
    names = [name for name in (CHAMPION, NIGHTS) if name in values and name not in declaration.declared.parameters]
    return ", ".join(f"{name} = {values[name]}" for name in names)


def list_caching(declaration: Declaration) -> dict[str, bool]:
    """Returns, for each step, whether it may be cached."""
    return {row.step: row.step.rsplit("/", 1)[-1] in declaration.cached for row in declaration.steps}


def list_warnings(declaration: Declaration, now: datetime) -> list[str]:
    """Lists warnings about uncertain run times, and about settings without an effect."""
    cron = declaration.cron
    texts = [_describe_change(change, cron) for change in _keep_first_of_each_day(cron.clock_changes(now))]
    if texts:
        texts.append("What Vertex AI does then is not documented. A time outside of the change is safe, or UTC.")
    if cron.days_differ:
        texts.append(
            f"{cron.expression} narrows day and weekday, one of them from *: crons differ in whether both must fit. "
            "List the days instead."
        )
    return [*texts, *declaration.notes]


def forecast_json(declaration: Declaration, now: datetime, last: LastRuns | None) -> JsonObject:
    """Returns the next runs, their cost and the warnings about them, for --json."""
    run, month = cost_bound.most_usd(declaration.steps), per_month(declaration, now)
    unpriced = cost_bound.find_unpriced_steps(declaration.steps)
    return {
        "cron": str(declaration.cron),
        "runs": [
            {
                "local": time.isoformat(),
                "utc": f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            }
            for time in next_runs(declaration, now)
        ],
        **({"last_runs": last.as_json()} if last else {}),
        "warnings": list_warnings(declaration, now),
        "runs_per_month": round(month, 1),
        "max_usd_per_run": None if unpriced else round(run, 2),
        "max_usd_per_month": None if unpriced else round(run * month, 2),
        "max_usd_of_priced_steps": round(run, 2),
        "unpriced": unpriced,
        "price_dates": cost_bound.price_dates(declaration.steps),
        "cached": list_caching(declaration),
        **(declaration.overhead.as_json() if declaration.overhead else {}),
    }


def _describe_change(change: ClockChange, cron: Cron) -> str:
    day, at = f"{change.local:%a %Y-%m-%d}", f"{change.local:%H:%M}"
    clocks = f"the clocks of {cron.time_zone} go from {change.before:%H:%M} to {change.after:%H:%M}"
    shown = " and ".join(f"{run:%H:%M %Z}" for run in change.runs)
    counted = f"counted as {'a run' if len(change.runs) == 1 else 'runs'} at {shown}" if shown else "counted as no run"
    return f"{day}: {clocks}; {at} {'does not exist' if change.missing else 'comes twice'}, {counted}."


def _keep_first_of_each_day(changes: Sequence[ClockChange]) -> list[ClockChange]:
    days: dict[date, ClockChange] = {}
    for change in changes:
        days.setdefault(change.local.date(), change)
    return list(days.values())
