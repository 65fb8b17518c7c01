"""A run for the terminal: headline, table of steps, failures with advice. The list of runs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.constrain import Constrain
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from vgp.base.text.figures import format_duration, format_usd, table
from vgp.base.text.printable import one_line, printable
from vgp.base.text.times import format_local, price_dates
from vgp.settings import Settings
from vgp.vertex.google_errors import advice
from vgp.vertex.runs import run_cost
from vgp.vertex.runs.remote_run import Run, Step
from vgp.vertex.runs.run_cost import Rows
from vgp.vertex.runs.run_logs import logs_link

MARKS = {"succeeded": "✓", "cached": "↺", "failed": "✗", "cancelled": "✗", "not triggered": "–", "not run": "–"}
COLOURS = {
    "succeeded": "green", "cached": "green", "failed": "bold red", "cancelled": "yellow", "cancelling": "yellow",
    "running": "cyan", "paused": "yellow",
}  # fmt: skip
_TITLES = ("", "step", "state", "took", "machine", "cost")
#: The least width of a table with machines.
_WIDE = 60
#: States of steps, the most important first, for a table with too few lines for all steps.
_PRIORITY = ("failed", "running", "cancelling", "cancelled", "pending", "succeeded", "cached", "waiting")
#: The most failed steps with their errors, and the most lines of an error.
_MAX_FAILURES, _MAX_LINES = 5, 20


def render_headline(run: Run, rows: Rows, now: datetime) -> Text:
    """Renders `training-3f2a running 12m 03s, $1.23 so far, at most $14.20`, with the names of unpriced steps.

    For a run that succeeded, the run's summary follows.
    """
    seconds = run.seconds(now)
    text = Text.assemble(
        (run.id, "bold"), " ", render_state(run.state), f" {format_duration(seconds)}" if seconds is not None else ""
    )
    if rows:
        spent, most = run_cost.sum_costs(run, rows, now), run_cost.cost_limit(run, rows)
        text.append(f", {one_line(spent.words)}{'' if run.over else ' so far'}")
        bound = f"can cost {one_line(most.words)}" if most.unpriced else f"at most {most}"
        text.append(f", {bound}", "dim")
    if run.state == "succeeded" and run.summary.words != run.state:
        text.append(f"; {one_line(run.summary.words)}")
    return text


def render_price_dates(rows: Rows, now: datetime) -> Text:
    """Renders `prices of 2026-07-30`, with a note if they are old; empty if no price is known."""
    return Text(price_dates(run_cost.price_dates(rows), now.date()), "dim")


def render_state(state: str) -> Text:
    return Text(state, COLOURS.get(state, "dim" if state in ("waiting", "not run", "not triggered") else ""))


def render_steps(run: Run, rows: Rows, now: datetime, *, width: int, max_lines: int = 0) -> RenderableType:
    """Renders a table of the steps, at most `width` characters wide.

    A narrow table cuts off the beginnings of names and the ends of machines.

    Args:
        max_lines: The most lines, the last of which counts the other steps; 0 for all steps.
    """
    steps = _select_steps(run.steps, max_lines)
    titles = [title for title in _TITLES if title != "machine" or width >= _WIDE]
    cells = [_format_cells(step, rows, now) for step in steps]
    lines = [[line[title] for title in titles] for line in cells]
    heads = [Text(title, no_wrap=True, overflow="ellipsis") for title in titles]
    body = table(heads, lines, right=("took", "cost"), whole=("", "state", "took", "cost"), gap=2)
    if len(steps) == len(run.steps):
        return Constrain(body, width)
    others = Counter(step.state for step in run.steps) - Counter(step.state for step in steps)
    counts = ", ".join(f"{number} {state}" for state, number in others.items())
    return Constrain(Group(body, Text(f"and {counts}", "dim", no_wrap=True, overflow="ellipsis")), width)


def render_list(runs: Sequence[Run], now: datetime) -> Table:
    """Renders the table of `vgp runs`."""
    titles = ("run", "pipeline", "state", "created", "took")
    lines = (
        (
            run.id,
            Text(one_line(run.pipeline or run.labels.get("pipeline", "")), no_wrap=True, overflow="ellipsis"),
            render_state(run.state),
            format_local(run.created, now),
            _format_seconds(run.seconds(now) if run.started else None),
        )
        for run in runs
    )
    return table(titles, lines, right=("took",), whole=("state", "created", "took"), gap=2)


def render_failures(run: Run, settings: Settings, rows: Rows) -> RenderableType:
    """Renders the failed steps, each with its error, advice and log; without any, the error of the run."""
    failed = run.list_failed_steps()
    parts = [_render_failure(run, step, settings, rows) for step in failed[:_MAX_FAILURES]]
    if len(failed) > _MAX_FAILURES:
        parts.append(Text(f"and {len(failed) - _MAX_FAILURES} more failed steps"))
    if not parts and run.error:
        parts.append(Text("\n".join(filter(None, [_shorten_error(run.error), advice(run.error, settings)]))))
    return Group(*parts)


def write(console: Console, content: RenderableType) -> None:
    """Prints without rich's wrapping, which would break links; the terminal wraps long lines."""
    console.print(content, soft_wrap=True, highlight=False, markup=False)


