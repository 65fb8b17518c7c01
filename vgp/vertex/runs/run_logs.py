"""`vgp logs`: what the steps of a run wrote, from Cloud Logging, merged by time.

Cloud Logging is read over HTTP: https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from vgp.base.clock import Clock
from vgp.base.errors import RequestError
from vgp.base.text.printable import one_line, printable
from vgp.base.text.times import rfc3339
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explained
from vgp.vertex.patient_reads import Patience
from vgp.vertex.runs import run_search
from vgp.vertex.runs.custom_jobs import with_started, with_started_if_told
from vgp.vertex.runs.log_filter import chosen, expressions, known, link
from vgp.vertex.runs.remote_run import Run, read
from vgp.vertex.runs.run_search import since
from vgp.vertex.runs.run_steps import Step

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
class Selection:
    """Which entries: of one step or of all, since when (7d, a date), at least how severe, how many of the newest."""

    step: str | None = None
    since: str = ""
    severity: str = ""
    limit: int = 1000

    def steps(self, run: Run) -> list[Step] | None:
        return chosen(run, self.step) if self.step else None


def of_run(
    settings: Settings, reference: str, selection: Selection, *, follow: bool, tell: Callable[[str], None]
) -> Iterator[Entry]:
    """What the run wrote, and with `follow` goes on to write; `tell` gets the link to the same entries, and what drops.

    Raises:
        RequestError: there is no such run or step, or the step has not run.
        WorkFailed: Google refused or could not be reached.
    """
    run = with_started_if_told(settings, run_search.find(settings, reference))
    steps = known(run, selection.step) if selection.step else None
    tell(link(settings, run, steps))
    if follow:
        return following(settings, run.name, selection, Patience(tell, Clock()))
    return iter(entries(settings, run, selection))


def entries(settings: Settings, run: Run, selection: Selection, *, clock: Clock | None = None) -> list[Entry]:
    """The newest entries of the selection, oldest first. `run` has its custom jobs (custom_jobs.py).

    Raises:
        RequestError: there is no such step, or it has not run.
        WorkFailed: Google refused or could not be reached.
    """
    if selection.limit < 0:
        raise RequestError(f"--limit {selection.limit}: give a number of lines, or 0 for all.")
    begin = since(selection.since, (clock or Clock()).moment()) if selection.since else None
    texts = expressions(run, selection.steps(run), begin=begin, severity=selection.severity)
    client = clients.logging(settings)
    with explained("read the logs", settings):
        again = clients.reading()["retry"]
        read_all = [entry for text in texts for entry in again(_list)(client, run, text, selection.limit)]
    ordered = sorted(read_all, key=_order)
    return ordered[-selection.limit :] if selection.limit else ordered


def following(
    settings: Settings, job_name: str, selection: Selection, patience: Patience, *, clock: Clock | None = None
) -> Iterator[Entry]:
    """The newest entries of the selection, and then each new one until the run has ended. Loss of the network is
    waited for.
    """
    clock = clock or Clock()
    jobs, client = clients.pipeline_service(settings), clients.logging(settings)
    seen: set[str] = set()
    begin = since(selection.since, clock.moment()) if selection.since else None
    looks = 0
    while looks < _LAST_LOOKS:
        with explained("follow the logs", settings):
            run = read(patience(lambda: jobs.get_pipeline_job(name=job_name, **clients.once())))
            run = patience(lambda run=run: with_started(settings, run, calls=clients.once))  # type: ignore[misc]
            complete = run.ended is not None and (clock.moment() - run.ended).total_seconds() > _LATE_S
            looks = _LAST_LOOKS if complete else looks + 1 if run.over else 0
            new = _new(patience, client, run, selection, begin, seen)
        yield from new
        if new:
            begin = max(new[-1].time - timedelta(seconds=_LATE_S), begin or new[0].time)
        if looks < _LAST_LOOKS:
            clock.sleep(_LOOK_S)


def _new(
    patience: Patience, client: Any, run: Run, selection: Selection, begin: datetime | None, seen: set[str]
) -> list[Entry]:
    """Entries that were not seen before; the first time, no more than the newest `limit`."""
    try:
        steps = selection.steps(run)
    except RequestError:  # a step that waits has no log yet; a name that is wrong was refused before
        return []
    entries: list[Entry] = []
    limit = 0 if seen else selection.limit
    for text in expressions(run, steps, begin=begin, severity=selection.severity):
        entries += patience(lambda text=text: _list(client, run, text, limit))  # type: ignore[misc]
    new = sorted((entry for entry in entries if entry.id not in seen), key=_order)
    seen.update(entry.id for entry in new)
    return new[-limit:] if limit else new


def _list(client: Any, run: Run, text: str, limit: int) -> list[Entry]:
    """Newest first where only some are wanted; all pages."""
    order = "timestamp desc" if limit else "timestamp asc"
    steps = {job: step.name for step in run.steps for job in step.jobs}
    size = min(limit or _PAGE, _PAGE)
    listed = client.list_entries(filter_=text, order_by=order, page_size=size, max_results=limit or None)
    return [_entry(message, steps) for message in listed]


def _entry(message: Any, steps: Mapping[str, str]) -> Entry:
    labels = (message.resource.labels if message.resource else None) or {}
    payload = message.payload
    task = str(payload.get("taskName", "")) if isinstance(payload, Mapping) else ""
    time = message.timestamp or message.received_timestamp
    return Entry(
        time=time, step=steps.get(labels.get("job_id", ""), task), replica=labels.get("task_name", ""),
        severity=one_line(message.severity or "DEFAULT", 9), message=_message(payload),
        id=f"{message.log_name} {message.insert_id} {rfc3339(time)}",
    )  # fmt: skip


def _order(entry: Entry) -> tuple[datetime, str]:
    return entry.time, entry.id


def _message(payload: Any) -> str:
    """Text as it is, the message of a structured entry, else the entry as JSON."""
    if not isinstance(payload, Mapping):
        return "" if payload is None else str(payload)
    message = payload.get("message")
    if isinstance(message, str):
        return message
    return json.dumps({key: value for key, value in payload.items() if key != "@type"}, sort_keys=True, default=str)


def lines(entries: Iterable[Entry], *, as_json: bool) -> Iterator[str]:
    """One text for each entry; with --json one JSON document a line."""
    for entry in entries:
        yield json.dumps(entry.as_json()) if as_json else entry.as_text()
