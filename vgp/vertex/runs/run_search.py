"""Finds a run by id, prefix, link or `latest`, and lists runs by filters.

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
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.runs.remote_run import Run, read

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient
    from google.cloud.aiplatform_v1.types import PipelineJob

#: The values of `--state`.
STATES = ("queued", "pending", "running", "succeeded", "failed", "cancelling", "cancelled", "paused")
LATEST = "latest"
#: A filter for runs that this product started.
OURS = 'labels.managed-by="vertex-gpu-pipelines"'
_PAGE = 100
#: The fields for a list; the spec and the tasks of a run can be megabytes.
_FIELDS = (
    "name", "display_name", "state", "create_time", "start_time", "end_time", "error", "labels", "template_uri",
    "template_metadata.version", "schedule_name", "pipeline_spec.pipeline_info",
)  # fmt: skip
#: The field with the states of a run's tasks.
_STEPS = ("job_detail.task_details",)
#: Returns the retry and timeout of a call.
Calls = Callable[[], clients.CallOptions]
_ID = re.compile(r"[a-z][-a-z0-9]{0,127}")


@dataclass(frozen=True)
class Filter:
    """The conditions on the runs to list; an empty field is no condition."""

    pipeline: str = ""
    states: Sequence[str] = ()
    #: 7d, 12h, or a date.
    since: str = ""
    #: key=value, or key.
    labels: Sequence[str] = ()
    #: The display name or id of a schedule.
    schedule: str = ""
    #: Whether to list only runs that this product started.
    ours: bool = False


def find(settings: Settings, reference: str) -> Run:
    """Returns the run with this id, prefix of an id, resource name or console link; or `latest`, `latest:PIPELINE`.

    Raises:
        RequestError: there is no such run, or several ids have the prefix.
    """
    with explain_errors(f"look for the run {reference}", settings):
        return read(find_job(settings, reference))


def find_job(settings: Settings, reference: str, *, calls: Calls = clients.reading) -> "PipelineJob":
    """Returns the PipelineJob of a reference, like `find`. Raises RequestError and Google's errors."""
    from google.api_core.exceptions import NotFound

    client = clients.pipeline_service(settings)
    if is_latest(reference):
        return client.get_pipeline_job(name=_find_latest(client, settings, reference, calls), **calls())
    name = resource_names.job(settings, reference)
    try:
        return client.get_pipeline_job(name=name, **calls())
    except NotFound:
        if not _ID.fullmatch(reference):
            raise
    return client.get_pipeline_job(name=_find_by_prefix(client, settings, reference, calls), **calls())


def is_latest(reference: str) -> bool:
    """Whether the reference is `latest` or `latest:PIPELINE`, which can soon be another run."""
    return reference.partition(":")[0] == LATEST


def list_runs(
    settings: Settings,
    conditions: Filter,
    *,
    limit: int = 20,
    now: datetime | None = None,
    steps: bool = False,
    fits: Callable[[Run], bool] | None = None,
) -> list[Run]:
    """Returns the newest runs that meet the conditions, newest first.

    Args:
        limit: The most runs; 0 for all.
        steps: Whether the runs have their tasks. They never have their spec and parameters.
        fits: A further condition, which Google cannot filter by.

    Raises:
        RequestError: a condition or the limit is invalid.
    """
    text = filter_expression(conditions, now or datetime.now(UTC))
    if limit < 0:
        raise RequestError(f"--limit {limit}: give a number of runs, or 0 for all.")
    with explain_errors("list the runs", settings):
        schedules = _schedule_ids(settings, conditions.schedule) if conditions.schedule else set()
        client = clients.pipeline_service(settings)
        runs: list[Run] = []
        fields = (*_FIELDS, *_STEPS) if steps else _FIELDS
        for job in _list_jobs(
            client, settings, text, clients.reading, min(limit, _PAGE) if limit and not fits else _PAGE, fields
        ):
            # Google cannot filter by schedule.
            if not conditions.schedule or resource_names.short(job.schedule_name) in schedules:
                run = read(job)
                runs += [run] if fits is None or fits(run) else []
            if limit and len(runs) == limit:
                break
        return runs


def filter_expression(conditions: Filter, now: datetime) -> str:
    """Returns the conditions in Google's filter syntax, https://google.aip.dev/160, with all values quoted.

    Raises:
        RequestError: a state, time or label is invalid.
    """
    parts = [f"pipeline_name={quote_literal(conditions.pipeline)}"] if conditions.pipeline else []
    states = [f'state="PIPELINE_STATE_{_check_state(name).upper()}"' for name in conditions.states]
    parts += [f"({' OR '.join(states)})" if len(states) > 1 else states[0]] if states else []
    parts += [f'create_time>="{parse_since(conditions.since, now):%Y-%m-%dT%H:%M:%SZ}"'] if conditions.since else []
    parts += [_label_expression(text) for text in conditions.labels]
    parts += [OURS] if conditions.ours else []
    return " AND ".join(parts)


