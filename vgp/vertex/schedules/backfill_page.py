"""The plan of a backfill and its results, as text and as JSON.

The step `resolve` records in the pins of a run which data it could read: {"seen": "state"}, the data of that night, if
the bucket keeps old versions of its objects, else {"seen": "windows"}.
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
from vgp.vertex.google_errors import explain_errors
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
#: Maximum length of a document of pins.
_MOST_BYTES = 1_000_000


def read_data_state(settings: Settings, run: Run) -> str:
    """Returns `state` or `windows`, or an empty string if the run has no such record or it cannot be read."""
    uri = attempts.pins(run)
    if not uri:
        return ""
    try:
        seen = _read_record(settings, uri).get("seen", "")
    except (ValueError, AttributeError, WorkFailed):  # deleted, not readable, or of another form
        return ""
    return seen if seen in (STATE, WINDOWS) else ""


def _read_record(settings: Settings, uri: str) -> Any:
    bucket, name = split_uri(uri)
    with explain_errors(f"read {uri}", settings):
        blob = clients.storage(settings).bucket(bucket).blob(name)
        return json.loads(blob.download_as_bytes(end=_MOST_BYTES, timeout=clients.ATTEMPT_S))


def summarize_plan(backfill: Backfill) -> str:
    """Returns a summary such as `31 nights of nightly: 29 to run, at most $12.00; 2 ran before`."""
    price = "at a price that is not known" if backfill.most_usd is None else f"at most {format_usd(backfill.most_usd)}"
    todo = f"{len(backfill.todo)} to run, {price}" if backfill.todo else "none to run"
    kinds = Counter(backfill.before[time].kind for time in backfill.times if not backfill.runs(time))
    good, active = sum(kinds[kind] for kind in GOOD), kinds[OPEN]
    failed = len(backfill.times) - len(backfill.todo) - good - active
    parts = [
        todo,
        *([f"{good} ran before"] if good else []),
        *([f"{active} going on"] if active else []),
        *([f"{failed} failed before (--retry runs them again)"] if failed else []),
    ]
    return f"{format_count(len(backfill.times), 'night')} of {backfill.name}: {'; '.join(parts)}"


def render_plan(backfill: Backfill) -> RenderableType:
    """Renders a row for each night, for --dry-run."""
    return table(
        ("night", "would be", "run"),
        [(_format_local(backfill, time), *_describe_plan(backfill, time)) for time in backfill.times],
        gap=2,
    )


def plan_json(backfill: Backfill) -> JsonObject:
    """Returns the plan for --dry-run --json."""
    rows = [
        {
            **_build_row(backfill, time),
            "would": _describe_plan(backfill, time)[0],
            "run": _describe_plan(backfill, time)[1] or None,
        }
        for time in backfill.times
    ]
    return {"schedule": backfill.name, "to_run": len(backfill.todo), "max_usd": backfill.most_usd, "nights": rows}


def render_results(settings: Settings, backfill: Backfill, runs: Mapping[datetime, Run]) -> RenderableType:
    """Renders every night with its run, the run's state, and the data that it could read."""
    records = {time: read_data_state(settings, run) for time, run in runs.items()}
    rows = [
        (_format_local(backfill, time), runs[time].id, render_state(runs[time].state), records[time] or "-")
        for time in backfill.times
        if time in runs
    ]
    words = [f"{seen}: {WORDS[seen]}" for seen in (STATE, WINDOWS) if seen in records.values()]
    return Group(
        table(("night", "run", "state", "saw"), rows, whole=("night", "state", "saw"), gap=2), *map(Text, words)
    )


def results_json(settings: Settings, backfill: Backfill, runs: Mapping[datetime, Run]) -> JsonObject:
    """Returns the results for --json."""
    rows = [
        {
            **_build_row(backfill, time),
            "run": runs[time].id,
            "state": runs[time].state,
            "seen": read_data_state(settings, runs[time]) or None,
            "url": resource_names.run_link(settings, runs[time].id),
        }
        for time in backfill.times
        if time in runs
    ]
    return {
        "schedule": backfill.name,
        "started": len(backfill.todo),
        "nights": rows,
        "exit_code": exit_code(backfill, runs),
    }


def exit_code(backfill: Backfill, runs: Mapping[datetime, Run]) -> int:
    """Returns 0 if all nights succeeded, 1 if one failed, 4 if nothing was started because all had ended before."""
    if all(not backfill.runs(time) and backfill.before[time].kind != OPEN for time in backfill.times):
        return NOTHING_STARTED
    return int(any(run.state != "succeeded" for run in runs.values()))


def _describe_plan(backfill: Backfill, time: datetime) -> tuple[str, str]:
    before = backfill.before.get(time)
    run = before.run.id if before and before.run else ""
    if backfill.runs(time):
        return ("run again" if before else "run"), run
    assert before
    return f"left: {before.kind}", run


def _build_row(backfill: Backfill, time: datetime) -> JsonObject:
    return {"time": rfc3339(time), "local": backfill.local(time).isoformat()}


def _format_local(backfill: Backfill, time: datetime) -> str:
    return f"{backfill.local(time):%a %Y-%m-%d %H:%M %Z}"
