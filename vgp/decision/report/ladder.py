"""The report's section on the way up a ladder: the attempts of the step that made the model, from `ladder.json`."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.text.figures import format_count, format_duration, format_usd
from vgp.protocol import file_names, run_folder
from vgp.protocol.capacity.ladder_view import Attempt, Way, read

NAME = file_names.LADDER
#: Bytes of a document that is read, and attempts that are shown.
_MOST_BYTES, MOST_ROWS = 4_000_000, 50


@dataclass(frozen=True)
class Row:
    """An attempt, or all of them, as the table has it."""

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
    """The way of one step."""

    step: str
    #: The run that climbed it: an earlier one, where this run took the model from the cache.
    run: str
    deadline: str
    rows: tuple[Row, ...]
    left_out: int
    total: Row
    #: The jobs that waited for Spot meanwhile, in words; empty where there were none.
    waiting: str
    #: Of which days the prices are: `2026-07-09 to 2026-07-30`; empty where they are not known.
    price_days: str


def context(model: str | Path) -> dict[str, object]:
    """What the page shows of the ladders of the run that made the model; nothing where there was none.

    Args:
        model: The path of the model, as the step was given it.
    """
    run = run_folder.parse(model)
    if run is None:
        return {"ways": []}
    try:
        paths = [file.path for file in storage.below(f"{run.root}/capacity/{run.run}")]
        found = [way for path in paths if path.endswith(f"/{NAME}") and (way := _way(path)) and way.attempts]
    except (UserError, OSError) as error:
        print(f"warning: the report lacks the way up the ladder: {error}", file=sys.stderr, flush=True)
        found = []
    return {"ways": [_section(way) for way in sorted(found, key=lambda way: way.step)]}


def _way(path: str) -> Way | None:
    try:
        return read(json.loads(storage.read(path, most=_MOST_BYTES, links=False)))
    except ValueError:
        return None


def _section(way: Way) -> Section:
    rows = tuple(map(_row, way.attempts[-MOST_ROWS:]))
    deadline = f"{way.deadline:%Y-%m-%d %H:%M}" if way.deadline else ""
    days = " to ".join(dict.fromkeys([*way.price_dates[:1], *way.price_dates[-1:]]))
    left_out = len(way.attempts) - len(rows)
    return Section(way.step, way.run, deadline, rows, left_out, _total(way), _waiting(way), days)


def _row(attempt: Attempt) -> Row:
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


def _total(way: Way) -> Row:
    rungs = format_count(len({attempt.rung for attempt in way.attempts}), "rung")
    hours = sum(attempt.hours for attempt in way.attempts) + way.waiting.hours
    cost = format_usd(way.usd) if way.is_priced else f"at least {format_usd(way.usd)}"
    return Row(
        "", rungs, "", format_duration(hours * 3600), cost, "", f"{way.steps_lost:,}" if way.steps_lost else "", ""
    )


def _waiting(way: Way) -> str:
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
