"""`vgp logs`: what the steps of a run wrote, from Cloud Logging, merged by time.

A step runs as a custom job of Google's, whose output has the resource ml_job with the job's number; what the service
writes about the run itself has the resource PipelineJob. Cloud Logging is read over HTTP.
https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
https://cloud.google.com/logging/docs/view/logging-query-language
https://cloud.google.com/vertex-ai/docs/pipelines/logging
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from vgp.base.clock import Clock
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import one_line, printable
from vgp.base.text.times import rfc3339
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.clients import project
from vgp.vertex.google_errors import explained
from vgp.vertex.patient_reads import Patience
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import Run, Step, read
from vgp.vertex.runs.run_search import quoted, since
from vgp.vertex.runs.step_jobs import with_started, with_started_if_told

if TYPE_CHECKING:
    from google.cloud.logging import Client as LoggingClient

#: https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry#LogSeverity
SEVERITIES = ("DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
#: Job numbers in one filter, which may have 20,000 characters.
_JOBS = 200

_PAGE = 1000
#: Seconds between two looks; entries arrive late and out of order, so each look overlaps the one before by _LATE_S.
_LOOK_S, _LATE_S = 5.0, 60.0
#: Looks after the end of the run, for the last lines; one is enough where the end is longer ago than _LATE_S.
_LAST_LOOKS = 3


def expressions(
    run: Run, steps: Sequence[Step] | None, *, begin: datetime | None = None, severity: str = "", end: str = ""
) -> Iterator[str]:
    """Filters that together find the entries of `steps`, or with None of every step and of the run itself.

    Several only where there are very many steps. `begin` is the earliest time; by default that of the run.
    """
    jobs = list(dict.fromkeys(job for step in (run.steps if steps is None else steps) for job in step.jobs))
    around = [f'timestamp>="{rfc3339(begin or run.created)}"'] if begin or run.created else []
    around += [f'timestamp<"{end}"'] if end else []
    around += [f"severity>={_severity(severity)}"] if severity else []
    for some in _batches(jobs):
        any_of = f"({' OR '.join(map(quoted, some))})" if len(some) > 1 else quoted(some[0])
        yield " AND ".join(['resource.type="ml_job"', f"resource.labels.job_id={any_of}", *around])
    if steps is None:
        place = 'resource.type="aiplatform.googleapis.com/PipelineJob"'
        yield " AND ".join([place, f"resource.labels.pipeline_job_id={quoted(run.id)}", *around])


def link(settings: Settings, run: Run, steps: Sequence[Step] | None) -> str:
    """The same entries in the console's Logs Explorer."""
    texts = list(expressions(run, steps))
    query = texts[0] if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)
    page = f"query;query={quote(query, safe='')}" if texts else "query"
    return f"https://console.cloud.google.com/logs/{page}?project={quote(project(settings))}"


def chosen(run: Run, name: str) -> list[Step]:
    """The steps called `name` that have logs: see `known`.

    Raises:
        RequestError: there is none, or none that has started.
    """
    steps = known(run, name)
    if not any(step.jobs for step in steps):
        states = ", ".join(dict.fromkeys(step.state for step in steps))
        raise RequestError(f"{name} of {run.id} has no log: it is {states} and did not run on a machine.")
    return steps


def known(run: Run, name: str) -> list[Step]:
    """The steps called `name`: one by its full name, or all iterations and inner steps of that name.

    Raises:
        RequestError: there is none.
    """
    steps = [step for step in run.steps if name in (step.name, step.path, step.task)]
    steps = steps or [step for step in run.steps if step.name.startswith(f"{name}/")]
    if not steps:
        raise RequestError(f"{run.id} has no step {name}. {did_you_mean(name, [step.name for step in run.steps])}")
    return steps


def _severity(name: str) -> str:
    if name.upper() not in SEVERITIES:
        raise RequestError(f"--severity {name}: {did_you_mean(name.upper(), SEVERITIES)}")
    return name.upper()


def _batches(jobs: Sequence[str]) -> Iterable[Sequence[str]]:
    return [jobs[first : first + _JOBS] for first in range(0, len(jobs), _JOBS)]


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

    def as_json(self) -> JsonObject:
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
    """
    run = with_started_if_told(settings, run_search.find(settings, reference))
    steps = known(run, selection.step) if selection.step else None
    tell(link(settings, run, steps))
    if follow:
        return following(settings, run.name, selection, Patience(tell, Clock()))
    return iter(entries(settings, run, selection))


def entries(settings: Settings, run: Run, selection: Selection, *, clock: Clock | None = None) -> list[Entry]:
    """The newest entries of the selection, oldest first. `run` has its custom jobs (step_jobs.py).

    Raises:
        RequestError: there is no such step, or it has not run.
    """
    if selection.limit < 0:
        raise RequestError(f"--limit {selection.limit}: give a number of lines, or 0 for all.")
    begin = since(selection.since, (clock or Clock()).moment()) if selection.since else None
    texts = expressions(run, selection.steps(run), begin=begin, severity=selection.severity)
    client = clients.logging(settings)
    with explained("read the logs", settings):
        again = clients.repeating()
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
    patience: Patience, client: "LoggingClient", run: Run, selection: Selection, begin: datetime | None, seen: set[str]
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


def _list(client: "LoggingClient", run: Run, text: str, limit: int) -> list[Entry]:
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


def _message(payload: object) -> str:
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
