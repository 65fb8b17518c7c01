"""A run as a person sees it: one headline, the table of its steps, what failed and what to do."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from vgp.settings import Settings
from vgp.text.figures import took, usd
from vgp.text.printable import one_line, printable
from vgp.vertex.errors import advice
from vgp.vertex.runs import cost as run_cost
from vgp.vertex.runs.cost import Rows
from vgp.vertex.runs.log_filter import link
from vgp.vertex.runs.state import Run
from vgp.vertex.runs.steps import Step

MARKS = {"succeeded": "✓", "cached": "↺", "failed": "✗", "cancelled": "✗", "not triggered": "–", "not run": "–"}
COLOURS = {
    "succeeded": "green", "cached": "green", "failed": "bold red", "cancelled": "yellow", "cancelling": "yellow",
    "running": "cyan", "paused": "yellow",
}  # fmt: skip
_COLUMNS = (
    ("", "left"), ("step", "left"), ("state", "left"), ("took", "right"), ("machine", "left"), ("cost", "right"),
)  # fmt: skip
#: Characters that a machine keeps, those between columns, and the width from which machines are shown.
_LEAST, _GAP, _WIDE = 14, 2, 60
#: Steps in the order in which a full screen keeps them.
_INTEREST = ("failed", "running", "cancelling", "cancelled", "pending", "succeeded", "cached", "waiting")
#: Failed steps that are told in full, and lines of the error of one.
_TOLD, _LINES = 5, 20


def headline(run: Run, rows: Rows, now: datetime) -> Text:
    """`training-3f2a running 12m 03s, $1.23 so far, at most $14.20`; a step without a price is named."""
    seconds = run.seconds(now)
    text = Text.assemble((run.id, "bold"), " ", state(run.state), f" {took(seconds)}" if seconds is not None else "")
    if rows:
        spent, most = run_cost.so_far(run, rows, now), run_cost.at_most(run, rows)
        text.append(f", {one_line(spent.words)}{'' if run.over else ' so far'}")
        bound = f"can cost {one_line(most.words)}" if most.unpriced else f"at most {most}"
        text.append(f", {bound}", "dim")
    return text


def state(word: str) -> Text:
    return Text(word, COLOURS.get(word, "dim" if word in ("waiting", "not run", "not triggered") else ""))


def table(run: Run, rows: Rows, now: datetime, *, width: int, room: int = 0) -> RenderableType:
    """The steps on lines of at most `width`; with `room`, no more lines than that, the other steps counted in the last.

    Where it is narrow, a name loses its beginning and a machine its end.
    """
    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, _GAP, 0, 0))
    shown = _chosen(run.steps, room)
    columns = _COLUMNS if width >= _WIDE else tuple(each for each in _COLUMNS if each[0] != "machine")
    for title, justify in columns:
        drawn.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    lines = [_cells(step, rows, now) for step in shown]
    for line in _fitting(
        [[line[title] for title, _ in columns] for line in lines], [name for name, _ in columns], width
    ):
        drawn.add_row(*line)
    if len(shown) == len(run.steps):
        return drawn
    left = Counter(step.state for step in run.steps) - Counter(step.state for step in shown)
    counted = ", ".join(f"{number} {word}" for word, number in left.items())
    return Group(drawn, _cut(Text(f"and {counted}", "dim"), width, tail=False))


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
        text += f" after {took(seconds)}"
        text += f", {usd(run_cost.spent(step, rows, now))}" if where else ""
    return one_line(f"{text}: {step.error}" if step.error else text, 500)


def _chosen(steps: Sequence[Step], room: int) -> list[Step]:
    if not room or len(steps) <= room:
        return list(steps)
    rank = {word: number for number, word in enumerate(_INTEREST)}
    kept = sorted(range(len(steps)), key=lambda index: (rank.get(steps[index].state, len(rank)), index))[: room - 1]
    return [steps[index] for index in sorted(kept)]


def _fitting(lines: list[list[Text]], titles: Sequence[str], width: int) -> list[list[Text]]:
    """Cuts machines and names, so that the lines are no wider; the other columns stay whole."""
    widths = [max([len(title), *(line[at].cell_len for line in lines)]) for at, title in enumerate(titles)]
    excess = max(0, sum(widths) + _GAP * (len(widths) - 1) - width)
    for title, least in (("machine", _LEAST), ("step", 2)):
        if title in titles:
            at = titles.index(title)
            kept = max(widths[at] - excess, min(widths[at], least))
            excess -= widths[at] - kept
            for line in lines:
                line[at] = _cut(line[at], kept, tail=title == "step")
    return lines


def _cut(text: Text, width: int, *, tail: bool) -> Text:
    """`text` in no more than `width` cells; with `tail` its end is kept."""
    if text.cell_len <= width:
        return text
    if not tail:
        text.truncate(width, overflow="ellipsis")
        return text
    plain = text.plain
    while plain and cell_len(plain) > width - 1:
        plain = plain[1:]
    return Text(f"…{plain}", text.style)


def _cells(step: Step, rows: Rows, now: datetime) -> dict[str, Text]:
    seconds, where = step.seconds(now), run_cost.machine(step, rows)
    word = f"{step.state}, try {len(step.jobs)}" if step.state == "running" and len(step.jobs) > 1 else step.state
    cost = usd(run_cost.spent(step, rows, now)) if seconds is not None and where else ""
    colour = COLOURS.get(step.state, "dim")
    return {
        "": Text(MARKS.get(step.state, "●" if step.state == "running" else "·"), colour),
        "step": Text(one_line(step.name)),
        "state": Text(word, colour),
        "took": Text(took(seconds) if seconds is not None else ""),
        "machine": Text(where, "" if seconds is not None else "dim"),
        "cost": Text(cost),
    }


def _failure(run: Run, step: Step, settings: Settings, rows: Rows) -> Text:
    text = Text.assemble(
        (f"{one_line(step.name)} failed: ", "bold red"), _error(step.error or "Google gives no reason")
    )
    machines = next(iter(run_cost.of(step, rows)), None)
    lines = advice(step.error, settings, machines=machines).splitlines()
    for line in [*lines, f"pipelines logs {run.id} {one_line(step.name)}"]:
        text.append(f"\n  {line}")
    return text.append(f"\n  {link(settings, run, [step])}", "dim")


def _error(text: str) -> str:
    lines = printable(text).strip().splitlines()
    more = [f"… {len(lines) - _LINES} more lines"] if len(lines) > _LINES else []
    return "\n  ".join([*lines[:_LINES], *more])