def describe_step(step: Step, rows: Rows, now: datetime) -> str:
    """Returns a line for a log: `train: succeeded after 12m 03s, $1.23`."""
    seconds, machines = step.seconds(now), run_cost.describe_machines(step, rows)
    if step.state == "running":
        text = f"{step.name}: running{f' on {machines}' if machines else ''}"
        return one_line(f"{text}, retry after: {step.retrying}" if step.retrying else text, 500)
    text = f"{step.name}: {step.state}"
    if seconds is not None:
        text += f" after {format_duration(seconds)}"
        text += f", {format_usd(run_cost.step_cost(step, rows, now))}" if machines else ""
    return one_line(f"{text}: {step.error}" if step.error else text, 500)


def _select_steps(steps: Sequence[Step], max_lines: int) -> list[Step]:
    """Returns the most important steps, in their order, so that there is a line left to count the others."""
    if not max_lines or len(steps) <= max_lines:
        return list(steps)
    rank = {state: number for number, state in enumerate(_PRIORITY)}
    order = sorted(range(len(steps)), key=lambda index: (rank.get(steps[index].state, len(rank)), index))
    return [steps[index] for index in sorted(order[: max_lines - 1])]


class _Ending(Text):
    """A text that keeps its end in a narrow column, because the names of inner steps differ at their ends."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        kept = self.plain
        while kept and cell_len(kept) > options.max_width - (len(kept) < len(self.plain)):
            kept = kept[1:]
        ending = Text(kept if kept == self.plain else f"…{kept}", self.style, no_wrap=True, end=self.end)
        yield from console.render(ending, options)


def _format_cells(step: Step, rows: Rows, now: datetime) -> dict[str, Text]:
    seconds, machines = step.seconds(now), run_cost.describe_machines(step, rows)
    state = f"{step.state}, try {step.tries}" if step.state == "running" and step.tries > 1 else step.state
    cost = format_usd(run_cost.step_cost(step, rows, now)) if seconds is not None and machines else ""
    colour = COLOURS.get(step.state, "dim")
    return {
        "": Text(MARKS.get(step.state, "●" if step.state == "running" else "·"), colour),
        "step": _Ending(one_line(step.name)),
        "state": Text(state, colour),
        "took": Text(_format_seconds(seconds)),
        "machine": Text(machines, "" if seconds is not None else "dim", no_wrap=True, overflow="ellipsis"),
        "cost": Text(cost),
    }


def _format_seconds(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def _render_failure(run: Run, step: Step, settings: Settings, rows: Rows) -> Text:
    text = Text.assemble(
        (f"{one_line(step.name)} failed: ", "bold red"), _shorten_error(step.error or "Google gives no reason")
    )
    machines = next(iter(run_cost.step_rows(step, rows)), None)
    lines = advice(step.error, settings, machines=machines).splitlines()
    for line in [*lines, f"vgp logs {run.id} {one_line(step.name)}"]:
        text.append(f"\n  {line}")
    return text.append(f"\n  {logs_link(settings, run, [step])}", "dim")


def _shorten_error(text: str) -> str:
    lines = printable(text).strip().splitlines()
    more = [f"… {len(lines) - _MAX_LINES} more lines"] if len(lines) > _MAX_LINES else []
    return "\n  ".join([*lines[:_MAX_LINES], *more])
