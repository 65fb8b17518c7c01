"""Which entries of Cloud Logging belong to a run and to its steps, in the language of its filters.

A step runs as a custom job of Google's, whose output has the resource ml_job with the job's number; what the service
says about the run itself has the resource PipelineJob.
https://cloud.google.com/logging/docs/view/logging-query-language
https://cloud.google.com/vertex-ai/docs/pipelines/logging
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from urllib.parse import quote

from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.times import rfc3339
from vgp.settings import Settings
from vgp.vertex.clients import project
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.run_search import quoted
from vgp.vertex.runs.run_steps import Step

#: https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry#LogSeverity
SEVERITIES = ("DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")
#: Job numbers in one filter, which may have 20,000 characters.
_JOBS = 200


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
        raise RequestError(f"{name} of {run.id} has no log: it is {states}, and ran on no machine in this run.")
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
