"""The way up a ladder: on which rungs the model was trained, what each took and cost, and what preemptions lost.

The launcher of a step writes it down in the control folder of its run, and the path of the model tells which run that
was (vgp/protocol/run_folder.py): an earlier one where training was not needed again. A local run has none.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.text.figures import plural
from vgp.protocol import run_folder
from vgp.protocol.capacity import way as ways

NAME = "ladder.json"
FORMAT = 1
_MOST_BYTES = 4_000_000
#: Attempts in the table; the last ones.
MOST_ROWS = 50


@dataclass(frozen=True)
class Row:
    """An attempt, as a line of the table."""

    number: str
    rung: str
    region: str
    held: str
    usd: str
    steps: str
    lost: str
    ended: str


@dataclass(frozen=True)
class Way:
    """The way of one step."""

    step: str
    #: The run that climbed it: an earlier one, where this run took the model from the cache.
    run: str
    rows: tuple[Row, ...]
    left_out: int
    deadline: str
    total: Row
    #: The jobs that waited for Spot meanwhile, in words; empty where there were none.
    waiting: str
    #: Of which days the prices are that are reckoned with: `2026-07-09 to 2026-07-30`; empty where none is told.
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
        folder = f"{run.root}/capacity/{run.run}"
        paths = [file.path for file in storage.below(folder) if file.path.endswith(f"/{NAME}")]
        ways = [way for path in paths if (way := _way(_document(path)))]
    except (UserError, OSError) as error:
        print(f"warning: the report does not tell the way up the ladder: {error}", file=sys.stderr, flush=True)
        ways = []
    return {"ways": sorted(ways, key=lambda way: way.step)}


def _document(path: str) -> object:
    try:
        return json.loads(storage.read(path, most=_MOST_BYTES, links=False))
    except ValueError:
        return None


def _way(document: object) -> Way | None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        return None
    attempts = _tables(document.get("attempts"))
    rungs = {str(rung.get("name")): rung for rung in _tables(document.get("rungs"))}
    if not attempts:
        return None
    rows = tuple(_row(each, rungs) for each in attempts[-MOST_ROWS:])
    deadline = str(document.get("deadline") or "")[:16].replace("T", " ")
    waiting = ways.waiting_of(document)
    left_out, total = len(attempts) - len(rows), _total(attempts, waiting)
    days = _price_days([*attempts, *waiting], rungs)
    step, run = (str(document.get(key, "")) for key in ("step", "run"))
    return Way(step, run, rows, left_out, deadline, total, _waiting(waiting), days)


def _price_days(told: Sequence[Mapping[str, object]], rungs: dict[str, JsonObject]) -> str:
    """Of the rungs whose machines were held."""
    held = {str(each.get("rung")) for each in told if _amount(each.get("hours"))}
    days = sorted({str(rungs[name]["price_date"]) for name in held & rungs.keys() if rungs[name].get("price_date")})
    return " to ".join(dict.fromkeys([*days[:1], *days[-1:]]))


def _row(told: JsonObject, rungs: dict[str, JsonObject]) -> Row:
    rung = str(told.get("rung") or "")
    hours, to = _amount(told.get("hours")), _amount(told.get("step_to"))
    outcome = str(told.get("outcome") or "running").replace("_", " ")
    words = str(told.get("words") or "")
    return Row(
        number=f"{_amount(told.get('number')) or 0:.0f}",
        rung=rung,
        region=str(told.get("region") or rungs.get(rung, {}).get("region") or ""),
        held=_held(hours) if hours else "",
        usd=_usd(_amount(told.get("usd"))) if hours else "",
        steps="" if to is None else f"{_amount(told.get('step_from')) or 0:,.0f} to {to:,.0f}",
        lost=f"{lost:,.0f}" if (lost := _amount(told.get("steps_lost"))) else "",
        ended=f"{outcome}: {words}" if words and outcome != "succeeded" else outcome,
    )


def _waiting(waiting: Sequence[Mapping[str, object]]) -> str:
    if not waiting:
        return ""
    got = sum(each.get("outcome") == "granted" for each in waiting)
    asked = f"Spot was asked for {plural(len(waiting), 'time')} while the work went on, and {got} got machines"
    minutes = _sum(waiting, "hours") * 60
    return f"{asked}{f'; {minutes:.0f} min for {_cost(waiting)} were held in vain' if minutes else ''}."


def _total(attempts: Sequence[Mapping[str, object]], waiting: Sequence[Mapping[str, object]]) -> Row:
    """Of all machines."""
    hours, lost, usd = _sum([*attempts, *waiting], "hours"), _sum(attempts, "steps_lost"), _cost([*attempts, *waiting])
    tried = len({str(each.get("rung")) for each in attempts})
    return Row("", f"{tried} rung{'s' * (tried != 1)}", "", _held(hours), usd, "", f"{lost:,.0f}" if lost else "", "")


def _sum(told: Sequence[Mapping[str, object]], name: str) -> float:
    return sum(_amount(each.get(name)) or 0.0 for each in told)


def _cost(told: Sequence[Mapping[str, object]]) -> str:
    held = [_amount(each.get("usd")) for each in told if _amount(each.get("hours"))]
    usd = _usd(sum(each or 0.0 for each in held))
    return usd if None not in held else f"at least {usd}"


def _tables(value: object) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value >= 0 and math.isfinite(value) else None


def _held(hours: float) -> str:
    minutes = round(hours * 60)
    return f"{minutes // 60} h {minutes % 60:02} min"


def _usd(amount: float | None) -> str:
    return "no price" if amount is None else f"${amount:,.2f}"
