"""Runs found by what a person types, and listed with Google's own filters.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.pipelineJobs/list
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.times import parse_duration
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.runs.remote_run import Run, read

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient
    from google.cloud.aiplatform_v1.types import PipelineJob

#: What `--state` takes.
STATES = ("queued", "pending", "running", "succeeded", "failed", "cancelling", "cancelled", "paused")
LATEST = "latest"
#: The label of everything that this command line makes.
OURS = 'labels.managed-by="vertex-gpu-pipelines"'
_PAGE = 100
#: The spec and the tasks of a run can be megabytes; these are what a list shows.
_FIELDS = (
    "name", "display_name", "state", "create_time", "start_time", "end_time", "error", "labels", "template_uri",
    "template_metadata.version", "schedule_name", "pipeline_spec.pipeline_info",
)  # fmt: skip
#: What becomes of its tasks.
_STEPS = ("job_detail.task_details",)
#: Makes the arguments of a call: its retry and its timeout.
Calls = Callable[[], clients.CallOptions]
_ID = re.compile(r"[a-z][-a-z0-9]{0,127}")


@dataclass(frozen=True)
class Filter:
    """Which runs to list; empty fields ask for nothing."""

    pipeline: str = ""
    states: Sequence[str] = ()
    #: 7d, 12h, or a date.
    since: str = ""
    #: key=value, or key.
    labels: Sequence[str] = ()
    #: A schedule's display name or id.
    schedule: str = ""
    ours: bool = False


def find(settings: Settings, reference: str) -> Run:
    """The run of `reference`: id, beginning of an id, resource name, console link, `latest` or `latest:PIPELINE`.

    Raises:
        RequestError: there is no such run, or several begin like this.
    """
    with explained(f"look for the run {reference}", settings):
        return read(look_for(settings, reference))


def look_for(settings: Settings, reference: str, *, calls: Calls = clients.reading) -> "PipelineJob":
    """The PipelineJob of `reference`, with Google's own errors."""
    from google.api_core.exceptions import NotFound

    client = clients.pipeline_service(settings)
    if is_latest(reference):
        return client.get_pipeline_job(name=_newest(client, settings, reference, calls), **calls())
    name = resource_names.job(settings, reference)
    try:
        return client.get_pipeline_job(name=name, **calls())
    except NotFound:
        if not _ID.fullmatch(reference):
            raise
    return client.get_pipeline_job(name=_beginning(client, settings, reference, calls), **calls())


def is_latest(reference: str) -> bool:
    """Whether the reference is `latest` or `latest:PIPELINE`, which another run may be the next moment."""
    return reference.partition(":")[0] == LATEST


def listed(
    settings: Settings,
    only: Filter,
    *,
    limit: int = 20,
    now: datetime | None = None,
    steps: bool = False,
    fits: Callable[[Run], bool] | None = None,
) -> list[Run]:
    """The newest `limit` runs that are wanted, newest first; 0 is all. They come without spec and parameters, and
    without their tasks unless `steps`. `fits` asks for what Google cannot filter by.

    Raises:
        RequestError: a filter that cannot be.
    """
    text = expression(only, now or datetime.now(UTC))
    if limit < 0:
        raise RequestError(f"--limit {limit}: give a number of runs, or 0 for all.")
    with explained("list the runs", settings):
        schedules = _schedules(settings, only.schedule) if only.schedule else set()
        client = clients.pipeline_service(settings)
        runs: list[Run] = []
        fields = (*_FIELDS, *_STEPS) if steps else _FIELDS
        for job in _jobs(
            client, settings, text, clients.reading, min(limit, _PAGE) if limit and not fits else _PAGE, fields
        ):
            # Google cannot filter by schedule: its runs are picked from the pages here.
            if not only.schedule or resource_names.short(job.schedule_name) in schedules:
                run = read(job)
                runs += [run] if fits is None or fits(run) else []
            if limit and len(runs) == limit:
                break
        return runs


