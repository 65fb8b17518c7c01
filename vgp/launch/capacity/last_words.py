"""The last lines that the program of a job wrote, from Cloud Logging.

https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
"""

from typing import Any

from vgp.base import google_api
from vgp.base.text.printable import printable
from vgp.launch.capacity.patience import is_passing, reason

#: How many lines, and how long each may be.
LINES, LONGEST = 30, 2000


def last_words(session: Any, project: str, job: str) -> list[str]:
    """The last lines of all machines, the oldest first; or one that says why they cannot be read."""
    try:
        return _lines(session, project, job.rpartition("/")[2])
    except Exception as error:  # what the job said is a help, and its lack no failure of its own
        if is_passing(error) or getattr(error, "code", 0) != 403:
            return [f"(its log could not be read: {reason(error)})"]
        return ["(its log could not be read: the step's account needs logging.logEntries.list, roles/logging.viewer)"]


def _lines(session: Any, project: str, number: str) -> list[str]:
    from google.api_core.exceptions import from_http_response

    of_job = f'resource.type="ml_job" AND resource.labels.job_id="{number}"'
    body = {
        "resourceNames": [f"projects/{project}"],
        "filter": f'{of_job} AND resource.labels.task_name!="service"',
        "orderBy": "timestamp desc",
        "pageSize": LINES,
    }
    url = f"{google_api.address('logging')}/v2/entries:list"
    answer = session.request("POST", url, json=body, timeout=google_api.ATTEMPT_S)
    if not answer.ok:
        raise from_http_response(answer)
    entries = reversed(answer.json().get("entries", []))
    lines = [f"{_replica(entry)}{line}" for entry in entries for line in printable(_text(entry)).splitlines()]
    return [line[:LONGEST] for line in lines[-LINES:]]


def _replica(entry: dict[str, Any]) -> str:
    name = entry.get("resource", {}).get("labels", {}).get("task_name", "")
    return f"[{name}] " if name else ""


def _text(entry: dict[str, Any]) -> str:
    """A line of a program, which Vertex AI keeps as a text or as an object with `message`."""
    return str(entry.get("textPayload") or entry.get("jsonPayload", {}).get("message", ""))
