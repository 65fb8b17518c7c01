"""A plain training job on Spot, without a ladder: Vertex AI restarts it, and the model has equal bits.

The job is the step `train` of a pipeline run, a custom job of two machines from Google's launcher. It is preempted
twice, and then loses one machine. Only Vertex AI reacts.

restarted    with `restart_job_on_worker_restart`: the programs of both machines restart
replaced     without it: a new machine replaces the lost one; the other's program ends with 75 and restarts, which
             assumes that Vertex AI takes this code for a transient error (tools/emulator/working_job.py)
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tools.drills.capacity import compiled
from tools.drills.capacity.climb import MOST_S, Step, steps_in
from tools.drills.capacity.standin import TRACE_VARIABLE
from tools.drills.capacity.training import Training
from tools.emulator.capacity import World
from tools.emulator.cloud import Cloud
from tools.emulator.region import Region
from tools.emulator.working_job import RUNNING, WorkingJob

#: The highest speed, because torch's own waits take real time.
SPEED = 10.0
ASKED = {**compiled.ONE, "nodes": 2, "strategy": "spot", "timeout": "2h"}
PARENT = "projects/test-project/locations/us-central1"
GOING_ON = ("PIPELINE_STATE_PENDING", "PIPELINE_STATE_RUNNING")
#: The steps after which the job loses machines: twice all of them, then one.
STRIKES = (7, 14, 22)
#: Exit code of a program that has saved, or misses another machine: vgp/base/exits.py.
SAVED = 75


def restarted(folder: Path, speed: float) -> list[str]:
    asked = {**ASKED, "restart_job_on_worker_restart": True}
    return _run_job(folder, speed, asked, ["preempted", "preempted", "lost", "succeeded"])


def replaced(folder: Path, speed: float) -> list[str]:
    return _run_job(folder, speed, ASKED, ["preempted", "preempted", "succeeded"])


def _run_job(folder: Path, speed: float, asked: dict[str, Any], ends: list[str]) -> list[str]:
    """Runs the job and describes the violated conditions."""
    work = Training(folder / "prepared")
    work.prepare()
    world = World(0)
    world.always("*", "*", "*")
    with Cloud() as cloud:
        region, trace = cloud.custom_jobs.works(folder / "work", world), folder / "trace"
        cloud.pipeline_jobs.works(region.machines)
        region.machines.gpus_as_processes = True
        region.machines.environment[TRACE_VARIABLE] = str(trace)
        region.is_common = lambda code: code != SAVED
        cloud.clock.run(min(speed, SPEED))
        left = list(STRIKES)
        run = _run(cloud, work, asked, lambda: _strike(cloud, region, steps_in(trace), left))
        wrong = [str(cloud.crashed)] if cloud.crashed else []
        return [*wrong, *problems(run, region, work, steps_in(trace), ends)]


def _run(cloud: Cloud, work: Training, asked: dict[str, Any], meanwhile: Callable[[], None]) -> Any:
    """Starts the run and returns it when it has ended or the time is over."""
    from google.api_core.client_options import ClientOptions
    from google.cloud.aiplatform_v1 import PipelineServiceClient
    from google.oauth2.service_account import Credentials

    key = Credentials.from_service_account_file(cloud.environment["GOOGLE_APPLICATION_CREDENTIALS"])
    options = ClientOptions(api_endpoint=cloud.endpoint("aiplatform"))
    config = {
        "parameter_values": {"folder": str(work.folder / "data")},
        "gcs_output_directory": "gs://test-bucket/runs",
    }
    body = {"pipeline_spec": compiled.spec(work.folder, asked, work.settings), "runtime_config": config}
    with PipelineServiceClient(credentials=key, transport="rest", client_options=options) as service:
        name = service.create_pipeline_job(parent=PARENT, pipeline_job=body, pipeline_job_id="plain-1").name
        until = time.monotonic() + MOST_S
        while (run := service.get_pipeline_job(name=name)).state.name in GOING_ON and time.monotonic() < until:
            meanwhile()
            time.sleep(0.05)
    return run


def _strike(cloud: Cloud, region: Region, steps: Sequence[Step], left: list[int]) -> None:
    """Removes machines of the job once it has reached the next step of `left`."""
    if not left or not steps or max(step.number for step in steps) < left[0]:
        return
    with cloud.lock:
        for job in region.jobs.values():
            if job.state == RUNNING and not job.ending:
                left.pop(0)
                _take(job, cloud, whole=bool(left))


def _take(job: WorkingJob, cloud: Cloud, *, whole: bool) -> None:
    if whole:
        job.preempted = cloud.clock.now()
    else:
        job.lose("workerpool1-0", cloud.clock.now())


def problems(run: Any, region: Region, work: Training, steps: list[Step], ends: list[str]) -> Iterator[str]:
    if run.state.name != "PIPELINE_STATE_SUCCEEDED":
        yield f"the run ended as {run.state.name}: {run.error.message}"
    found = [[spell.why for spell in job.spells] for job in region.jobs.values()]
    if found != [ends]:
        yield f"the machines of the jobs ended: {found}"
    models = list(region.machines.mount.rglob("model/model.safetensors"))
    if [model.read_bytes() for model in models] != [work.expected_model()]:
        yield f"there are {len(models)} models, and not one with the bits of an uninterrupted run"
    again = [before.number - after.number + 1 for before, after in pairwise(steps) if after.number <= before.number]
    if not all(0 < lost <= work.every for lost in again):
        yield f"steps done again at the ends: {again}, and {work.every} may be"


ALL = (restarted, replaced)