def expression(only: Filter, now: datetime) -> str:
    """The filter in Google's syntax, https://google.aip.dev/160; every value is one quoted text.

    Raises:
        RequestError: a state, time or label that cannot be.
    """
    parts = [f"pipeline_name={quoted(only.pipeline)}"] if only.pipeline else []
    states = [f'state="PIPELINE_STATE_{_state(name).upper()}"' for name in only.states]
    parts += [f"({' OR '.join(states)})" if len(states) > 1 else states[0]] if states else []
    parts += [f'create_time>="{since(only.since, now):%Y-%m-%dT%H:%M:%SZ}"'] if only.since else []
    parts += [_label(text) for text in only.labels]
    parts += [OURS] if only.ours else []
    return " AND ".join(parts)


def since(text: str, now: datetime) -> datetime:
    """A time in UTC from `7d`, `12h`, `2026-11-20` or `2026-11-20T14:00:00Z`; without a zone, of this machine's.

    Raises:
        RequestError: it is none of these.
    """
    ago = parse_duration(text)
    try:
        if ago is not None:
            return (now - ago).astimezone(UTC)
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise RequestError(f"--since {text}: write 90m, 12h, 7d, 2w, or a date like 2026-11-20.") from None


def quoted(text: str) -> str:
    """`text` as one literal of a filter, whatever it holds.

    Raises:
        RequestError: it holds a control character, which no name has.
    """
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise RequestError(f"{text!r} holds a control character.")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _state(name: str) -> str:
    if name.lower() not in STATES:
        raise RequestError(f"--state {name}: {did_you_mean(name.lower(), STATES)}")
    return name.lower()


def _label(text: str) -> str:
    key, equals, value = text.partition("=")
    if not equals:
        resource_names.labels({key: ""})
        return f"labels.{key}:*"
    resource_names.labels({key: value})
    return f"labels.{key}={quoted(value)}"


def _jobs(
    client: "PipelineServiceClient",
    settings: Settings,
    text: str,
    calls: Calls,
    page_size: int = _PAGE,
    fields: Sequence[str] = _FIELDS,
) -> Iterator["PipelineJob"]:
    yield from client.list_pipeline_jobs(request=newest_first(settings, text, fields, page_size), **calls())


def newest_first(settings: Settings, text: str, fields: Sequence[str], page_size: int) -> JsonObject:
    """The request of a list of the runs that the filter `text` takes, each with these fields only."""
    from google.protobuf.field_mask_pb2 import FieldMask

    return {
        "parent": resource_names.location(settings), "filter": text, "order_by": "create_time desc",
        "page_size": page_size, "read_mask": FieldMask(paths=fields),
    }  # fmt: skip


def _newest(client: "PipelineServiceClient", settings: Settings, reference: str, calls: Calls) -> str:
    pipeline = reference.partition(":")[2]
    text = f"pipeline_name={quoted(pipeline)}" if pipeline else ""
    job = next(_jobs(client, settings, text, calls, page_size=1), None)
    if job is None:
        of = f" of {pipeline}" if pipeline else ""
        raise RequestError(f"{reference}: no run{of} in {settings.region} of {settings.project}.")
    return str(job.name)


def _beginning(client: "PipelineServiceClient", settings: Settings, beginning: str, calls: Calls) -> str:
    """The one run whose id begins so."""
    text = f"pipeline_job_user_id:{quoted(f'{beginning}*')}"
    ids = [resource_names.short(job.name) for job in _jobs(client, settings, text, calls)]
    ids = [id_ for id_ in ids if id_.startswith(beginning)]
    if not ids:
        raise RequestError(
            f"there is no run {beginning} in {settings.region} of {settings.project}. The newest: vgp runs."
        )
    if len(ids) > 1:
        more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
        raise RequestError(f"{beginning} begins the ids of {len(ids)} runs: {', '.join(ids[:5])}{more}.")
    return f"{resource_names.location(settings)}/pipelineJobs/{ids[0]}"


def _schedules(settings: Settings, name: str) -> set[str]:
    """Ids of the schedules of that id, name or display name, live and ended ones; first of those of the environment."""
    client, ids = clients.schedule_service(settings), set[str]()
    for shown in (f"{name} ({settings.environment})", name):  # as vgp/vertex/schedules/declared_schedule.py names them
        request = {"parent": resource_names.location(settings), "filter": f"display_name={quoted(shown)}"}
        ids = ids or {
            resource_names.short(one.name) for one in client.list_schedules(request=request, **clients.reading())
        }
    if not ids and not name.isdigit():
        raise RequestError(f"--schedule {name}: there is no schedule of that name. See: vgp schedule list.")
    return ids or {name}
