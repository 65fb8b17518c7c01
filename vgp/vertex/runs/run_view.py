"""Runs as a person sees them: a headline, the table of its steps, what failed and what to do; the list of runs."""

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
from vgp.vertex.runs.run_logs import link

MARKS = {"succeeded": "✓", "cached": "↺", "failed": "✗", "cancelled": "✗", "not triggered": "–", "not run": "–"}
COLOURS = {
    "succeeded": "green", "cached": "green", "failed": "bold red", "cancelled": "yellow", "cancelling": "yellow",
    "running": "cyan", "paused": "yellow",
}  # fmt: skip
_TITLES = ("", "step", "state", "took", "machine", "cost")
#: The width from which machines are shown.
_WIDE = 60
#: Steps in the order in which a full screen keeps them.
_INTEREST = ("failed", "running", "cancelling", "cancelled", "pending", "succeeded", "cached", "waiting")
#: Failed steps that are told in full, and lines of the error of one.
_TOLD, _LINES = 5, 20


def headline(run: Run, rows: Rows, now: datetime) -> Text:
    """`training-3f2a running 12m 03s, $1.23 so far, at most $14.20`; a step without a price is named.

    Of a run that succeeded also what came of it: `nothing new since training-1c07: nothing was trained`.
    """
    seconds = run.seconds(now)
    text = Text.assemble(
        (run.id, "bold"), " ", state(run.state), f" {format_duration(seconds)}" if seconds is not None else ""
    )
    if rows:
        spent, most = run_cost.sum_costs(run, rows, now), run_cost.cost_limit(run, rows)
        text.append(f", {one_line(spent.words)}{'' if run.over else ' so far'}")
        bound = f"can cost {one_line(most.words)}" if most.unpriced else f"at most {most}"
        text.append(f", {bound}", "dim")
    if run.state == "succeeded" and run.summary.words != run.state:
        text.append(f"; {one_line(run.summary.words)}")
    return text


def prices(rows: Rows, now: datetime) -> Text:
    """`prices of 2026-07-30`, and that they are old where they are; empty where no price is known."""
    return Text(price_dates(run_cost.price_dates(rows), now.date()), "dim")


def state(word: str) -> Text:
    return Text(word, COLOURS.get(word, "dim" if word in ("waiting", "not run", "not triggered") else ""))


def steps(run: Run, rows: Rows, now: datetime, *, width: int, room: int = 0) -> RenderableType:
    """The steps on lines of at most `width`; with `room`, no more lines than that, the other steps counted in the last.

    Where it is narrow, a name loses its beginning and a machine its end.
    """
    shown = _chosen(run.steps, room)
    titles = [title for title in _TITLES if title != "machine" or width >= _WIDE]
    cells = [_cells(step, rows, now) for step in shown]
    lines = [[line[title] for title in titles] for line in cells]
    heads = [Text(title, no_wrap=True, overflow="ellipsis") for title in titles]
    drawn = table(heads, lines, right=("took", "cost"), whole=("", "state", "took", "cost"), gap=2)
    if len(shown) == len(run.steps):
        return Constrain(drawn, width)
    left = Counter(step.state for step in run.steps) - Counter(step.state for step in shown)
    counted = ", ".join(f"{number} {word}" for word, number in left.items())
    return Constrain(Group(drawn, Text(f"and {counted}", "dim", no_wrap=True, overflow="ellipsis")), width)


def listing(runs: Sequence[Run], now: datetime) -> Table:
    """The table of `vgp runs`."""
    titles = ("run", "pipeline", "state", "created", "took")
    lines = (
        (
            run.id,
            Text(one_line(run.pipeline or run.labels.get("pipeline", "")), no_wrap=True, overflow="ellipsis"),
            state(run.state),
            format_local(run.created, now),
            _took(run.seconds(now) if run.started else None),
        )
        for run in runs
    )
    return table(titles, lines, right=("took",), whole=("state", "created", "took"), gap=2)