def parse_since(text: str, now: datetime) -> datetime:
    """Returns the time in UTC for `7d`, `12h`, `2026-11-20` or `2026-11-20T14:00:00Z`; default zone: this machine's.

    Raises:
        RequestError: the text has none of these forms.
    """
    ago = parse_duration(text)
    try:
        if ago is not None:
            return (now - ago).astimezone(UTC)
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise RequestError(f"--since {text}: write 90m, 12h, 7d, 2w, or a date like 2026-11-20.") from None


def quote_literal(text: str) -> str:
    """Returns the text as one quoted literal of a filter.

    Raises:
        RequestError: the text has a control character.
    """
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise RequestError(f"{text!r} has a control character. Remove it.")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _check_state(name: str) -> str:
    if name.lower() not in STATES:
        raise RequestError(f"--state {name}: {did_you_mean(name.lower(), STATES)}")
    return name.lower()


def _label_expression(text: str) -> str:
    key, equals, value = text.partition("=")
    if not equals:
        resource_names.labels({key: ""})
        return f"labels.{key}:*"
    resource_names.labels({key: value})
    return f"labels.{key}={quote_literal(value)}"


def _list_jobs(
    client: "PipelineServiceClient",
    settings: Settings,
    text: str,
    calls: Calls,
    page_size: int = _PAGE,
    fields: Sequence[str] = _FIELDS,
) -> Iterator["PipelineJob"]:
    yield from client.list_pipeline_jobs(request=newest_first(settings, text, fields, page_size), **calls())


def newest_first(settings: Settings, text: str, fields: Sequence[str], page_size: int) -> JsonObject:
    """Returns the request for a list of runs, newest first.

    Args:
        text: The filter, from `filter_expression`.
        fields: The fields of each run.
    """
    from google.protobuf.field_mask_pb2 import FieldMask

    return {
        "parent": resource_names.location(settings), "filter": text, "order_by": "create_time desc",
        "page_size": page_size, "read_mask": FieldMask(paths=fields),
    }  # fmt: skip


def _find_latest(client: "PipelineServiceClient", settings: Settings, reference: str, calls: Calls) -> str:
    pipeline = reference.partition(":")[2]
    text = f"pipeline_name={quote_literal(pipeline)}" if pipeline else ""
    job = next(_list_jobs(client, settings, text, calls, page_size=1), None)
    if job is None:
        of = f" of {pipeline}" if pipeline else ""
        raise RequestError(f"{reference}: no run{of} in {settings.region} of {settings.project}.")
    return str(job.name)


def _find_by_prefix(client: "PipelineServiceClient", settings: Settings, prefix: str, calls: Calls) -> str:
    """Returns the resource name of the one run whose id begins with the prefix."""
    text = f"pipeline_job_user_id:{quote_literal(f'{prefix}*')}"
    ids = [resource_names.short(job.name) for job in _list_jobs(client, settings, text, calls)]
    ids = [id_ for id_ in ids if id_.startswith(prefix)]
    if not ids:
        raise RequestError(
            f"there is no run {prefix} in {settings.region} of {settings.project}. To list the newest runs: vgp runs."
        )
    if len(ids) > 1:
        more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
        raise RequestError(f"{len(ids)} runs have ids that begin with {prefix}: {', '.join(ids[:5])}{more}.")
    return f"{resource_names.location(settings)}/pipelineJobs/{ids[0]}"


def _schedule_ids(settings: Settings, name: str) -> set[str]:
    """Returns the ids of all schedules, live or ended, with this name, display name or id.

    A schedule of the environment is preferred to one without an environment.
    """
    client, ids = clients.schedule_service(settings), set[str]()
    # The display names that vgp/vertex/schedules/declared_schedule.py gives.
    for display_name in (f"{name} ({settings.environment})", name):
        request = {"parent": resource_names.location(settings), "filter": f"display_name={quote_literal(display_name)}"}
        schedules = client.list_schedules(request=request, **clients.reading()) if not ids else ()
        ids |= {resource_names.short(schedule.name) for schedule in schedules}
    if not ids and not name.isdigit():
        raise RequestError(
            f"--schedule {name}: there is no schedule with this name. To list the schedules: vgp schedule list."
        )
    return ids or {name}
