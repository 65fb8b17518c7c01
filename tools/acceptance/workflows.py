"""The pipelines of the acceptance: steps with the standard library only, each of which shows one behaviour."""

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

from kfp import dsl
from kfp.compiler import Compiler
from kfp.dsl import Artifact, Dataset, Input, Model, Output, PipelineTaskFinalStatus

from vgp.check.spec.pipeline_spec import PipelineSpec, as_pinned
from vgp.settings import Settings
from vgp.workflow import IMAGE
from vgp.workflow.compiling.vertex import Vertex

#: An image of Docker Hub, for a project without its own image; kfp is installed when a step starts.
PUBLIC = "python:3.11-slim"


def write(value: str, file: Output[Dataset]) -> str:
    """Writes below /gcs as a user other than root."""
    import os

    if os.getuid() == 0:
        os.setuid(1000)
    with open(file.path, "w") as out:
        out.write(value)
    file.metadata["uid"] = os.getuid()
    return value


def again(value: str, file: Output[Dataset]):
    """Writes the same bytes in every run."""
    with open(file.path, "w") as out:
        out.write(value)


def read(file: Input[Dataset]) -> str:
    """Reads an artifact."""
    with open(file.path) as text:
        return text.read()


def echo(value: str) -> str:
    """Returns a parameter."""
    return value


def turn(item: int) -> int:
    """Runs as one iteration of a loop."""
    return item


def fit(value: str, model: Output[Model]):
    """Sets metadata and URI of its output inside a custom job, and reads the version of the GPU driver."""
    import subprocess

    query = ["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout.strip()
    except OSError:
        driver = ""
    model.metadata["steps"], model.metadata["driver"] = 3, driver
    model.path = model.path + "-kept"
    with open(model.path, "w") as out:
        out.write("weights")


def stay(marks: Output[Artifact]):
    """Writes a file for each second between SIGTERM and its end, because files survive the step."""
    import os
    import signal
    import time

    os.makedirs(marks.path)

    def mark(name):
        with open(os.path.join(marks.path, name), "w") as out:
            out.write(name)

    def handle_sigterm(number, frame):
        for second in range(600):
            mark(f"sigterm-{second:03}")
            time.sleep(1)

    signal.signal(signal.SIGTERM, handle_sigterm)
    mark("began")
    time.sleep(500)


def late():
    """Takes longer than its timeout."""
    import time

    time.sleep(500)


def tick(scheduled: str) -> str:
    """Returns the scheduled time of its run."""
    return scheduled


def ended(status: PipelineTaskFinalStatus) -> str:
    """Returns the input of an exit step: the state of the steps, and the name of the run."""
    return f"{status.state} {status.pipeline_job_resource_name}"


def specs(settings: Settings, *, public: bool, gpu: bool) -> dict[str, PipelineSpec]:
    """Returns the compiled pipelines by name; `public` uses an image of Docker Hub in place of the project's."""
    image = {"base_image": PUBLIC} if public else {"base_image": IMAGE, "install_kfp_package": False}
    component = {
        step.__name__: dsl.component(**image)(step)
        for step in (write, again, read, echo, turn, stay, late, tick, ended)
    }
    training = {name: dsl.component(**image)(fit) for name in ("fit", *(["gpu"] if gpu else []))}
    target = Vertex(settings)

    @dsl.pipeline(name="acceptance-main")
    def main(value: str):
        with dsl.ExitHandler(target.step(component["ended"])()):
            written = target.step(component["write"], pinned=True)(value=value)
            target.step(component["echo"], pinned=True)(value=written.outputs["Output"])
            same = target.step(component["again"])(value=value)
            target.step(component["read"], pinned=True)(file=same.outputs["file"])
            target.job(training["fit"], pinned=True)(value=value)
            target.step(component["tick"])(scheduled=dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER)
            with dsl.ParallelFor([1, 2]) as item:
                target.step(component["turn"])(item=item)

    @dsl.pipeline(name="acceptance-stop")
    def stop():
        target.step(component["stay"])()

    @dsl.pipeline(name="acceptance-late")
    def too_late():
        target.step(component["late"])()

    @dsl.pipeline(name="acceptance-tick")
    def ticking(scheduled: str = dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER):
        target.step(component["tick"])(scheduled=dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER)

    @dsl.pipeline(name="acceptance-exits")
    def exits():
        with dsl.ExitHandler(target.step(component["ended"])()):
            target.step(component["echo"])(value="done")

    pipelines = {"main": main, "exits": exits, "stop": stop, "late": too_late, "tick": ticking}
    if gpu:
        on_gpu = Vertex(settings.model_copy(update={"steps": {"fit": settings.request("gpu")}}))

        @dsl.pipeline(name="acceptance-gpu")
        def driver():
            on_gpu.job(training["gpu"])(value="")

        pipelines["gpu"] = driver
    compiled = {name: _compile(pipeline) for name, pipeline in pipelines.items()}
    return {**compiled, "exits": _add_exit_task(compiled["exits"])}


def _add_exit_task(spec: PipelineSpec) -> PipelineSpec:
    """Returns the spec with a second exit task, which kfp refuses: `[notify] email` adds Google's like this."""
    content = json.loads(spec.text)
    tasks = content["root"]["dag"]["tasks"]
    tasks["ended-too"] = {**tasks["ended"], "taskInfo": {"name": "ended-too"}}
    return PipelineSpec(content)


def _compile(pipeline: Any) -> PipelineSpec:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "spec.json")
        Compiler().compile(pipeline, str(path))
        return as_pinned(PipelineSpec(json.loads(path.read_text())), otherwise=False)
