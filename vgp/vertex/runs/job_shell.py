"""`vgp shell RUN STEP`: where a browser finds the interactive shells of the machines on which a step works now.

Vertex AI gives a job with enableWebAccess one URI for each machine, some time after it runs:
https://cloud.google.com/vertex-ai/docs/training/monitor-debug-interactive-shell
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgp.base.clock import Clock
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.figures import format_duration
from vgp.base.text.printable import one_line
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.patient_reads import Patience
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import Run, Step, read
from vgp.vertex.runs.run_logs import known
from vgp.vertex.runs.step_jobs import job_link, started_by, with_ways

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import CustomJob

#: Seconds between two looks.
_LOOK_S = 5.0
_OVER = ("succeeded", "cached", "failed", "cancelled", "not triggered", "not run")
_ENDED = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED")


@dataclass(frozen=True)
class Shells:
    """The machines of a job: name, such as workerpool0-0, and the URI of its shell."""

    run: str
    step: str
    #: Resource name.
    job: str
    link: str
    uris: dict[str, str]

    def as_json(self) -> JsonObject:
        return {"run": self.run, "step": self.step, "job": self.job, "url": self.link, "shells": self.uris}


def shells(
    settings: Settings,
    reference: str,
    name: str,
    *,
    timeout_s: float | None = None,
    tell: Callable[[str], None] = lambda text: None,
    clock: Clock | None = None,
) -> Shells:
    """The shells of the step's job, waited for until they are there; of a ladder, of the job of the moment.

    Args:
        reference: Whatever search.find takes.
        name: Of the step.
        timeout_s: Waits no longer; None: until the step ends.
        tell: Receives a line whenever the state changes.

    Raises:
        RequestError: there is no such run or step, it has no web access, or is over.
        WorkFailed: Google refused, or nothing was there in time.
    """
    clock = clock or Clock()
    began, said = clock.moment(), ""
    with explained(f"look for the shells of {name}", settings):
        patience = Patience(tell, clock)
        job_name = run_search.find(settings, reference).name
        while True:
            run = patience(lambda: _run(settings, job_name))
            step = _step(run, name)
            job = patience(lambda run=run, step=step: _job(settings, run, step))  # type: ignore[misc]
            uris = _uris(job, step, run) if job is not None else {}
            if job is not None and uris:
                return Shells(run.id, step.name, job.name, job_link(settings, job.name), uris)
            waits = _waits(job, step)
            if waits != said:
                tell(waits)
            said = waits
            if timeout_s is not None and (clock.moment() - began).total_seconds() >= timeout_s:
                raise WorkFailed(
                    f"{waits}; no shell after {format_duration(timeout_s)}. Wait longer: --timeout SECONDS."
                )
            clock.sleep(_LOOK_S)


def _run(settings: Settings, name: str) -> Run:
    client = clients.pipeline_service(settings)
    return with_ways(settings, read(client.get_pipeline_job(name=name, **clients.once())))


def _step(run: Run, name: str) -> Step:
    """The one step of that name that is not over; else the reason why there is none."""
    steps = known(run, name)
    going = [step for step in steps if step.state not in _OVER]
    if len(going) > 1:
        more = ", ".join(one_line(step.name) for step in going[:5])
        raise RequestError(f"{run.id} has several running steps {name}: {more}. Name one of them.")
    if not going:
        states = ", ".join(dict.fromkeys(step.state for step in steps))
        why = "it is over" if any(step.end for step in steps) else "no machine works on it"
        raise RequestError(f"{name} of {run.id} is {states}: {why}, and a shell is available only while the job runs.")
    if run.over:
        raise RequestError(f"{run.id} has ended: {run.state}. A shell is available only while the job runs.")
    return going[0]


def _job(settings: Settings, run: Run, step: Step) -> "CustomJob | None":
    """The custom job that works for the step now; None where there is none yet."""
    climbing = [way.job for way in run.ways if way.step == step.task and way.job]
    name = climbing[-1] if climbing else started_by(settings, run, step)
    if not name:
        return None
    region = name.split("/")[3]
    client = clients.job_service(settings.model_copy(update={"region": region}))
    return client.get_custom_job(name=name, **clients.once())


def _uris(job: "CustomJob", step: Step, run: Run) -> dict[str, str]:
    """Raises RequestError: there will be none."""
    if not job.job_spec.enable_web_access:
        raise RequestError(
            f"the job of {step.name} in {run.id} runs without web access, which cannot be added to a running job. Set\n"
            f"  [steps.{step.task}]\n  web_access = true\nin pipelines.toml, and start a new run."
        )
    if job.state.name in _ENDED and not any(way.step == step.task for way in run.ways):
        raise RequestError(
            f"the job of {step.name} in {run.id} has ended: {job.state.name.removeprefix('JOB_STATE_').lower()}. "
            "A shell is available only while the job runs."
        )
    uris = job.web_access_uris if job.state.name == "JOB_STATE_RUNNING" else {}
    return dict(sorted(uris.items(), key=lambda pair: _in_order(pair[0])))


def _in_order(machine: str) -> list[int | str]:
    """workerpool1-2 before workerpool1-10; the chief first."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", machine)]


def _waits(job: "CustomJob | None", step: Step) -> str:
    if job is None:
        return f"{step.name} is {step.state}; waiting for its job"
    state = job.state.name.removeprefix("JOB_STATE_").lower()
    return f"job {resource_names.short(job.name)} of {step.name} is {state}; waiting for its shells"
