"""Two plans of a ladder compared: which rungs come and go, and what differs in those that stay."""

import json
import re
from collections.abc import Iterator
from typing import Any

from vgp.check.spec.dag import Json, table
from vgp.check.spec.leaves import leaves

_NUMBER = re.compile(r"^\d+-")
#: What jobs run: not told, only that it differs.
_PROGRAM = ("command", "args")


def differences(before: Json, after: Json) -> Iterator[tuple[str, Any, Any]]:
    """Fields with both values: rungs, or rung 2-spot-us-central1: machineSpec.machineType; of several rungs once."""
    old, new = _rungs(before), _rungs(after)
    if names(before) != names(after):
        yield "rungs", ", ".join(names(before)), ", ".join(names(after))
    kept = [key for key in new if key in old]
    where: dict[str, list[str]] = {}
    for key in kept:
        for change in _changed(_of_rung(old[key]), _of_rung(new[key])):
            where.setdefault(json.dumps(change), []).append(_name(new[key]))
    for told, rungs in where.items():
        field, old_value, new_value = json.loads(told)
        whose = "every rung" if len(rungs) == len(kept) > 1 else f"rung {', '.join(rungs)}"
        yield f"{whose}: {field}", old_value, new_value
    yield from _changed(*(leaves({**plan, "rungs": None}) for plan in (before, after)))


def names(plan: Json) -> list[str]:
    return [_name(rung) for rung in _rungs(plan).values()]


def program(plan: Json) -> list[Any]:
    """What the jobs of all rungs run, which they share."""
    return list({json.dumps(_split(rung)[1]): None for rung in _rungs(plan).values()})


def _rungs(plan: Json) -> dict[str, Json]:
    """By size, way and region, and a number where there are more of them: the place of a rung changes with others."""
    found: dict[str, Json] = {}
    rungs = plan.get("rungs")
    for rung in rungs if isinstance(rungs, list) else ():
        key = _NUMBER.sub("", _name(table(rung)))
        found[f"{key} {sum(known.startswith(f'{key} ') for known in found)}"] = table(rung)
    return found


def _name(rung: Json) -> str:
    return f"{rung.get('size') or ''} {rung.get('name')}".strip()


def _of_rung(rung: Json) -> dict[str, Any]:
    """Its fields; a job's by their own names, without the way to them."""
    fields = _split(rung)[0]
    return {_short(way): round(value, 4) if isinstance(value, float) else value for way, value in fields.items()}


def _short(way: str) -> str:
    for prefix in ("job.", "jobSpec.", "workerPoolSpecs."):
        way = way.removeprefix(prefix)
    return way


def _split(rung: Json) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a rung asks for, and what runs on it."""
    every = leaves({**rung, "name": None})
    programs = {way: value for way, value in every.items() if way.rsplit(".", 1)[-1] in _PROGRAM}
    return {way: value for way, value in every.items() if way not in programs}, programs


def _changed(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for way in dict.fromkeys([*old, *new]):
        if old.get(way) != new.get(way):
            yield way, old.get(way), new.get(way)
