"""The plan of a backfill and its results, as text and as JSON.

Whether a run that looked back could see the state of its time, its step `resolve` wrote into its pins:
{"seen": "state"} where the bucket keeps old versions of its
objects, {"seen": "windows"} where it does not.
"""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import WorkFailed
from vgp.base.text.figures import format_count, format_usd, table
from vgp.base.text.google_names import split_uri
from vgp.base.text.times import rfc3339
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.runs import attempts
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.run_view import render_state
from vgp.vertex.runs.start_policy import NOTHING_STARTED
from vgp.vertex.schedules.backfill import Backfill
from vgp.vertex.schedules.scheduled_nights import GOOD, OPEN

STATE, WINDOWS = "state", "windows"
WORDS = {
    STATE: "the data as it was that night",
    WINDOWS: "today's data, through that night's windows: what was replaced or deleted since is gone",
    "": "unknown",
}
#: Pins of a run are short; what is longer is none.
_MOST_BYTES = 1_000_000


def read_data_state(settings: Settings, run: Run) -> str:
    """`state`, `windows`, or an empty string if the run does not record it or cannot be read."""
    uri = attempts.pins(run)
    if not uri:
        return ""
    try:
        told = _read_record(settings, uri).get("seen", "")
    except (ValueError, AttributeError, WorkFailed):  # deleted, not readable, or of another form
        return ""
    return told if told in (STATE, WINDOWS) else ""


def _read_record(settings: Settings, uri: str) -> Any:
    bucket, name = split_uri(uri)
    with explained(f"read {uri}", settings):
        blob = clients.storage(settings).bucket(bucket).blob(name)
        return json.loads(blob.download_as_bytes(end=_MOST_BYTES, timeout=clients.ATTEMPT_S))


def summarize_plan(made: Backfill) -> str:
    """`31 nights of nightly: 29 to run, at most $12.00; 2 ran before`."""
    price = "at a price that is not known" if made.most_usd is None else f"at most {format_usd(made.most_usd)}"
    todo = f"{len(made.todo)} to run, {price}" if made.todo else "none to run"
    kinds = Counter(made.before[time].kind for time in made.times if not made.runs(time))
    good, going = sum(kinds[kind] for kind in GOOD), kinds[OPEN]
    left = len(made.times) - len(made.todo) - good - going
    parts = [
        todo,
        *([f"{good} ran before"] if good else []),
        *([f"{going} going on"] if going else []),
        *([f"{left} failed before (--retry runs them again)"] if left else []),
    ]
    return f"{format_count(len(made.times), 'night')} of {made.name}: {'; '.join(parts)}"


def render_plan(made: Backfill) -> RenderableType:
    """What would be run, for --dry-run."""
    return table(("night", "would be", "run"), [(_when(made, time), *_plan(made, time)) for time in made.times], gap=2)


def plan_json(made: Backfill) -> JsonObject:
    """The same for --json."""
    rows = [
        {**_row(made, time), "would": _plan(made, time)[0], "run": _plan(made, time)[1] or None} for time in made.times
    ]
    return {"schedule": made.name, "to_run": len(made.todo), "max_usd": made.most_usd, "nights": rows}


def render_results(settings: Settings, made: Backfill, runs: Mapping[datetime, Run]) -> RenderableType:
    """Every night with its run, how that ended, and what it could see."""
    records = {time: read_data_state(settings, run) for time, run in runs.items()}
    rows = [
        (_when(made, time), runs[time].id, render_state(runs[time].state), records[time] or "-")
        for time in made.times
        if time in runs
    ]
    words = [f"{what}: {WORDS[what]}" for what in (STATE, WINDOWS) if what in records.values()]
    return Group(
        table(("night", "run", "state", "saw"), rows, whole=("night", "state", "saw"), gap=2), *map(Text, words)
    )


def done_json(settings: Settings, made: Backfill, runs: Mapping[datetime, Run]) -> JsonObject:
    """The same for --json."""
    rows = [
        {
            **_row(made, time),
            "run": runs[time].id,
            "state": runs[time].state,
            "seen": read_data_state(settings, runs[time]) or None,
            "url": resource_names.run_link(settings, runs[time].id),
        }
        for time in made.times
        if time in runs
    ]
    return {"schedule": made.name, "started": len(made.todo), "nights": rows, "exit_code": exit_code(made, runs)}


def exit_code(made: Backfill, runs: Mapping[datetime, Run]) -> int:
    """0: all nights ended well; 1: one did not; 4: nothing was started, since all had ended before."""
    if all(not made.runs(time) and made.before[time].kind != OPEN for time in made.times):
        return NOTHING_STARTED
    return int(any(run.state != "succeeded" for run in runs.values()))


def _plan(made: Backfill, time: datetime) -> tuple[str, str]:
    before = made.before.get(time)
    run = before.run.id if before and before.run else ""
    if made.runs(time):
        return ("run again" if before else "run"), run
    assert before
    return f"left: {before.kind}", run


def _row(made: Backfill, time: datetime) -> JsonObject:
    return {"time": rfc3339(time), "local": made.local(time).isoformat()}


def _when(made: Backfill, time: datetime) -> str:
    return f"{made.local(time):%a %Y-%m-%d %H:%M %Z}"
