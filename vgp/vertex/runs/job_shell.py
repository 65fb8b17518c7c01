"""`vgp shell RUN STEP`: links to interactive shells on the machines of a running step.

Vertex AI gives a job with enableWebAccess one URI per machine, some time after the job starts to run:
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
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.patient_reads import Patience
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import Run, Step, read
from vgp.vertex.runs.run_logs import find_steps
from vgp.vertex.runs.step_jobs import job_link, newest_started_job, with_ladders

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import CustomJob

_POLL_S = 5.0
_OVER = ("succeeded", "cached", "failed", "cancelled", "not triggered", "not run")
_ENDED = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED")


@dataclass(frozen=True)
class Shells:
    """The shells of a step's job."""

    run: str
    step: str
    #: The resource name of the job.
    job: str
    link: str
    #: The URI of the shell by machine, such as workerpool0-0.
    uris: dict[str, str]

    def as_json(self) -> JsonObject:
        return {"run": self.run, "step": self.step, "job": self.job, "url": self.link, "shells": self.uris}


def wait_for_shells(
    settings: Settings,
    reference: str,
    name: str,
    *,
    timeout_s: float | None = None,
    log: Callable[[str], None] = lambda text: None,
    clock: Clock | None = None,
) -> Shells:
    """Waits until the step's job has shells, and returns them; for a ladder, those of its current job.

    Args:
        reference: The run, as for `run_search.find`.
        name: The name of the step.
        timeout_s: The longest wait; None: until the step ends.
        log: Logs a line when the state changes.

    Raises:
        RequestError: there is no such run or step, or the step has no web access, or has ended.
        WorkFailed: Google refused, or there was no shell within `timeout_s`.
    """
    clock = clock or Clock()
    began, last_state = clock.moment(), ""
    with explain_errors(f"look for the shells of {name}", settings):
        patience = Patience(log, clock)
        job_name = run_search.find(settings, reference).name
        while True:
            run = patience(lambda: _read_run(settings, job_name))
            step = _running_step(run, name)
            job = patience(lambda run=run, step=step: _read_job(settings, run, step))  # type: ignore[misc]
            uris = _uris(job, step, run) if job is not None else {}
            if job is not None and uris:
                return Shells(run.id, step.name, job.name, job_link(settings, job.name), uris)
            state = _describe_wait(job, step)
            if state != last_state:
                log(state)
            last_state = state
            if timeout_s is not None and (clock.moment() - began).total_seconds() >= timeout_s:
                raise WorkFailed(
                    f"{state}; no shell after {format_duration(timeout_s)}. Wait longer: --timeout SECONDS."
                )
            clock.sleep(_POLL_S)


def _read_run(settings: Settings, name: str) -> Run:
    client = clients.pipeline_service(settings)
    return with_ladders(settings, read(client.get_pipeline_job(name=name, **clients.once())))


def _running_step(run: Run, name: str) -> Step:
    """Returns the one step of this name that has not ended. Raises RequestError if there is none, or several."""
    steps = find_steps(run, name)
    running = [step for step in steps if step.state not in _OVER]
    if len(running) > 1:
        more = ", ".join(one_line(step.name) for step in running[:5])
        raise RequestError(f"{run.id} has several running steps {name}: {more}. Name one of them.")
    if not running:
        states = ", ".join(dict.fromkeys(step.state for step in steps))
        why = "it has ended" if any(step.end for step in steps) else "it has no machine"
        raise RequestError(f"{name} of {run.id} is {states}: {why}, and a shell is available only while the job runs.")
    if run.over:
        raise RequestError(f"{run.id} has ended: {run.state}. A shell is available only while the job runs.")
    return running[0]


def _read_job(settings: Settings, run: Run, step: Step) -> "CustomJob | None":
    """Returns the current custom job of the step, or None if it has none yet."""
    of_ladder = [way.job for way in run.ways if way.step == step.task and way.job]
    name = of_ladder[-1] if of_ladder else newest_started_job(settings, run, step)
    if not name:
        return None
    region = name.split("/")[3]
    client = clients.job_service(settings.model_copy(update={"region": region}))
    return client.get_custom_job(name=name, **clients.once())


def _uris(job: "CustomJob", step: Step, run: Run) -> dict[str, str]:
    """Returns the URIs of the job's shells by machine. Raises RequestError if the job cannot have any."""
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
    return dict(sorted(uris.items(), key=lambda pair: _sort_key(pair[0])))


def _sort_key(machine: str) -> list[int | str]:
    """Returns a key that sorts workerpool1-2 before workerpool1-10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", machine)]


def _describe_wait(job: "CustomJob | None", step: Step) -> str:
    if job is None:
        return f"{step.name} is {step.state}; waiting for its job"
    state = job.state.name.removeprefix("JOB_STATE_").lower()
    return f"job {resource_names.short(job.name)} of {step.name} is {state}; waiting for its shells"
