"""The report's section on the capacity ladder: the attempts of the step that made the model, from `ladder.json`."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.text.figures import format_count, format_duration, format_usd
from vgp.protocol import file_names, run_folder
from vgp.protocol.capacity.ladder_view import Attempt, LadderView, read

NAME = file_names.LADDER
#: Maximum bytes of a document, and maximum number of attempts in the table.
_MOST_BYTES, MOST_ROWS = 4_000_000, 50


@dataclass(frozen=True)
class Row:
    """A row of the table: one attempt, or the total of all."""

    number: str
    rung: str
    region: str
    held: str
    usd: str
    steps: str
    lost: str
    ended: str


@dataclass(frozen=True)
class Section:
    """The table of one step's ladder."""

    step: str
    #: The run of the attempts; an earlier run if this run took the model from the cache.
    run: str
    deadline: str
    rows: tuple[Row, ...]
    left_out: int
    total: Row
    #: A sentence about the jobs that waited for Spot; "" if there were none.
    waiting: str
    #: Days of the prices, such as `2026-07-09 to 2026-07-30`; "" if unknown.
    price_days: str


def context(model: str | Path) -> dict[str, object]:
    """Returns the template values of the ladders of the run that made the model; no sections without a ladder.

    Args:
        model: The path of the model, as passed to the step.
    """
    run = run_folder.parse(model)
    if run is None:
        return {"ways": []}
    try:
        paths = [file.path for file in storage.below(f"{run.root}/capacity/{run.run}")]
        found = [way for path in paths if path.endswith(f"/{NAME}") and (way := _read_ladder(path)) and way.attempts]
    except (UserError, OSError) as error:
        print(f"warning: the report lacks the attempts of the ladder: {error}", file=sys.stderr, flush=True)
        found = []
    return {"ways": [_build_section(way) for way in sorted(found, key=lambda way: way.step)]}


def _read_ladder(path: str) -> LadderView | None:
    try:
        return read(json.loads(storage.read(path, most=_MOST_BYTES, links=False)))
    except ValueError:
        return None


def _build_section(way: LadderView) -> Section:
    rows = tuple(map(_build_row, way.attempts[-MOST_ROWS:]))
    deadline = f"{way.deadline:%Y-%m-%d %H:%M}" if way.deadline else ""
    days = " to ".join(dict.fromkeys([*way.price_dates[:1], *way.price_dates[-1:]]))
    left_out = len(way.attempts) - len(rows)
    return Section(way.step, way.run, deadline, rows, left_out, _build_total(way), _describe_waiting(way), days)


def _build_row(attempt: Attempt) -> Row:
    succeeded = attempt.outcome == "succeeded" or not attempt.words
    return Row(
        number=str(attempt.number),
        rung=attempt.rung,
        region=attempt.region,
        held=format_duration(attempt.hours * 3600) if attempt.hours else "",
        usd=format_usd(attempt.usd) if attempt.hours else "",
        steps=attempt.steps,
        lost=f"{attempt.steps_lost:,}" if attempt.steps_lost else "",
        ended=attempt.state if succeeded else f"{attempt.state}: {attempt.words}",
    )


def _build_total(way: LadderView) -> Row:
    rungs = format_count(len({attempt.rung for attempt in way.attempts}), "rung")
    hours = sum(attempt.hours for attempt in way.attempts) + way.waiting.hours
    cost = format_usd(way.usd) if way.is_priced else f"at least {format_usd(way.usd)}"
    return Row(
        "", rungs, "", format_duration(hours * 3600), cost, "", f"{way.steps_lost:,}" if way.steps_lost else "", ""
    )


def _describe_waiting(way: LadderView) -> str:
    waiting = way.waiting
    if not waiting.asked:
        return ""
    asked = f"Spot was asked for {format_count(waiting.asked, 'time')} while the work went on"
    vain = (
        f"; {format_duration(waiting.hours * 3600)} for {format_usd(waiting.usd)} were held in vain"
        if waiting.hours
        else ""
    )
    return f"{asked}, and {waiting.granted} got machines{vain}."
