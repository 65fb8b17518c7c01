"""`pipelines logs`: what the steps of a run wrote, from Cloud Logging, merged by time.

Cloud Logging is read over HTTP: https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from vgp.errors import RequestError
from vgp.settings import Settings
from vgp.text.printable import one_line, printable
from vgp.text.times import rfc3339
from vgp.vertex import clients
from vgp.vertex.errors import explained
from vgp.vertex.patience import Clock, Patience
from vgp.vertex.runs.custom_jobs import with_started
from vgp.vertex.runs.log_filter import chosen, expressions
from vgp.vertex.runs.search import since as begin_of
from vgp.vertex.runs.state import Run, read
from vgp.vertex.runs.steps import Step

_PAGE = 1000
#: Seconds between two looks; entries arrive late and out of order, so each look overlaps the one before by _LATE_S.
_LOOK_S, _LATE_S = 5.0, 60.0
#: Looks after the end of the run, for the last lines; one is enough where the end is longer ago than _LATE_S.
_LAST_LOOKS = 3


@dataclass(frozen=True)
class Entry:
    """One log entry. `replica` is the machine: workerpool0-0 is the chief."""

    time: datetime
    step: str
    replica: str
    severity: str
    message: str
    #: Google's id of it.
    id: str

    def as_json(self) -> dict[str, Any]:
        shown = {name: getattr(self, name) for name in ("step", "replica", "severity", "message")}
        return {"time": rfc3339(self.time), **shown}

    def as_text(self) -> str:
        """`14:03:07 train workerpool1-0 ERROR message`; further lines of a message are indented."""
        where = " ".join(filter(None, [one_line(self.step), one_line(self.replica)]))
        lines = printable(self.message).splitlines() or [""]
        head = f"{self.time.astimezone():%b %d %H:%M:%S} {where} {self.severity:<7} {lines[0]}"
        return "\n".join([head, *(f"    {line}" for line in lines[1:])])


@dataclass(frozen=True)
class Wanted:
    """Which entries: of one step or of all, since when (7d, a date), at least how severe, how many of the newest."""

    step: str | None = None
    since: str = ""
    severity: str = ""
    limit: int = 1000

    def steps(self, run: Run) -> list[Step] | None:
        return chosen(run, self.step) if self.step else None


def entries(settings: Settings, run: Run, wanted: Wanted, *, clock: Clock | None = None) -> list[Entry]:
    """The newest entries that are wanted, oldest first. `run` has its custom jobs (custom_jobs.py).

    Raises:
        RequestError: there is no such step, or it has not run.
        WorkFailed: Google refused or could not be reached.
    """
    if wanted.limit < 0:
        raise RequestError(f"--limit {wanted.limit}: give a number of lines, or 0 for all.")
    begin = begin_of(wanted.since, (clock or Clock()).now()) if wanted.since else None
    texts = expressions(run, wanted.steps(run), begin=begin, severity=wanted.severity)
    client = clients.logging(settings)
    with explained("read the logs", settings):
        again = clients.reading()["retry"]
        found = [each for text in texts for each in again(_list)(client, run, text, wanted.limit)]
    ordered = sorted(found, key=lambda each: (each.time, each.id))
    return ordered[-wanted.limit :] if wanted.limit else ordered


def following(
    settings: Settings, job_name: str, wanted: Wanted, patience: Patience, *, clock: Clock | None = None
) -> Iterator[Entry]:
    """The newest entries that are wanted, and then each new one until the run has ended. Loss of the network is
    waited for.
    """
    clock = clock or Clock()
    jobs, client = clients.pipeline_service(settings), clients.logging(settings)
    seen: set[str] = set()
    begin = begin_of(wanted.since, clock.now()) if wanted.since else None
    looks = 0
    while looks < _LAST_LOOKS:
        with explained("follow the logs", settings):
            run = read(patience(lambda: jobs.get_pipeline_job(name=job_name, **clients.once())))
            run = patience(lambda run=run: with_started(settings, run, calls=clients.once))  # type: ignore[misc]
            settled = run.ended is not None and (clock.now() - run.ended).total_seconds() > _LATE_S
            looks = _LAST_LOOKS if settled else looks + 1 if run.over else 0
            found = _new(patience, client, run, wanted, begin, seen)
        yield from found
        if found:
            begin = max(found[-1].time - timedelta(seconds=_LATE_S), begin or found[0].time)
        if looks < _LAST_LOOKS:
            clock.pause(_LOOK_S)


def _new(
    patience: Patience, client: Any, run: Run, wanted: Wanted, begin: datetime | None, seen: set[str]
) -> list[Entry]:
    """Entries that were not seen before; the first time, no more than the newest `limit`."""
    try:
        steps = wanted.steps(run)
    except RequestError:  # a step that waits has no log yet; a name that is wrong was refused before
        return []
    found: list[Entry] = []
    limit = 0 if seen else wanted.limit
    for text in expressions(run, steps, begin=begin, severity=wanted.severity):
        found += patience(lambda text=text: _list(client, run, text, limit))  # type: ignore[misc]
    new = sorted((each for each in found if each.id not in seen), key=lambda each: (each.time, each.id))
    seen.update(each.id for each in new)
    return new[-limit:] if limit else new


def _list(client: Any, run: Run, text: str, limit: int) -> list[Entry]:
    """Newest first where only some are wanted; all pages."""
    order = "timestamp desc" if limit else "timestamp asc"
    steps = {job: step.name for step in run.steps for job in step.jobs}
    size = min(limit or _PAGE, _PAGE)
    listed = client.list_entries(filter_=text, order_by=order, page_size=size, max_results=limit or None)
    return [_entry(each, steps) for each in listed]


def _entry(given: Any, steps: Mapping[str, str]) -> Entry:
    labels = (given.resource.labels if given.resource else None) or {}
    payload = given.payload
    if isinstance(payload, Mapping):
        step = steps.get(labels.get("job_id", ""), str(payload.get("taskName", "")))
    else:
        step = steps.get(labels.get("job_id", ""), "")
    time = given.timestamp or given.received_timestamp
    return Entry(
        time=time, step=step, replica=labels.get("task_name", ""), severity=_severity(given.severity),
        message=_message(payload), id=f"{given.log_name} {given.insert_id} {rfc3339(time)}",
    )  # fmt: skip


def _severity(given: Any) -> str:
    return one_line(given or "DEFAULT", 9)


def _message(payload: Any) -> str:
    """Text as it is, the message of a structured entry, else the entry as JSON."""
    if not isinstance(payload, Mapping):
        return "" if payload is None else str(payload)
    message = payload.get("message")
    if isinstance(message, str):
        return message
    return json.dumps({key: value for key, value in payload.items() if key != "@type"}, sort_keys=True, default=str)


def lines(found: Iterable[Entry], *, as_json: bool) -> Iterator[str]:
    """One text for each entry; with --json one JSON document a line."""
    for each in found:
        yield json.dumps(each.as_json()) if as_json else each.as_text()