def failures(run: Run, settings: Settings, rows: Rows) -> RenderableType:
    """Every failed step with its error, what to do, and where its log is; else the error of the run."""
    failed = run.failed()
    parts = [_failure(run, step, settings, rows) for step in failed[:_TOLD]]
    if len(failed) > _TOLD:
        parts.append(Text(f"and {len(failed) - _TOLD} more failed steps"))
    if not parts and run.error:
        parts.append(Text("\n".join(filter(None, [_error(run.error), advice(run.error, settings)]))))
    return Group(*parts)


def write(console: Console, drawn: RenderableType) -> None:
    """Prints text as it is: lines are folded by the terminal, links stay whole."""
    console.print(drawn, soft_wrap=True, highlight=False, markup=False)


def change(step: Step, rows: Rows, now: datetime) -> str:
    """One line for a log: `train: succeeded after 12m 03s on 2 x g2-standard-24 (2 L4), $1.23`."""
    seconds, where = step.seconds(now), run_cost.machine(step, rows)
    if step.state == "running":
        text = f"{step.name}: running{f' on {where}' if where else ''}"
        return one_line(f"{text}, again after: {step.retrying}" if step.retrying else text, 500)
    text = f"{step.name}: {step.state}"
    if seconds is not None:
        text += f" after {format_duration(seconds)}"
        text += f", {format_usd(run_cost.step_cost(step, rows, now))}" if where else ""
    return one_line(f"{text}: {step.error}" if step.error else text, 500)


def _chosen(steps: Sequence[Step], room: int) -> list[Step]:
    if not room or len(steps) <= room:
        return list(steps)
    rank = {word: number for number, word in enumerate(_INTEREST)}
    kept = sorted(range(len(steps)), key=lambda index: (rank.get(steps[index].state, len(rank)), index))[: room - 1]
    return [steps[index] for index in sorted(kept)]


class _Ending(Text):
    """A text that loses its beginning where its column is narrow: names of inner steps differ at their ends."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        kept = self.plain
        while kept and cell_len(kept) > options.max_width - (len(kept) < len(self.plain)):
            kept = kept[1:]
        ending = Text(kept if kept == self.plain else f"…{kept}", self.style, no_wrap=True, end=self.end)
        yield from console.render(ending, options)


def _cells(step: Step, rows: Rows, now: datetime) -> dict[str, Text]:
    seconds, machine = step.seconds(now), run_cost.machine(step, rows)
    word = f"{step.state}, try {step.tries}" if step.state == "running" and step.tries > 1 else step.state
    amount = format_usd(run_cost.step_cost(step, rows, now)) if seconds is not None and machine else ""
    colour = COLOURS.get(step.state, "dim")
    return {
        "": Text(MARKS.get(step.state, "●" if step.state == "running" else "·"), colour),
        "step": _Ending(one_line(step.name)),
        "state": Text(word, colour),
        "took": Text(_took(seconds)),
        "machine": Text(machine, "" if seconds is not None else "dim", no_wrap=True, overflow="ellipsis"),
        "cost": Text(amount),
    }


def _took(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def _failure(run: Run, step: Step, settings: Settings, rows: Rows) -> Text:
    text = Text.assemble(
        (f"{one_line(step.name)} failed: ", "bold red"), _error(step.error or "Google gives no reason")
    )
    machines = next(iter(run_cost.step_rows(step, rows)), None)
    lines = advice(step.error, settings, machines=machines).splitlines()
    for line in [*lines, f"vgp logs {run.id} {one_line(step.name)}"]:
        text.append(f"\n  {line}")
    return text.append(f"\n  {link(settings, run, [step])}", "dim")


def _error(text: str) -> str:
    lines = printable(text).strip().splitlines()
    more = [f"… {len(lines) - _LINES} more lines"] if len(lines) > _LINES else []
    return "\n  ".join([*lines[:_LINES], *more])
