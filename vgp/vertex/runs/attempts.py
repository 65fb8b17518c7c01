"""Starting a request: the run that it has, or the next attempt.

A request has at most one open run. For an hour after its end that run still answers, however it ended, so that a
command which was killed, or is repeated by CI, starts nothing twice. Afterwards the request starts anew, as ID-a2,
ID-a3 ... Everybody who asks at the same moment chooses the same number, and Google lets one of them have it.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from itertools import islice
from typing import Any

from vgp.settings import Settings
from vgp.vertex import clients, names, rest
from vgp.vertex.errors import explained
from vgp.vertex.runs.pipeline_job import REQUEST, created, find, job_id, same

#: How long a run answers for its request after its end.
WINDOW = timedelta(hours=1)
#: After these nothing more happens to a run.
ENDED = ("PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_FAILED", "PIPELINE_STATE_CANCELLED")
#: The newest runs of the request among which the highest attempt is looked for; beyond them it is found by trying.
_LOOKED_AT = 100


def start(settings: Settings, body: Mapping[str, Any]) -> tuple[Any, bool]:
    """The PipelineJob that answers the request, and whether this call started it.

    Raises:
        WorkFailed: Google refused, or could not be reached; repeating is safe.
    """
    first = job_id(body)
    client = clients.pipeline_service(settings)
    with explained(f"start {first}", settings):
        job, number = _answering(client, settings, body, first)
        while job is None or _is_over(settings, job):
            number += 1
            job, started = created(client, settings, body, _attempt(first, number))
            if started:
                return job, True
    return job, False


def _answering(client: Any, settings: Settings, body: Mapping[str, Any], first: str) -> tuple[Any, int]:
    """The run that stands for the request, and the highest of its attempts; (None, 0) if it has none.

    That is one which is open, else the one that ended last. A list may lack what was created a moment ago: the first
    attempt is asked for by its id, later ones are found when their id turns out to be taken.
    """
    job = find(client, settings, first)
    runs = [*islice(_runs(client, settings, body), _LOOKED_AT), *([job] if job else [])]
    number = max((_number(first, names.short(run.name)) for run in runs), default=0)
    if runs:
        chosen = names.short(max(runs, key=_recency).name)
        if job is None or chosen != first:
            job = find(client, settings, chosen) or job
    if job:
        same(job, body)
    return job, number


def _runs(client: Any, settings: Settings, body: Mapping[str, Any]) -> Any:
    """The runs of the request, newest first; those of --new are among them."""
    from google.protobuf.field_mask_pb2 import FieldMask

    request = {
        "parent": names.location(settings),
        "filter": f'labels.{REQUEST}="{body["labels"][REQUEST]}"',
        "order_by": "create_time desc",
        "page_size": _LOOKED_AT,
        "read_mask": FieldMask(paths=["name", "state", "create_time", "update_time", "end_time"]),
    }
    return client.list_pipeline_jobs(request=request, **clients.reading())


def _recency(job: Any) -> tuple[bool, Any]:
    return job.state.name not in ENDED, _end(job)


def _end(job: Any) -> Any:
    return job.end_time or job.update_time or job.create_time


def _is_over(settings: Settings, job: Any) -> bool:
    """Whether it ended longer than the window ago, both times being the server's."""
    if job.state.name not in ENDED:
        return False
    now = rest.now(settings, "aiplatform", f"v1/{job.name}")
    return bool(now - _end(job) > WINDOW)


def _attempt(first: str, number: int) -> str:
    return first if number == 1 else f"{first}-a{number}"


def _number(first: str, id_: str) -> int:
    """Which attempt the id is; 0: none, but a run of --new or --id."""
    attempt = re.fullmatch(rf"{re.escape(first)}(?:-a(\d+))?", id_)
    return int(attempt[1] or 1) if attempt else 0
