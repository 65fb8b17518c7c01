"""`vgp logs`: the log entries of a run's steps from Cloud Logging, in the order of time.

The entries of a step have the resource ml_job, with the id of its custom job; entries of Vertex AI on the run have the
resource PipelineJob.
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
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.patient_reads import Patience
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import Run, Step, read
from vgp.vertex.runs.run_search import parse_since, quote_literal
from vgp.vertex.runs.step_jobs import with_started_jobs, with_started_jobs_if_allowed

if TYPE_CHECKING:
    from google.cloud.logging import Client as LoggingClient

#: https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry#LogSeverity
SEVERITIES = ("DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
#: The most job ids in one filter, which may have 20,000 characters.
_MAX_JOBS = 200

_PAGE = 1000
#: Seconds between two polls, and their overlap, because entries arrive late and out of order.
_POLL_S, _LATE_S = 5.0, 60.0
#: The number of polls after the end of the run, for late entries; one if the run ended more than _LATE_S ago.
_LAST_POLLS = 3


def filter_expressions(
    run: Run, steps: Sequence[Step] | None, *, begin: datetime | None = None, severity: str = "", end: str = ""
) -> Iterator[str]:
    """Yields filters that together match the entries of the steps; several if there are very many jobs.

    Args:
        steps: None for every step and the run itself.
        begin: The earliest time; None for the creation of the run.
        severity: The lowest severity.
        end: The time before which entries match, as RFC 3339 text.
    """
    jobs = list(dict.fromkeys(job for step in (run.steps if steps is None else steps) for job in step.jobs))
    conditions = [f'timestamp>="{rfc3339(begin or run.created)}"'] if begin or run.created else []
    conditions += [f'timestamp<"{end}"'] if end else []
    conditions += [f"severity>={_check_severity(severity)}"] if severity else []
    for batch in _split_batches(jobs):
        any_of = f"({' OR '.join(map(quote_literal, batch))})" if len(batch) > 1 else quote_literal(batch[0])
        yield " AND ".join(['resource.type="ml_job"', f"resource.labels.job_id={any_of}", *conditions])
    if steps is None:
        resource = 'resource.type="aiplatform.googleapis.com/PipelineJob"'
        yield " AND ".join([resource, f"resource.labels.pipeline_job_id={quote_literal(run.id)}", *conditions])


def logs_link(settings: Settings, run: Run, steps: Sequence[Step] | None) -> str:
    """Returns the link to the entries of the steps (None: and of the run itself) in the console's Logs Explorer."""
    texts = list(filter_expressions(run, steps))
    query = texts[0] if len(texts) == 1 else " OR ".join(f"({text})" for text in texts)
    page = f"query;query={quote(query, safe='')}" if texts else "query"
    return f"https://console.cloud.google.com/logs/{page}?project={quote(project(settings))}"


def find_steps_with_jobs(run: Run, name: str) -> list[Step]:
    """Returns the steps with this name, like `find_steps`.

    Raises:
        RequestError: there is no such step, or none has run.
    """
    steps = find_steps(run, name)
    if not any(step.jobs for step in steps):
        states = ", ".join(dict.fromkeys(step.state for step in steps))
        raise RequestError(f"{name} of {run.id} has no log: it is {states} and did not run on a machine.")
    return steps


def find_steps(run: Run, name: str) -> list[Step]:
    """Returns the step with this full name, else all iterations of the step, else all steps in the group.

    Raises:
        RequestError: there is no such step.
    """
    steps = [step for step in run.steps if name in (step.name, step.path, step.task)]
    steps = steps or [step for step in run.steps if step.name.startswith(f"{name}/")]
    if not steps:
        raise RequestError(f"{run.id} has no step {name}. {did_you_mean(name, [step.name for step in run.steps])}")
    return steps


def _check_severity(name: str) -> str:
    if name.upper() not in SEVERITIES:
        raise RequestError(f"--severity {name}: {did_you_mean(name.upper(), SEVERITIES)}")
    return name.upper()


def _split_batches(jobs: Sequence[str]) -> Iterable[Sequence[str]]:
    return [jobs[first : first + _MAX_JOBS] for first in range(0, len(jobs), _MAX_JOBS)]


@dataclass(frozen=True)
class Entry:
    """A log entry."""

    time: datetime
    step: str
    #: The machine of the job; workerpool0-0 is the chief.
    replica: str
    severity: str
    message: str
    #: A unique id, from the log name, the insert id and the time.
    id: str

    def as_json(self) -> JsonObject:
        fields = {name: getattr(self, name) for name in ("step", "replica", "severity", "message")}
        return {"time": rfc3339(self.time), **fields}

    def as_text(self) -> str:
        """Returns `Nov 20 14:03:07 train workerpool1-0 ERROR message`; further lines of the message are indented."""
        where = " ".join(filter(None, [one_line(self.step), one_line(self.replica)]))
        lines = printable(self.message).splitlines() or [""]
        head = f"{self.time.astimezone():%b %d %H:%M:%S} {where} {self.severity:<7} {lines[0]}"
        return "\n".join([head, *(f"    {line}" for line in lines[1:])])


@dataclass(frozen=True)
class Selection:
    """The options of `vgp logs` that select entries."""

    #: The name of a step; None for all steps and the run itself.
    step: str | None = None
    #: 7d, 12h, or a date.
    since: str = ""
    #: The lowest severity.
    severity: str = ""
    #: How many of the newest entries; 0 for all.
    limit: int = 1000

    def steps(self, run: Run) -> list[Step] | None:
        return find_steps_with_jobs(run, self.step) if self.step else None


def read_logs(
    settings: Settings, reference: str, selection: Selection, *, follow: bool, log: Callable[[str], None]
) -> Iterator[Entry]:
    """Returns the entries of a run; with `follow`, also new ones until it ends.

    Args:
        log: Logs the link to the entries in the console, and lost connections.

    Raises:
        RequestError: there is no such run or step, or the step has not run.
    """
    run = with_started_jobs_if_allowed(settings, run_search.find(settings, reference))
    steps = find_steps(run, selection.step) if selection.step else None
    log(logs_link(settings, run, steps))
    if follow:
        return follow_entries(settings, run.name, selection, Patience(log, Clock()))
    return iter(read_entries(settings, run, selection))


def read_entries(settings: Settings, run: Run, selection: Selection, *, clock: Clock | None = None) -> list[Entry]:
    """Returns the newest entries of the selection, oldest first.

    Args:
        run: The run with the jobs that its steps started (step_jobs.py).

    Raises:
        RequestError: there is no such step, or it has not run.
    """
    if selection.limit < 0:
        raise RequestError(f"--limit {selection.limit}: give a number of lines, or 0 for all.")
    begin = parse_since(selection.since, (clock or Clock()).moment()) if selection.since else None
    texts = filter_expressions(run, selection.steps(run), begin=begin, severity=selection.severity)
    client = clients.logging(settings)
    with explain_errors("read the logs", settings):
        retried = clients.repeating()(_list_entries)
        entries = [entry for text in texts for entry in retried(client, run, text, selection.limit)]
    entries.sort(key=_sort_key)
    return entries[-selection.limit :] if selection.limit else entries


def follow_entries(
    settings: Settings, job_name: str, selection: Selection, patience: Patience, *, clock: Clock | None = None
) -> Iterator[Entry]:
    """Yields the newest entries of the selection, and new ones until the run has ended; retries lost connections."""
    clock = clock or Clock()
    jobs, client = clients.pipeline_service(settings), clients.logging(settings)
    seen: set[str] = set()
    begin = parse_since(selection.since, clock.moment()) if selection.since else None
    last_polls = 0
    while last_polls < _LAST_POLLS:
        with explain_errors("follow the logs", settings):
            run = read(patience(lambda: jobs.get_pipeline_job(name=job_name, **clients.once())))
            run = patience(lambda run=run: with_started_jobs(settings, run, calls=clients.once))  # type: ignore[misc]
            is_complete = run.ended is not None and (clock.moment() - run.ended).total_seconds() > _LATE_S
            last_polls = _LAST_POLLS if is_complete else last_polls + 1 if run.over else 0
            new = _read_new(patience, client, run, selection, begin, seen)
        yield from new
        if new:
            begin = max(new[-1].time - timedelta(seconds=_LATE_S), begin or new[0].time)
        if last_polls < _LAST_POLLS:
            clock.sleep(_POLL_S)


def _read_new(
    patience: Patience, client: "LoggingClient", run: Run, selection: Selection, begin: datetime | None, seen: set[str]
) -> list[Entry]:
    """Returns entries whose ids are not in `seen`, and adds the ids; at most `limit` entries if `seen` is empty."""
    try:
        steps = selection.steps(run)
    except RequestError:  # the step exists (`read_logs` checks it), but has not started yet
        return []
    entries: list[Entry] = []
    limit = 0 if seen else selection.limit
    for text in filter_expressions(run, steps, begin=begin, severity=selection.severity):
        entries += patience(lambda text=text: _list_entries(client, run, text, limit))  # type: ignore[misc]
    new = sorted((entry for entry in entries if entry.id not in seen), key=_sort_key)
    seen.update(entry.id for entry in new)
    return new[-limit:] if limit else new


def _list_entries(client: "LoggingClient", run: Run, text: str, limit: int) -> list[Entry]:
    """Returns the newest `limit` entries that match the filter, newest first, or all entries for 0."""
    order = "timestamp desc" if limit else "timestamp asc"
    steps = {job: step.name for step in run.steps for job in step.jobs}
    size = min(limit or _PAGE, _PAGE)
    messages = client.list_entries(filter_=text, order_by=order, page_size=size, max_results=limit or None)
    return [_parse_entry(message, steps) for message in messages]


def _parse_entry(message: Any, steps: Mapping[str, str]) -> Entry:
    labels = (message.resource.labels if message.resource else None) or {}
    payload = message.payload
    task = str(payload.get("taskName", "")) if isinstance(payload, Mapping) else ""
    time = message.timestamp or message.received_timestamp
    return Entry(
        time=time, step=steps.get(labels.get("job_id", ""), task), replica=labels.get("task_name", ""),
        severity=one_line(message.severity or "DEFAULT", 9), message=_message(payload),
        id=f"{message.log_name} {message.insert_id} {rfc3339(time)}",
    )  # fmt: skip


def _sort_key(entry: Entry) -> tuple[datetime, str]:
    return entry.time, entry.id


def _message(payload: object) -> str:
    """Returns a text payload, the `message` of a structured one, else the payload as JSON."""
    if not isinstance(payload, Mapping):
        return "" if payload is None else str(payload)
    message = payload.get("message")
    if isinstance(message, str):
        return message
    return json.dumps({key: value for key, value in payload.items() if key != "@type"}, sort_keys=True, default=str)


def format_entries(entries: Iterable[Entry], *, as_json: bool) -> Iterator[str]:
    """Yields the text of each entry, or a JSON document of one line."""
    for entry in entries:
        yield json.dumps(entry.as_json()) if as_json else entry.as_text()
